"""The connections that ingest shares: a few are kept, each lent for one transaction at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from psycopg_pool import ConnectionPool, PoolTimeout

from rag_assets.store.failures import OurConnection
from rag_assets.store.statements import Connection

_KEPT = 8
_KEPT_S = 30.0  # how long a connection that nobody needs is kept
_PATIENCE_S = 2.0


class IngestPool:
    """Lends connections to `url`. May be shared between threads; a forked process opens connections of its own.

    Nobody waits longer than 2 s for one: whoever does gets one more, from `connect`. So those who hold one and need
    another never wait for each other, and a server that is away is reported with its reason.
    """

    def __init__(self, url: str, connect: Callable[[], Connection], configure: Callable[[Connection], None]) -> None:
        self._url, self._connect, self._configure = url, connect, configure
        self._pools: dict[int, ConnectionPool[Connection]] = {}  # by process: a parent's connections are its own

    @contextmanager
    def lent(self) -> Iterator[Connection]:
        """A connection that answers, idle and not in autocommit; whatever it is left in is rolled back.

        Raises:
            psycopg.Error, DatabaseUnavailable: none could be opened.
        """
        pool = self._pool()
        connection = _taken(pool)
        if connection is None:
            with self._connect() as connection:
                self._configure(connection)
                yield connection
            return
        try:
            yield connection
        finally:
            pool.putconn(connection)

    def _pool(self) -> ConnectionPool[Connection]:
        process = os.getpid()
        # No lock: the child of a process that forks while another thread holds it would wait for ever.
        pool = self._pools.get(process) or self._pools.setdefault(process, self._unopened())
        pool.open()
        return pool

    def _unopened(self) -> ConnectionPool[Connection]:
        return ConnectionPool(
            self._url,
            connection_class=OurConnection,
            min_size=0,
            max_size=_KEPT,
            max_idle=_KEPT_S,
            timeout=_PATIENCE_S,
            reconnect_timeout=_PATIENCE_S,
            configure=self._configure,
            check=ConnectionPool.check_connection,
            name="rag-assets ingest",
            open=False,
        )

    def close(self) -> None:
        """Close what this process has opened; whoever asks again opens it anew."""
        pool = self._pools.pop(os.getpid(), None)
        if pool is not None:
            pool.close()


def _taken(pool: ConnectionPool[Connection]) -> Connection | None:
    try:
        return pool.getconn()
    except PoolTimeout:
        return None
