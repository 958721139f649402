"""Sources that must go at once and stay away: withdrawn from every profile, with a mark in their place."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg import sql
from psycopg.rows import kwargs_row
from psycopg.types.json import Jsonb

from rag_assets.sources.secrets import shown_text
from rag_assets.store.database import Connection
from rag_assets.store.sources import PendingSource, StagedSource, pending_source
from rag_assets.store.sql import query, rows, scalars
from rag_assets.store.tenants import Space

_NAMED = 20  # in the audit


@dataclass(frozen=True)
class Forgotten:
    """What was taken away: `chunks` by profile, `versions` of documents, and cached `vectors`."""

    chunks: Mapping[str, int]
    versions: int
    vectors: int


def stored_versions(connection: Connection, sources: Sequence[UUID]) -> list[PendingSource]:
    """Every version of these sources whose text is kept; one that is embedded as a file comes with its media."""
    return rows(connection, kwargs_row(pending_source), query("stored_versions"), {"sources": list(sources)})


def shared_contents(
    connection: Connection, tenant: str, sources: Sequence[UUID], contents: Collection[str]
) -> set[str]:
    """Those of these chunks that other sources of the tenant have, too."""
    values = {"tenant": tenant, "sources": list(sources), "contents": list(contents)}
    return set(scalars(connection, query("shared_contents"), values))


def shared_media(connection: Connection, tenant: str, sources: Sequence[UUID]) -> set[str]:
    """The checksums of files that other sources of the tenant are, too."""
    return set(scalars(connection, query("shared_media"), {"tenant": tenant, "sources": list(sources)}))


def forget_sources(connection: Connection, space: Space, sources: Sequence[UUID], hashes: Sequence[bytes]) -> Forgotten:
    """Withdraw sources from every profile of their space and delete their texts and the cached vectors with these
    `hashes`, in the transaction that is open; once it commits nobody finds them, and no run that is under way brings
    them back."""
    values: dict[str, Any] = {"space": space.id, "tenant": space.tenant, "bot": space.bot, "sources": list(sources)}
    profiles: dict[int, str] = dict(connection.execute(query("profiles_of_space"), values).fetchall())
    for profile in profiles:
        # Who publishes into the profile holds this lock; what comes later finds the mark.
        connection.execute(query("lock_profile"), {"profile": profile})
    names: list[str] = scalars(connection, query("mark_forgotten"), values)
    chunks: dict[str, int] = {}
    for profile, name in profiles.items():
        statement = sql.SQL(query("delete_chunks_of_sources")).format(profile=sql.Literal(profile))
        chunks[name] = chunks.get(name, 0) + connection.execute(statement, values).rowcount
    connection.execute(query("withdraw_everywhere"), values)
    versions = connection.execute(query("drop_all_documents"), values).rowcount
    vectors = connection.execute(query("forget_vectors"), {**values, "hashes": list(hashes)}).rowcount
    _record(connection, space, "forgotten", names)
    return Forgotten({name: count for name, count in chunks.items() if count}, versions, vectors)


def allow_sources(connection: Connection, space: Space, sources: Sequence[UUID]) -> int:
    """Let forgotten sources be read again by the next scan; returns how many there were."""
    names: list[str] = scalars(connection, query("allow_sources"), {"space": space.id, "sources": list(sources)})
    if names:
        _record(connection, space, "allowed", names)
    return len(names)


def confirm_forgotten(connection: Connection, sources: Sequence[StagedSource]) -> None:
    """Note that these stand unchanged in the file as it is now."""
    values = {"sources": [one.id for one in sources], "files": [one.file_checksum for one in sources]}
    if sources:
        connection.execute(query("confirm_forgotten"), values)


def _record(connection: Connection, space: Space, event: str, names: Sequence[str]) -> None:
    evidence = {"sources": len(names), "names": [shown_text(name) for name in names[:_NAMED]]}
    connection.execute(
        query("add_event"),
        {
            "tenant": space.tenant,
            "bot": space.bot,
            "space": space.id,
            "profile": None,
            "event": event,
            "evidence": Jsonb(evidence),
        },
    )
