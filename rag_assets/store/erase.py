"""Erasure of a tenant, or of one bot of it: everything goes, and counts prove it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import psycopg
from psycopg.rows import scalar_row

from rag_assets.errors import RagError, UnknownBot, UnknownTenant
from rag_assets.keys import check_key
from rag_assets.store.database import Connection, Database
from rag_assets.store.partitions import drop_partition, partition_exists
from rag_assets.store.sql import query
from rag_assets.store.tenant_tables import TenantTables
from rag_assets.store.tenants import list_bots, list_tenants

_ATTEMPTS = 3  # an ingest that runs meanwhile can add rows between two steps


@dataclass(frozen=True)
class EraseReport:
    """Rows by table, before and after; after a successful erasure every number of `remaining` is 0."""

    tenant: str
    bot: str | None
    counts: Mapping[str, int]
    remaining: Mapping[str, int]


def erasable(database: Database, tenant: str, bot: str | None = None) -> dict[str, int]:
    """Rows by table that `erase` would remove.

    Raises:
        InvalidKey: tenant or bot is no key.
        UnknownTenant, UnknownBot: there is nothing to erase.
    """
    check_key(tenant, "tenant")
    if tenant not in list_tenants(database):
        raise UnknownTenant(f"no tenant {tenant!r}: nothing to erase")
    if bot is not None:
        check_key(bot, "bot")
        if bot not in list_bots(database, tenant):
            raise UnknownBot(f"tenant {tenant!r} has no bot {bot!r}: nothing to erase")
    return _counts(database, tenant, bot)


def erase(database: Database, tenant: str, bot: str | None = None) -> EraseReport:
    """Remove everything of a tenant, or of one bot of it, and count that nothing is left.

    The pointers to the profiles go first, so nothing half erased is served; then the partitions; then all
    rows in one transaction, the profiles among them. Whatever step it is killed at, calling it again goes on,
    because a profile's row is there for as long as its partition may be.

    Raises:
        UnknownTenant, UnknownBot: there is nothing to erase.
        RagError: something is left, as where an ingest kept adding rows.
    """
    before = erasable(database, tenant, bot)
    remaining: Mapping[str, int] = before
    for _ in range(_ATTEMPTS):
        _erase_once(database, tenant, bot)
        remaining = _counts(database, tenant, bot)
        if not any(remaining.values()):
            return EraseReport(tenant, bot, before, remaining)
    left = ", ".join(f"{count} in {table}" for table, count in remaining.items() if count)
    raise RagError(
        f"not everything of {_name(tenant, bot)} could be erased: {left} left. "
        "An ingest is probably running for it; stop that and erase again"
    )


def _name(tenant: str, bot: str | None) -> str:
    return tenant if bot is None else f"{tenant}/{bot}"


def _counts(database: Database, tenant: str, bot: str | None) -> dict[str, int]:
    with database.work(tenant) as connection:
        return TenantTables(connection).count(tenant, bot)


def _erase_once(database: Database, tenant: str, bot: str | None) -> None:
    with database.work(tenant) as connection:
        connection.execute(query("erase_pointers"), {"tenant": tenant, "bot": bot})
        profiles = _profiles(connection, tenant, bot)
    for profile in profiles:
        drop_partition(database, profile)
    try:
        with database.work(tenant) as connection:
            _delete_rows(connection, tenant, bot, profiles)
    except psycopg.errors.ForeignKeyViolation:
        return  # rows that an ingest added since; the next attempt takes them along
    with database.session("owner") as connection:
        made_again = [profile for profile in profiles if partition_exists(connection, profile)]
    for profile in made_again:  # by an ingest that had looked the profile up before its row went
        drop_partition(database, profile)


def _profiles(connection: Connection, tenant: str, bot: str | None) -> list[int]:
    cursor = connection.cursor(row_factory=scalar_row)
    return cursor.execute(query("erase_profiles"), {"tenant": tenant, "bot": bot}).fetchall()


def _delete_rows(connection: Connection, tenant: str, bot: str | None, profiles: list[int]) -> None:
    for profile in profiles:
        # Publishers of the profile hold this lock while they write; they find no profile afterwards.
        connection.execute(query("lock_profile"), {"profile": profile})
    if _profiles(connection, tenant, bot) != profiles:
        return  # a profile was enabled since: its partition has to go before its row
    TenantTables(connection).delete(tenant, bot)
