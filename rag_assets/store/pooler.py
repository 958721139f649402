"""Connection poolers, such as PgBouncer, between us and the server.

Where one lends a server's connection for a transaction at a time, what a session sets stays with the server's
connection, and the next who borrows it has it. A search and the transactions of an ingest set nothing beyond their
transaction. What needs a session of its own (roles, locks, indexes that are built online) is refused there.
"""

from __future__ import annotations

from typing import Any

import psycopg

from rag_assets.errors import DatabaseRefused
from rag_assets.store.statements import AsyncConnection, Connection

_PID = "SELECT pg_backend_pid()"
_ATTEMPTS = 5  # others may be lent the connection in between


def prepare_nothing_if_pooled(connection: Connection) -> None:
    """Prepare no statements on the server where the next transaction may run in another session, which lacks them."""
    if _is_pooled(connection, connection.execute(_PID).fetchone()):
        connection.prepare_threshold = None
    connection.rollback()


async def aprepare_nothing_if_pooled(connection: AsyncConnection) -> None:
    """As `prepare_nothing_if_pooled`."""
    if _is_pooled(connection, await (await connection.execute(_PID)).fetchone()):
        connection.prepare_threshold = None
    await connection.rollback()


def require_session(connection: Connection, url: str, what: str, named: str) -> None:
    """Refuse to go on if this connection, made to `url`, does not keep one session of the server. It is not in a
    transaction; `what` describes the server, and `named` says what named it to us.

    Raises:
        DatabaseRefused: a pooler lends its connections to others in between.
    """
    if _lends_by_transaction(connection, url):
        raise DatabaseRefused(
            f"{what} is reached through a connection pooler in transaction mode, such as PgBouncer, where roles and "
            f"locks of a session would pass to whoever borrows its connection next. Let {named} name the server "
            "itself; RAG_APP_DATABASE_URL, for searches, and RAG_INGEST_DATABASE_URL may go through the pooler"
        )


def _lends_by_transaction(connection: Connection, url: str) -> bool:
    if not _is_pooled(connection, _asked(connection)):
        return False
    for _ in range(_ATTEMPTS):
        mine = _asked(connection)
        with psycopg.connect(url, connect_timeout=30) as other:
            # Both are connected, so in session mode each has a server's process of its own.
            if other.execute(_PID).fetchone() == mine:
                return True
    return False


def _asked(connection: Connection) -> Any:
    row = connection.execute(_PID).fetchone()
    if not connection.autocommit:
        connection.rollback()
    return row


def _is_pooled(connection: Connection | AsyncConnection, answer: Any) -> bool:
    """Whether the process that answers is another than the one that let us in: a pooler has let us in."""
    return bool(answer[0] != connection.info.backend_pid)
