"""What is known of a bot's sources, from the root that holds them to the profiles that serve them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from uuid import UUID

from psycopg.rows import class_row, dict_row

from rag_assets.documents.names import is_web, part_name
from rag_assets.documents.poor import poor_reasons
from rag_assets.errors import UsageError
from rag_assets.printing import counted
from rag_assets.sources.secrets import shown_text, without_secrets
from rag_assets.store.attempts import FailedWork, failed_work
from rag_assets.store.database import Connection
from rag_assets.store.sql import query, rows, scalar, scalars

_NAMED = 5  # that a message lists


@dataclass(frozen=True)
class Listing:
    """Sources, each with its state in every profile under `profiles`; `matching` counts those past a limit, too."""

    sources: Sequence[dict[str, Any]]
    matching: int


@dataclass(frozen=True)
class Filter:
    """Which sources to list: those of a status, those with some words in their name, file or place, and those of
    these ids."""

    status: str | None = None
    like: str | None = None
    limit: int | None = None
    ids: Sequence[UUID] | None = None


ALL = Filter()


@dataclass(frozen=True)
class NamedSource:
    """A source as people may name it. `file` is its path under its root, `place` where in that it stands."""

    id: UUID
    name: str
    external_id: str
    file: str
    place: str | None
    status: str

    @property
    def label(self) -> str:
        """Its file and its own name."""
        where = part_name(self.file, self.place or "")
        label = self.name if self.name in (where, self.file) else f"{self.name} ({self.file}, {self.place})"
        return without_secrets(label, self.external_id)


def list_sources(connection: Connection, tenant: str, bot: str, wanted: Filter = ALL) -> Listing:
    """The bot's sources, by external id; `visibility` says whether `bot`, `tenant` or one `user` sees a source."""
    found = rows(connection, dict_row, query("sources_overview"), {**_values(tenant, bot), **vars(wanted)})
    matching = [row.pop("matching") for row in found]
    return Listing(
        [without_secrets(row, row["external_id"], row["root"]) for row in found], matching[0] if matching else 0
    )


def list_files(connection: Connection, tenant: str, bot: str, wanted: Filter) -> list[dict[str, Any]]:
    """The files that the bot's sources come from, by root and path, with the number of sources by status."""
    found = rows(connection, dict_row, query("sources_by_file"), {**_values(tenant, bot), **vars(wanted)})
    return [without_secrets(row, row["file"], row["root"]) for row in found]


def count_failed_served(connection: Connection, tenant: str, bot: str, profile: str) -> int:
    """Of how many of the bot's failed sources the profile serves what was published before."""
    return int(scalar(connection, query("count_failed_served"), {**_values(tenant, bot), "profile": profile}))


def named_sources(connection: Connection, tenant: str, bot: str, name: str) -> list[NamedSource]:
    """What somebody means by a name, also where that is a path on this machine; raises as `find_sources`."""
    uri = name if "://" in name or is_web(name) else Path(name).expanduser().absolute().resolve().as_uri()
    return find_sources(connection, tenant, bot, name, uri)


def find_sources(connection: Connection, tenant: str, bot: str, name: str, uri: str) -> list[NamedSource]:
    """The sources that somebody means by `name`, or by `uri`, what that is as a path: one, with what lies inside it, or
    all of a file.

    It is an id, a name, a path, or a part of these that only one source or file has.

    Raises:
        UsageError: there is none, with names like it; or there are several.
    """
    values = {**_values(tenant, bot), "name": name, "uri": uri}
    found = rows(connection, class_row(NamedSource), query("matching_sources"), values)
    exact = [
        one for one in found if name in (str(one.id), one.name, one.external_id, part_name(one.file, one.place or ""))
    ]
    exact += [one for one in found if one.external_id == uri and one not in exact]
    files = [one for one in found if name == one.file or _file_of(one) == uri]
    if len(exact) == 1:
        return [one for one in found if _is_in(one, exact[0])]
    meant = files or found
    # Files of the same name under two roots are two: what is named is forgotten, too.
    if not exact and len(set(map(_file_of, meant))) == 1 and (files or len(found) == 1 or _is_part(name, found[0])):
        return meant
    raise UsageError(_unclear(connection, tenant, bot, name, exact or meant))


