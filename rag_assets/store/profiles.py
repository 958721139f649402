"""Profiles: the catalogue by name, and what has been built of it for each knowledge space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg.rows import kwargs_row
from psycopg.types.json import Jsonb

from rag_assets.embedding.profiles import BUILTIN_PROFILES, EmbeddingProfile, stored_profile
from rag_assets.errors import InvalidProfile, UnknownProfile, unknown
from rag_assets.store.database import Connection, Database
from rag_assets.store.partitions import create_partition, partition_exists
from rag_assets.store.sql import query, rows, scalar, scalars
from rag_assets.store.tenants import Space


@dataclass(frozen=True)
class BuiltProfile:
    """A profile of one knowledge space, with its partition of knowledge_chunks. `origin` is where its vectors were
    made, where that depends on the machine, and `last_error` why the last run could not embed; None: neither is known.
    """

    id: int
    space_id: UUID
    tenant: str
    bot: str
    status: str
    profile: EmbeddingProfile
    origin: str | None = None
    last_error: str | None = None


def _to_built(spec: Mapping[str, Any], **columns: Any) -> BuiltProfile:
    origin, error = spec.get("origin"), spec.get("last_error")
    return BuiltProfile(profile=stored_profile(spec), origin=origin, last_error=error, **columns)


def add_spec(database: Database, profile: EmbeddingProfile) -> EmbeddingProfile:
    """Put a profile into the catalogue, and return what it has under that name: whoever says nothing of terms, or of
    the storage of the index, means those that the profile was added with.

    Raises:
        InvalidProfile: the name is taken by another spec; profiles are immutable.
    """
    with database.work() as connection:
        connection.execute(
            query("add_spec"),
            {
                "name": profile.name,
                "spec": Jsonb(profile.model_dump(mode="json")),
                "spec_hash": profile.spec_hash,
            },
        )
        known = get_spec(connection, profile.name)
        profile = _completed(profile, known)
        if known != profile:
            raise InvalidProfile(
                f"profile {profile.name!r} exists with another specification, and profiles never change: "
                "choose another name"
            )
    return known


def _completed(profile: EmbeddingProfile, known: EmbeddingProfile) -> EmbeddingProfile:
    """The profile, with what it does not say as in the other."""
    update: dict[str, Any] = {}
    if "terms" not in profile.model_fields_set:
        update["terms"] = known.terms
    if "index" not in profile.model_fields_set or "storage" not in profile.index.model_fields_set:
        update["index"] = profile.index.model_copy(update={"storage": known.index.storage})
    return profile.model_copy(update=update)


def seed_specs(database: Database) -> None:
    """Put the built-in profiles into the catalogue. One that is there stays as it is, whatever it became since: a
    profile never changes its meaning under those who use it."""
    with database.work() as connection:
        known = {spec.name for spec in list_specs(connection)}
    for profile in BUILTIN_PROFILES.values():
        if profile.name not in known:
            add_spec(database, profile)


def list_specs(connection: Connection) -> list[EmbeddingProfile]:
    """The catalogue, oldest first."""
    return [stored_profile(spec) for spec in scalars(connection, query("list_specs"), {"name": None})]


def get_spec(connection: Connection, name: str) -> EmbeddingProfile:
    """One profile of the catalogue.

    Raises:
        UnknownProfile: with the names that look like it, or those that exist.
    """
    spec = scalar(connection, query("list_specs"), {"name": name})
    if spec is None:
        way_out = f"Add it with: rag profile add {name} ..."
        raise unknown("profile", name, [profile.name for profile in list_specs(connection)], way_out=way_out)
    return stored_profile(spec)


def built_profiles(
    connection: Connection, tenant: str, bot: str | None = None, name: str | None = None
) -> list[BuiltProfile]:
    """What is built or being built for a tenant, oldest first; retired profiles are left out."""
    values = {"tenant": tenant, "bot": bot, "name": name}
    return rows(connection, kwargs_row(_to_built), query("list_built_profiles"), values)


def built_profile(connection: Connection, tenant: str, bot: str, name: str) -> BuiltProfile:
    """What is built, or being built, of one profile for a bot.

    Raises:
        UnknownProfile: there is no such profile at all, or it is not built for this bot; says how to build it.
    """
    found = built_profiles(connection, tenant, bot)
    for built in found:
        if built.profile.name == name:
            return built
    get_spec(connection, name)
    complete = [built.profile.name for built in found if built.status in ("ready", "active")]
    raise UnknownProfile(
        f"profile {name!r} is not built for bot {bot!r} of tenant {tenant!r}; built are: "
        f"{', '.join(complete) or 'none'}. Build it with: rag ingest --tenant {tenant} --bot {bot} --profile {name}"
    )


def retired_profiles(connection: Connection, space: Space, soak_days: float) -> list[BuiltProfile]:
    """What was retired at least so many days ago and is not dropped yet, oldest first."""
    values = {"space": space.id, "soak_days": soak_days}
    return rows(connection, kwargs_row(_to_built), query("retired_profiles"), values)


def profiles_so_far(connection: Connection, space: Space) -> list[BuiltProfile]:
    """All that a bot has and had: also profiles that are retired, or dropped since."""
    return rows(connection, kwargs_row(_to_built), query("profiles_so_far"), {"space": space.id})


def enable_profile(database: Database, space: Space, profile: EmbeddingProfile) -> BuiltProfile:
    """Start building `profile` for `space`, or return what has been built; makes sure of its partition.

    Idempotent: a process that was killed between the row and the partition leaves nothing to clean up.
    """
    with database.work(space.tenant) as connection:
        values = {
            column: Jsonb(value) if isinstance(value, dict) else value
            for column, value in profile.model_dump(mode="json").items()
        }
        added = connection.execute(
            query("add_built_profile"),
            {
                **values,
                "space": space.id,
                "tenant": space.tenant,
                "bot": space.bot,
                "spec_hash": profile.spec_hash,
            },
        )
        (built,) = built_profiles(connection, space.tenant, space.bot, profile.name)
        connection.execute(query("add_index_state"), {"profile": built.id, "tenant": space.tenant, "bot": space.bot})
        if added.rowcount:
            record_event(connection, built, "created", {"spec_hash": profile.spec_hash})
        complete = partition_exists(connection, built.id)
        if not complete:
            connection.execute(query("lock_profile"), {"profile": built.id})
            if not partition_exists(connection, built.id):
                # New, or its table was dropped by hand: then what is recorded as published is published no more.
                connection.execute(query("forget_publication"), {"profile": built.id})
    if not complete:
        create_partition(database, built.id, profile.dimensions, space)
    return built


def note_embedding(database: Database, built: BuiltProfile, origin: str | None, error: str | None) -> None:
    """Write down how a run's embedding has ended: where the vectors were made, unless that is known, and the `error`
    that kept it from going on (None: there was none). Nothing is written where nothing is new."""
    if (built.origin or origin) == built.origin and error == built.last_error:
        return
    with database.work(built.tenant, built.bot) as connection:
        values = {"profile": built.id, "origin": origin, "error": error}
        connection.execute(query("note_embedding"), values)


def record_event(connection: Connection, built: BuiltProfile, event: str, evidence: dict[str, Any]) -> None:
    """Add a line to the audit of the profile."""
    connection.execute(
        query("add_event"),
        {
            "tenant": built.tenant,
            "bot": built.bot,
            "space": built.space_id,
            "profile": built.id,
            "event": event,
            "evidence": Jsonb(evidence),
        },
    )


def complete_profile(connection: Connection, built: BuiltProfile) -> bool:
    """Mark the profile ready if every readable source is published in it; the first one of a space becomes
    active. True if it is active as a result."""
    scope = {"profile": built.id, "space": built.space_id}
    if connection.execute(query("mark_complete_profile"), scope).fetchone() is None:
        return False
    record_event(connection, built, "ready", {})
    if connection.execute(query("activate_first_profile"), scope).fetchone() is None:
        return False
    connection.execute(query("set_profile_active"), scope)
    record_event(connection, built, "activated", {"reason": "first complete profile of this bot"})
    return True
