"""The source roots that each bot remembers."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from psycopg.rows import class_row

from rag_assets.store.database import Connection, Database
from rag_assets.store.sql import query, rows
from rag_assets.store.tenants import spaces_of


@dataclass(frozen=True)
class Root:
    """A folder, file or URL that a bot's sources come from."""

    id: UUID
    space_id: UUID
    tenant: str
    bot: str
    uri: str


def add_root(database: Database, tenant: str, bot: str, uri: str) -> None:
    """Remember a source root of the bot; a root that is known already stays as it is."""
    with database.work(tenant) as connection:
        space = spaces_of(connection, tenant, bot)[0]
        connection.execute(query("add_root"), {"space": space.id, "tenant": tenant, "bot": bot, "uri": uri})


def list_roots(connection: Connection, tenant: str, bot: str | None = None) -> list[Root]:
    """The remembered roots of a tenant or bot, oldest first."""
    return rows(connection, class_row(Root), query("list_roots"), {"tenant": tenant, "bot": bot})


def record_scan(connection: Connection, root: Root, error: str | None) -> None:
    """Note that the root was looked at just now, and why it could not be read, if so."""
    connection.execute(query("root_scanned"), {"root": root.id, "error": error})
