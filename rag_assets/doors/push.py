"""Push: an application hands over a document, and the next ingest makes a source of it as of any file.

    push_document(database, "acme", "support", "faq-17", "# Returns ...", metadata={"team": "sales"})
    pushed_status(database, "acme", "support", "faq-17")["state"]  # received, then ingested
    delete_pushed(database, "acme", "support", "faq-17")

A document is written under row-level security into the scope that is named, and into no other: what a user pushes is
that user's alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rag_assets.documents.checksum import bytes_checksum
from rag_assets.documents.names import media_type
from rag_assets.errors import InvalidArgument, PushLimitReached, UnknownBot, UnknownSource, shown
from rag_assets.keys import check_key
from rag_assets.printing import counted
from rag_assets.retrieval.arguments import check_text
from rag_assets.retrieval.steps import Steps, adrive, ask, drive
from rag_assets.settings import Settings, load_settings
from rag_assets.store.actor import current_actor
from rag_assets.store.database import Database
from rag_assets.store.pushed import PushedRow, PushedVersion, delete_statement, push_statement, status_statement

MAX_NAME_BYTES, MAX_TYPE_CHARS = 1000, 200  # of keys, names and users, as UTF-8
MAX_METADATA_CHARS = 20_000  # as JSON
_TEXT = "text/plain; charset=utf-8"
_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+\s*(;[ -~]*)?", re.ASCII)
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")  # as JSON writes it
_MEGABYTE = 2**20


@dataclass(frozen=True)
class _Owner:
    """Under which scope a document is written."""

    tenant: str
    bot: str
    user: str | None

    @property
    def settings(self) -> Mapping[str, str | None]:
        return {"tenant": self.tenant, "bot": self.bot, "user": self.user}


def push_document(
    database: Database,
    tenant: str,
    bot: str,
    key: str,
    data: str | bytes,
    *,
    name: str | None = None,
    content_type: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    user: str | None = None,
    by: str | None = None,
) -> dict[str, Any]:
    """Keep a document for the bot, or for one user of it alone; the next ingest reads it.

    Pushed again under the same key it is another version of the same source. What has not changed is not written.

    Args:
        key: the caller's own name of the document: up to 1,000 bytes, of printable characters.
        data: text, or the bytes of a file; at most 20 MB (RAG_PUSH_FILE_MB).
        name: what people know it by; its ending says what kind of file it is. (default: the key)
        content_type: what kind of file it is, where the name does not say it. (default of text: text/plain)
        metadata: what searches can filter by; at most 20,000 characters as JSON.
        by: who is written down as having pushed it. (default: the user of the operating system)

    Returns:
        `id` (the key), `outcome`: `pushed`, `unchanged`, or `forgotten` (the same content was forgotten, and is not
        read again); and `checksum` and `bytes` of the content.

    Raises:
        InvalidArgument: names the argument that is out of bounds or of the wrong kind; nothing was kept.
        PushLimitReached: the bot has as many documents, or bytes of them, as it may.
        UnknownBot: no such tenant or bot.
        DatabaseUnavailable, DatabaseRefused, DatabaseFailed: as a search.
    """
    settings = load_settings()
    version = _version(key, data, name, content_type, metadata, settings)
    return drive(database, _pushing(_owner(tenant, bot, user), version, by, settings))


async def apush_document(
    database: Database,
    tenant: str,
    bot: str,
    key: str,
    data: str | bytes,
    *,
    name: str | None = None,
    content_type: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    user: str | None = None,
    by: str | None = None,
) -> dict[str, Any]:
    """As `push_document`, for tasks of an event loop."""
    settings = load_settings()
    version = _version(key, data, name, content_type, metadata, settings)
    return await adrive(database, _pushing(_owner(tenant, bot, user), version, by, settings))


def pushed_status(database: Database, tenant: str, bot: str, key: str, *, user: str | None = None) -> dict[str, Any]:
    """What became of a pushed document.

    Returns:
        `state`: `received` (an ingest has yet to read or publish it), `ingested` (the active profile serves it as it
        is), `failed` (`error` says why; a version before stays served), `no_text`, `forgotten` or `deleted`; further
        `id`, `name`, `content_type`, `bytes`, `checksum`, `metadata`, `user`, `pushed_at`, `pushed_by`, `deleted_at`,
        how many `sources` it is and the `source_ids` of the first 20, and by name of the `profiles` their states.

    Raises:
        InvalidArgument: the key is none.
        UnknownSource: nothing was pushed under this key, in this scope.
        DatabaseUnavailable, DatabaseRefused, DatabaseFailed: as a search.
    """
    return drive(database, _asking(_owner(tenant, bot, user), _key(key)))


async def apushed_status(
    database: Database, tenant: str, bot: str, key: str, *, user: str | None = None
) -> dict[str, Any]:
    """As `pushed_status`, for tasks of an event loop."""
    return await adrive(database, _asking(_owner(tenant, bot, user), _key(key)))


def delete_pushed(database: Database, tenant: str, bot: str, key: str, *, user: str | None = None) -> bool:
    """Delete a pushed document: its content now, and its chunks by the next ingest. Returns whether there was one.

    Raises:
        InvalidArgument: the key is none.
        DatabaseUnavailable, DatabaseRefused, DatabaseFailed: as a search.
    """
    return drive(database, _deleting(_owner(tenant, bot, user), _key(key)))


async def adelete_pushed(database: Database, tenant: str, bot: str, key: str, *, user: str | None = None) -> bool:
    """As `delete_pushed`, for tasks of an event loop."""
    return await adrive(database, _deleting(_owner(tenant, bot, user), _key(key)))


def _pushing(owner: _Owner, version: PushedVersion, by: str | None, settings: Settings) -> Steps[dict[str, Any]]:
    most_bytes = int(settings.push_total_mb * _MEGABYTE)
    actor = current_actor() if by is None else _name(by, "by")
    statement = push_statement(version, owner.user, actor, settings.push_documents, most_bytes)
    ((row,),) = yield from ask(owner.settings, statement)
    outcome: str = row.outcome
    if outcome == "unknown":
        raise UnknownBot(
            f"no bot {owner.bot!r} of tenant {owner.tenant!r}. Create it with: "
            f"rag tenant add {owner.tenant} --bot {owner.bot}"
        )
    if outcome == "documents":
        most = counted(settings.push_documents, "document")
        raise PushLimitReached(f"bot {owner.bot!r} of tenant {owner.tenant!r} may have {most} (RAG_PUSH_DOCUMENTS)")
    if outcome == "bytes":
        raise PushLimitReached(
            f"bot {owner.bot!r} of tenant {owner.tenant!r} may have {settings.push_total_mb:g} MB of pushed documents "
            "(RAG_PUSH_TOTAL_MB)"
        )
    return {"id": version.key, "outcome": outcome, "checksum": version.checksum, "bytes": len(version.content)}


def _asking(owner: _Owner, key: str) -> Steps[dict[str, Any]]:
    (rows,) = yield from ask(owner.settings, status_statement(owner.user, key))
    if not rows:
        raise UnknownSource(f"nothing was pushed as {shown(key)} for bot {owner.bot!r} of tenant {owner.tenant!r}")
    return _told(rows[0])


def _deleting(owner: _Owner, key: str) -> Steps[bool]:
    (rows,) = yield from ask(owner.settings, delete_statement(key))
    return bool(rows)


def _told(row: PushedRow) -> dict[str, Any]:
    state, error = _state(row)
    return {
        "id": row.key,
        "state": state,
        "error": error,
        "name": row.name,
        "content_type": row.content_type,
        "bytes": row.bytes,
        "checksum": row.checksum,
        "metadata": row.metadata,
        "user": row.user,
        "pushed_at": row.pushed_at.isoformat(),
        "pushed_by": row.pushed_by,
        "deleted_at": row.deleted_at.isoformat() if row.deleted_at else None,
        "sources": row.sources,
        "source_ids": [str(one) for one in row.source_ids or ()],
        "profiles": {one["profile"]: _profile_state(one, row.sources) for one in row.profiles},
    }


def _state(row: PushedRow) -> tuple[str, str | None]:
    """How far a document is, and what is wrong with it."""
    statuses = set(row.statuses or ())
    if row.deleted_at is not None:
        return "deleted", None
    if row.forgotten_at is not None or statuses == {"forgotten"}:
        return "forgotten", None
    if not row.is_read:
        return "received", None
    if "failed" in statuses:
        return "failed", row.error
    if statuses == {"no_text"}:
        return "no_text", "no text was found in it"
    active = next((one for one in row.profiles if one["is_active"]), None)
    if active is None:
        return "received", None
    state = _profile_state(active, row.sources)
    return state, active["error"] if state == "failed" else None


def _profile_state(one: Mapping[str, Any], sources: int) -> str:
    if sources and one["current"] >= sources:
        return "ingested"
    return "failed" if one["error"] else "received"


def _owner(tenant: str, bot: str, user: str | None) -> _Owner:
    check_key(tenant, "tenant")
    check_key(bot, "bot")
    return _Owner(tenant, bot, None if user is None else _name(user, "user"))


def _version(
    key: object, data: object, name: object, content_type: object, metadata: object, settings: Settings
) -> PushedVersion:
    checked = _key(key)
    content = check_text(data, "data").encode() if isinstance(data, str) else data
    if not isinstance(content, bytes | bytearray | memoryview):
        raise InvalidArgument(f"data must be text or bytes, got {type(data).__name__}", "data")
    content, most = bytes(content), settings.push_file_mb
    if not content:
        raise InvalidArgument("data is empty; to take a document away, delete it", "data")
    if len(content) > most * _MEGABYTE:
        raise InvalidArgument(f"data is larger than {most:g} MB (RAG_PUSH_FILE_MB)", "data")
    given = checked if name is None else _name(name, "name")
    kind = _content_type(content_type, isinstance(data, str))
    return PushedVersion(checked, given, content, kind, _metadata(metadata), bytes_checksum(content))


def _key(key: object) -> str:
    return _name(key, "key")


def _name(value: object, argument: str) -> str:
    text = check_text(value, argument)
    if not text.strip() or text != text.strip() or not text.isprintable() or len(text.encode()) > MAX_NAME_BYTES:
        raise InvalidArgument(
            f"{argument} must be 1 to {MAX_NAME_BYTES:,} bytes of printable characters, without spaces around them, "
            f"got {shown(text)}",
            argument,
        )
    return text


def _content_type(value: object, is_text: bool) -> str | None:
    if value is None:
        return _TEXT if is_text else None
    text = check_text(value, "content_type").strip()
    if len(text) > MAX_TYPE_CHARS or not _TYPE.fullmatch(text):
        raise InvalidArgument(
            f"content_type must be one like text/html, of at most {MAX_TYPE_CHARS} characters, got {shown(text)}",
            "content_type",
        )
    return f"{media_type(text)}; charset=utf-8" if is_text else text


def _metadata(value: object) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise InvalidArgument(f"metadata must be an object with strings as keys, got {shown(value)}", "metadata")
    for name in value:
        if name.startswith("rag:") or name == "doc_id":
            raise InvalidArgument(f"metadata: {shown(name)} is written by the ingest itself", "metadata")
    try:
        text = json.dumps(dict(value), allow_nan=False, ensure_ascii=False)
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"metadata is no JSON that Postgres can hold: {error}", "metadata") from error
    if len(text) > MAX_METADATA_CHARS or _NUL.search(text):
        raise InvalidArgument(
            f"metadata must have at most {MAX_METADATA_CHARS:,} characters as JSON, and no NUL", "metadata"
        )
    known: Mapping[str, Any] = json.loads(text)
    return known
