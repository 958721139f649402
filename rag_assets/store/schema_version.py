"""Whether a server has the migrations of this version, as whoever searches may ask it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import psycopg
from psycopg.rows import scalar_row

from rag_assets.errors import DatabaseRefused, DatabaseUnavailable
from rag_assets.settings import bundled
from rag_assets.store.sql import query
from rag_assets.store.statements import AsyncConnection, Connection

_NO_SUCH = (psycopg.errors.UndefinedFunction, psycopg.errors.InvalidSchemaName)


def migrations_folder() -> Path:
    """Where the migrations of this version lie."""
    return bundled("sql") / "migrations"


@cache
def shipped_migrations() -> Sequence[str]:
    """Their ids, in order."""
    return sorted(path.stem for path in migrations_folder().glob("*.sql"))


def require_schema(connection: Connection, what: str, named: str) -> None:
    """Refuse a server that does not have all migrations of this version; `what` describes it, and `named` is the
    setting that names it. The connection is in a transaction, as the app, which is of no use afterwards where it is
    refused.

    Raises:
        DatabaseUnavailable: it is a replica, and may be behind its primary.
        DatabaseRefused: it is none.
    """
    is_replica = bool(connection.cursor(row_factory=scalar_row).execute(query("is_replica")).fetchone())
    try:
        cursor = connection.cursor(row_factory=scalar_row)
        missing: Sequence[str] | None = cursor.execute(
            query("missing_migrations"), {"wanted": shipped_migrations()}
        ).fetchall()
    except _NO_SUCH:
        missing = None  # it has none, or has never heard of this question
    _judge(missing, is_replica, what, named)


async def arequire_schema(connection: AsyncConnection, what: str, named: str) -> None:
    """As `require_schema`."""
    cursor = connection.cursor(row_factory=scalar_row)
    is_replica = bool(await (await cursor.execute(query("is_replica"))).fetchone())
    try:
        await cursor.execute(query("missing_migrations"), {"wanted": shipped_migrations()})
        missing: Sequence[str] | None = await cursor.fetchall()
    except _NO_SUCH:
        missing = None
    _judge(missing, is_replica, what, named)


def _judge(missing: Sequence[str] | None, is_replica: bool, what: str, named: str) -> None:
    """`missing`: which migrations are; None where not even that is known."""
    if missing is not None and not missing:
        return
    lacks = f"{what} has no rag-assets schema of this version" + (f": it lacks {', '.join(missing)}" if missing else "")
    if is_replica:
        raise DatabaseUnavailable(
            f"{lacks}. It is a replica: where its primary has been brought there (rag up), wait until it has followed"
        )
    raise DatabaseRefused(
        f"{lacks}, and it is no replica that will follow. Let {named} name a replica of the server of DATABASE_URL, "
        "which is what rag up brings up to date; or bring this one there by itself: DATABASE_URL=... rag up"
    )