def _file_of(one: NamedSource) -> str:
    return one.external_id.partition("#")[0]


def _is_part(name: str, one: NamedSource) -> bool:
    return name.lower() in one.file.lower()


def _is_in(one: NamedSource, outer: NamedSource) -> bool:
    return one.external_id == outer.external_id or one.external_id.startswith(f"{outer.external_id}#")


def _unclear(connection: Connection, tenant: str, bot: str, name: str, found: Sequence[NamedSource]) -> str:
    if found:
        named = "; ".join(f"{one.label}, id {one.id}" for one in found[:_NAMED])
        more = f"; and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        these = f"{counted(len(found), 'source')} of {tenant}/{bot}"
        return f"{name!r} may be any of {these}: {named}{more}. Name one by its id"
    known: list[str] = scalars(connection, query("source_names"), _values(tenant, bot))
    close = [shown_text(one) for one in get_close_matches(name, known, n=3, cutoff=0.5)]
    hint = f"did you mean {', '.join(map(repr, close))}?" if close else "`rag sources` lists them"
    return f"{tenant}/{bot} has no source {name!r}; {hint}"


def source_life(connection: Connection, source: UUID) -> dict[str, Any]:
    """What happened to a source so far, step by step, JSON-ready but for ids and times."""
    (life,) = rows(connection, dict_row, query("source_life"), {"source": source})
    metadata: Mapping[str, Any] = life.pop("metadata")
    life["quality"] = metadata.get("quality", {})
    life["poor"] = [reason.words for reason in poor_reasons(life["quality"])]
    life["document"] = metadata.get("doc_id")
    life["profiles"] = rows(connection, dict_row, query("source_life_in_profiles"), {"source": source})
    failed = {one.profile: one for one in failed_work(connection, life["tenant"])}
    life["next_try"] = _next_try(life, failed)
    return without_secrets(life, life["external_id"], life["root"])


def _next_try(life: Mapping[str, Any], failed: Mapping[str | None, FailedWork]) -> str:
    """When something will be done about the source again, and how to have it done now. `failed`: of which work of its
    tenant the last attempts have failed, by profile; that of no profile is reading."""
    now = f"rag ingest --tenant {life['tenant']} --bot {life['bot']}"
    if life["status"] == "forgotten":
        return "it is read again when it changes, or after `rag forget --undo`"
    if life["held_since"]:
        return "it is taken away when its loss is confirmed, and stays if it comes back"
    again = [
        f"{one['profile']}: {one['next_try_at']:%Y-%m-%d %H:%M:%S}" for one in life["profiles"] if one["next_try_at"]
    ]
    if again:
        return f"what a model gave no answer for is sent again by the first run after {', '.join(again)}"
    if life["status"] in ("failed", "no_text") and life["failed_stage"] != "publish":
        if life["bytes"] is None:
            scan = f"its file is read again by the next scan of its root{_due(life['next_scan_at'])}, or by `{now}`"
            return f"{scan}; reading the tenant's sources {failed[None]}" if None in failed else scan
        return f"its file is read again when it changes, or by `{now} --retry-failed`"
    waiting = [profile["profile"] for profile in life["profiles"] if profile["work"] and profile["waits_for"]]
    if waiting:
        return f"{', '.join(waiting)}: when the batch job has ended"
    pending = [profile["profile"] for profile in life["profiles"] if profile["work"] not in (None, "failed")]
    if pending:
        tried = [f"{name} {failed[name]}" if name in failed else f"{name}: by its next run" for name in pending]
        return f"{'; '.join(tried)}; or now by `{now}`, with --profile for one that is not active"
    if any(profile["work"] == "failed" for profile in life["profiles"]):
        return f"it is published again when its file changes, or by `{now} --retry-failed`"
    if life.get("poor"):
        return "it is served as it was read; it is read anew when its file changes, or its root is told an --encoding"
    return "nothing is to be done until its file changes"


def _due(moment: datetime | None) -> str:
    return f", due {moment:%Y-%m-%d %H:%M:%S}" if moment else ""


def _values(tenant: str, bot: str) -> dict[str, Any]:
    return {"tenant": tenant, "bot": bot}
