"""Pushed documents: kept by an application under its scope, and read by a scan as files are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from rag_assets.sources.pushed import parts_of, pushed_uri
from rag_assets.store.database import Connection
from rag_assets.store.roots import Root
from rag_assets.store.sources import hash_uri
from rag_assets.store.sql import query, rows, scalar, scalars
from rag_assets.store.statements import Statement
from rag_assets.store.tenants import Space


@dataclass(frozen=True)
class PushedVersion:
    """A document as it is pushed; `checksum` is that of its bytes."""

    key: str
    name: str
    content: bytes
    content_type: str | None
    metadata: Mapping[str, Any]
    checksum: str


@dataclass(frozen=True)
class PushedRow:
    """What is known of a pushed document. `statuses` are those of its `sources`, of which `source_ids` has the first
    20; `profiles` has, by profile, how many of them it serves as they are now."""

    key: str
    name: str
    content_type: str | None
    bytes: int
    checksum: str
    metadata: dict[str, Any]
    user: str | None
    pushed_at: datetime
    pushed_by: str
    deleted_at: datetime | None
    forgotten_at: datetime | None
    is_read: bool
    sources: int
    statuses: list[str] | None
    error: str | None
    source_ids: list[UUID] | None
    profiles: list[dict[str, Any]]


@dataclass(frozen=True)
class PushedFile:
    """A pushed document as a scan lists it."""

    id: int
    key: str
    name: str
    content_type: str | None
    bytes: int
    metadata: dict[str, Any]
    pushed_at: datetime


def push_statement(
    version: PushedVersion, user: str | None, actor: str, most_documents: int, most_bytes: int
) -> Statement:
    """Keeps a document under the scope; its one row has the `outcome`, as rag.push_document says it."""
    values = {
        "key": version.key,
        "name": version.name,
        "content": version.content,
        "content_type": version.content_type,
        "metadata": Jsonb(dict(version.metadata)),
        "checksum": version.checksum,
        "file_hash": hash_uri(pushed_uri(user, version.key)),
        "actor": actor,
        "most_documents": most_documents,
        "most_bytes": most_bytes,
    }
    return Statement(query("push_document"), values, on_primary=True)


def delete_statement(key: str) -> Statement:
    """Deletes a document of the scope; no row where there is none."""
    return Statement(query("delete_pushed"), {"key": key}, on_primary=True)


def status_statement(user: str | None, key: str) -> Statement:
    """At most one `PushedRow`."""
    values = {"key": key, "file_hash": hash_uri(pushed_uri(user, key))}
    return Statement(query("pushed_status"), values, class_row(PushedRow), on_primary=True)


def pushed_files(connection: Connection, root: Root) -> list[PushedFile]:
    """What lies under a root of pushed documents, by key."""
    values = {"tenant": root.tenant, "bot": root.bot, "user": root.options.user}
    return rows(connection, class_row(PushedFile), query("pushed_files"), values)


def pushed_content(connection: Connection, document: int) -> bytes | None:
    """The bytes of a document; None where they are not kept any more."""
    content: bytes | None = scalar(connection, query("pushed_content"), {"id": document})
    return content


def content_by_key(connection: Connection, tenant: str, bot: str, user: str | None, key: str) -> bytes | None:
    """The same, by whose document it is and its key."""
    values = {"tenant": tenant, "bot": bot, "user": user, "key": key}
    content: bytes | None = scalar(connection, query("pushed_content_by_key"), values)
    return content


def note_read(connection: Connection, documents: Iterable[tuple[int, datetime]]) -> None:
    """Note which versions of documents a scan has read, in the transaction that writes their sources."""
    seen = list(documents)
    if seen:
        connection.execute(query("pushed_read"), {"ids": [one for one, _ in seen], "times": [at for _, at in seen]})


def drop_old(connection: Connection, root: Root) -> None:
    """Drop what is left of documents that were deleted a month ago."""
    connection.execute(query("drop_old_pushed"), {"tenant": root.tenant, "bot": root.bot})


def drop_forgotten(connection: Connection, space: Space, sources: Iterable[UUID]) -> None:
    """Delete the bytes of documents all of whose sources are forgotten, these among them."""
    values = {"space": space.id, "sources": list(sources)}
    for uri in scalars(connection, query("wholly_forgotten_pushed"), values):
        user, key = parts_of(uri)
        connection.execute(query("forget_pushed"), {"tenant": space.tenant, "bot": space.bot, "user": user, "key": key})
