"""Erasure of a tenant, or of one bot of it: everything goes, and counts prove it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import psycopg
from psycopg.rows import scalar_row

from rag_assets.errors import DatabaseRefused, RagError
from rag_assets.keys import check_key
from rag_assets.store.database import Connection, Database
from rag_assets.store.failures import first_line
from rag_assets.store.partitions import drop_partition, partition_exists
from rag_assets.store.sql import query, scalar
from rag_assets.store.tenant_tables import TenantTables
from rag_assets.store.tenants import list_bots, list_tenants, unknown_bot, unknown_tenant

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
        DatabaseRefused: ingest may not read or not delete from a table that may hold such rows.
        RagError: rows that are not the tenant's point at such rows.
    """
    check_key(tenant, "tenant")
    if tenant not in (tenants := list_tenants(database)):
        raise unknown_tenant(tenant, tenants)
    if bot is not None:
        check_key(bot, "bot")
        if bot not in (bots := list_bots(database, tenant)):
            raise unknown_bot(tenant, bot, bots)
    with database.work(tenant) as connection:
        tables = TenantTables(connection, tenant, bot)
        _check_grants(tables)
        _check_pointing(database, tables, connection, _name(tenant, bot))
        return tables.count()


def erase(database: Database, tenant: str, bot: str | None = None) -> EraseReport:
    """Remove everything of a tenant, or of one bot of it, and count that nothing is left.

    The pointers to the profiles go first, so nothing half erased is served; then the partitions; then all
    rows in one transaction, the profiles among them. Whatever step it is killed at, calling it again goes on,
    because a profile's row is there for as long as its partition may be.

    Raises:
        UnknownTenant, UnknownBot, DatabaseRefused: as `erasable`; nothing was erased.
        RagError: rows that are not the tenant's point at its own, and nothing was erased; or something is left, as
            where an ingest kept adding rows or a trigger keeps them.
    """
    before = erasable(database, tenant, bot)
    remaining: Mapping[str, int] = before
    for _ in range(_ATTEMPTS):
        failure = _erase_once(database, tenant, bot)
        remaining = _counts(database, tenant, bot)
        if not any(remaining.values()):
            return EraseReport(tenant, bot, before, remaining)
    left = ", ".join(f"{count} in {table}" for table, count in remaining.items() if count)
    raise RagError(
        f"not everything of {_name(tenant, bot)} could be erased: {left} left{f' ({failure})' if failure else ''}. "
        "An ingest that is still running for it may add rows, or a trigger may keep them; stop that and erase again"
    )


def _check_grants(tables: TenantTables) -> None:
    if missing := ", ".join(tables.not_granted()):
        raise DatabaseRefused(
            f"rag_ingest may not read or not delete from {missing}, where rows of a tenant may be; nothing was erased. "
            f"Allow it, as the tables' owner: GRANT SELECT, DELETE ON {missing} TO rag_ingest"  # nosec B608: said to a person
        )


def _check_pointing(database: Database, tables: TenantTables, connection: Connection, name: str) -> None:
    """Refuse where rows of other tenants point at rows of this one. A login that is no superuser does not see such rows
    of a table whose policies hide them."""
    with database.session() as login:
        sees_all = scalar(login, "SELECT current_setting('is_superuser')::bool")
        pointing = tables.count_pointing_from_outside(login if sees_all else connection)
    if pointing:
        listed = ", ".join(f"{count} in {table}" for table, count in pointing.items())
        raise RagError(
            f"rows of other tenants point at rows of {name}, by a foreign key: {listed}; nothing was erased. "
            "Delete these rows, or let them point at rows of their own tenant, and erase again"
        )


def _name(tenant: str, bot: str | None) -> str:
    return tenant if bot is None else f"{tenant}/{bot}"


def _counts(database: Database, tenant: str, bot: str | None) -> dict[str, int]:
    with database.work(tenant) as connection:
        return TenantTables(connection, tenant, bot).count()


def _erase_once(database: Database, tenant: str, bot: str | None) -> str | None:
    """One attempt; where the rows could not be deleted, what the database said."""
    with database.work(tenant) as connection:
        connection.execute(query("erase_pointers"), {"tenant": tenant, "bot": bot})
        profiles = _profiles(connection, tenant, bot)
    for profile in profiles:
        drop_partition(database, profile)
    with database.work(tenant) as connection:
        try:
            with connection.transaction():
                _delete_rows(connection, tenant, bot, profiles)
        except psycopg.errors.ForeignKeyViolation as error:
            return first_line(error)  # of rows that an ingest added since, the next attempt takes them along
    with database.session("owner") as connection:
        made_again = [profile for profile in profiles if partition_exists(connection, profile)]
    for profile in made_again:  # by an ingest that had looked the profile up before its row went
        drop_partition(database, profile)
    return None


def _profiles(connection: Connection, tenant: str, bot: str | None) -> list[int]:
    cursor = connection.cursor(row_factory=scalar_row)
    return cursor.execute(query("erase_profiles"), {"tenant": tenant, "bot": bot}).fetchall()


def _delete_rows(connection: Connection, tenant: str, bot: str | None, profiles: list[int]) -> None:
    for profile in profiles:
        # Publishers of the profile hold this lock while they write; they find no profile afterwards.
        connection.execute(query("lock_profile"), {"profile": profile})
    if _profiles(connection, tenant, bot) != profiles:
        return  # a profile was enabled since: its partition has to go before its row
    TenantTables(connection, tenant, bot).delete()
