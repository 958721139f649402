"""Tenants, their bots and knowledge spaces."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from psycopg.rows import class_row

from rag_assets.errors import UnknownBot, UnknownTenant
from rag_assets.keys import check_key
from rag_assets.store.database import Connection, Database
from rag_assets.store.sql import query, rows, scalars


@dataclass(frozen=True)
class Space:
    """A bot's knowledge space."""

    id: UUID
    tenant: str
    bot: str
    active_profile_id: int | None


def add_tenant(database: Database, tenant: str, bot: str | None = None) -> bool:
    """Create the tenant, and the bot with its knowledge space if one is named; True if anything was new.

    Raises:
        InvalidKey: before anything is written.
    """
    check_key(tenant, "tenant")
    if bot is not None:
        check_key(bot, "bot")
    with database.work(tenant) as connection:
        keys = {"tenant": tenant, "bot": bot}
        created = connection.execute(query("add_tenant"), keys).fetchone() is not None
        if bot is not None:
            created |= connection.execute(query("add_bot"), keys).fetchone() is not None
            connection.execute(query("add_space"), keys)
    return created


def list_tenants(database: Database) -> list[str]:
    """All tenants, sorted."""
    with database.work() as connection:
        return scalars(connection, query("list_tenants"))


def list_bots(database: Database, tenant: str) -> list[str]:
    """All bots of a tenant, sorted."""
    with database.work(tenant) as connection:
        return scalars(connection, query("list_bots"), {"tenant": tenant})


def spaces_of(connection: Connection, tenant: str, bot: str | None = None) -> list[Space]:
    """The knowledge spaces of a tenant, or of one bot of it.

    Raises:
        UnknownTenant, UnknownBot: with the names that exist.
    """
    spaces = rows(connection, class_row(Space), query("list_spaces"), {"tenant": tenant, "bot": bot})
    if not spaces:
        tenants = scalars(connection, query("list_tenants"))
        if tenant not in tenants:
            raise UnknownTenant(f"no tenant {tenant!r}; {_known('tenants', tenants)}")
        if bot is not None:
            bots = scalars(connection, query("list_bots"), {"tenant": tenant})
            raise UnknownBot(f"tenant {tenant!r} has no bot {bot!r}; {_known('bots', bots)}")
    return spaces


def _known(kind: str, names: list[str]) -> str:
    return f"its {kind} are: {', '.join(names)}" if names else f"there are no {kind} yet"
