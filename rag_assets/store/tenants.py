"""Tenants, their bots and knowledge spaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from psycopg.rows import class_row

from rag_assets.errors import UsageError, unknown
from rag_assets.keys import check_key
from rag_assets.store.database import Connection, Database
from rag_assets.store.sql import query, rows, scalars

SHARED_BOT = "all-bots"  # whose space all bots of its tenant search beside their own


@dataclass(frozen=True)
class Space:
    """A bot's knowledge space."""

    id: UUID
    tenant: str
    bot: str
    active_profile_id: int | None
    canary_profile_id: int | None = None


def add_tenant(database: Database, tenant: str, bot: str | None = None) -> bool:
    """Create the tenant, and the bot with its knowledge space if one is named; True if anything was new. The space of
    `SHARED_BOT` is what all bots of the tenant share.

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
            visibility = "tenant" if bot == SHARED_BOT else "bot"
            connection.execute(query("add_space"), {**keys, "visibility": visibility})
    return created


def share_with_tenant(database: Database, tenant: str) -> None:
    """Make the space that all bots of the tenant search beside their own, unless it is there.

    Raises:
        UsageError: the tenant has a bot of that name that is one like the others.
    """
    add_tenant(database, tenant, SHARED_BOT)
    with database.work(tenant) as connection:
        found = scalars(connection, query("space_visibility"), {"tenant": tenant, "bot": SHARED_BOT})
    if found != ["tenant"]:
        raise UsageError(
            f"tenant {tenant!r} has a bot {SHARED_BOT!r} of its own, where what all bots share would lie. Its sources "
            f"must go to a bot of another name first, and then: rag erase --tenant {tenant} --bot {SHARED_BOT}"
        )


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
        UnknownTenant, UnknownBot: with the names that look like it, or the tenant's bots.
    """
    spaces = rows(connection, class_row(Space), query("list_spaces"), {"tenant": tenant, "bot": bot})
    if not spaces:
        tenants = scalars(connection, query("list_tenants"))
        if tenant not in tenants:
            raise unknown_tenant(tenant, tenants)
        if bot is not None:
            raise unknown_bot(tenant, bot, scalars(connection, query("list_bots"), {"tenant": tenant}))
    return spaces


def unknown_tenant(tenant: str, tenants: Sequence[str]) -> UsageError:
    """The error for a tenant that is none of these; it tells those that look like it, and no other's name."""
    way_out = "rag tenant list shows all; one is created by: rag ingest PATH --tenant T --bot B"
    return unknown("tenant", tenant, tenants, way_out=way_out, listed=False)


def unknown_bot(tenant: str, bot: str, bots: Sequence[str]) -> UsageError:
    """The error for a bot that is none of the tenant's."""
    way_out = f"One is created by: rag ingest PATH --tenant {tenant} --bot B"
    return unknown("bot", bot, bots, of=f"of tenant {tenant!r}", way_out=way_out)
