"""The connections that searches share: a pool for all threads of a process, and one for each event loop.

Both work by the same rules. Nobody is lent a connection whose login row-level security does not hold back. A server
that does not answer is tried again, over another connection. Whoever finds all connections taken waits for a turn,
which is told apart from a server that does not answer.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from threading import BoundedSemaphore, Lock
from typing import Any

import psycopg
from pgvector.psycopg.vector import register_vector_info
from psycopg.types import TypeInfo
from psycopg_pool import ConnectionPool, PoolTimeout
from tenacity import AsyncRetrying, Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential_jitter

from rag_assets.errors import DatabaseRefused, DatabaseUnavailable
from rag_assets.printing import counted
from rag_assets.store.app_role import acheck_app_role, check_app_role
from rag_assets.store.async_pool import AsyncPool
from rag_assets.store.failures import OurAsyncConnection, OurConnection, as_ours
from rag_assets.store.json_values import read_json_soon
from rag_assets.store.pooler import aprepare_nothing_if_pooled, prepare_nothing_if_pooled
from rag_assets.store.schema_version import arequire_schema, require_schema
from rag_assets.store.statements import (
    ENTER,
    AsyncConnection,
    Connection,
    Scope,
    Statement,
    aask,
    ask,
    enter_values,
)
from rag_assets.store.urls import Entry

_TURN_SECONDS = 30.0
_AGAIN: dict[str, Any] = {
    "retry": retry_if_exception_type(DatabaseUnavailable),
    "stop": stop_after_attempt(4),
    "wait": wait_exponential_jitter(initial=0.1, max=2),
    "reraise": True,
}
# A pool doubles its wait between attempts to connect, far beyond the end of an outage. So it gives up early, and the
# next attempt of whoever waits begins anew.
_PATIENCE: dict[str, Any] = {"timeout": 5, "reconnect_timeout": 2}


def _busy(size: int) -> DatabaseUnavailable:
    return DatabaseUnavailable(
        f"none of {counted(size, 'connection')} for searching became free within {_TURN_SECONDS:g} s: "
        "search less at a time, or give Database more search_connections"
    )


def _known(vector: TypeInfo | None, what: str) -> TypeInfo:
    if vector is None:
        raise DatabaseRefused(f"{what} has no pgvector, or its schema is not on the search path; run: rag up")
    return vector


@dataclass(frozen=True)
class Lending:
    """What connections are lent, and how.

    Attributes:
        size: how many at most.
        checks_login: refuse a login that could leave the app's role for a stronger one.
        follows: the server is a replica, whose schema may be behind this version's.
        signed: the same scope with its signature, made for each attempt, since who waits long for a turn would come
            with an old one.
    """

    entry: Entry
    size: int
    checks_login: bool
    follows: bool
    signed: Callable[[Scope], Scope]

    @property
    def name(self) -> str:
        """What the pool is called in logs."""
        return "rag-assets search" if self.follows else "rag-assets app"


class AppPools:
    """The connections of one login, whoever asks: those of this process's threads, and those of each event loop. Made
    when they are first needed."""

    def __init__(self, lending: Callable[[], Lending]) -> None:
        self._lending = lending
        self._making = Lock()
        self._threads: AppPool | None = None
        self._process = 0
        self._loops: dict[asyncio.AbstractEventLoop, AsyncAppPool] = {}

    def of_threads(self) -> AppPool:
        """The pool of this process."""
        with self._making:
            # A forked process must not talk over its parent's connections.
            if self._threads is None or self._process != os.getpid():
                self._threads, self._process = AppPool(self._lending()), os.getpid()
            return self._threads

    def of_tasks(self) -> AsyncAppPool:
        """The pool of the running event loop."""
        loop = asyncio.get_running_loop()
        with self._making:
            self._loops = {other: pool for other, pool in self._loops.items() if not other.is_closed()}
            if loop not in self._loops:
                self._loops[loop] = AsyncAppPool(self._lending())
            return self._loops[loop]

    def close(self) -> None:
        """Close the connections of threads; whoever asks again gets new ones."""
        with self._making:
            # What ended with its event loop goes; and what a parent process opened is the parent's.
            self._loops = {loop: pool for loop, pool in self._loops.items() if not loop.is_closed()}
            mine = self._threads if self._process == os.getpid() else None
        if mine is not None:
            mine.close()

    async def aclose(self) -> None:
        """Close the connections of the running event loop's tasks."""
        pool = self._loops.get(asyncio.get_running_loop())
        if pool is not None:
            await pool.close()


class AppPool:
    """Connections for the threads of one process. They are made when somebody searches."""

    def __init__(self, lending: Lending) -> None:
        self._lending, self._entry = lending, lending.entry
        self._turns = BoundedSemaphore(lending.size)
        self._opening = Lock()
        self._pool: ConnectionPool[Connection] | None = None

    def ask(self, scope: Scope, statements: Sequence[Statement]) -> list[list[Any]]:
        """See `statements.ask`.

        Raises:
            DatabaseUnavailable: after several attempts, or no connection became free in time.
            DatabaseRefused: the role could bypass row-level security, or the schema is not there.
            ScopeRefused: the database takes signed scopes alone, and this one is not signed with a key in use.
            DatabaseFailed: any other error of the database.
        """

        def attempt() -> list[list[Any]]:
            with as_ours(self._entry.what, self._entry.named, self._entry.hint):
                try:
                    with self._opened().connection() as connection:
                        return ask(connection, self._lending.signed(scope), statements)
                except PoolTimeout:
                    psycopg.connect(self._entry.url).close()  # fails with the reason
                    raise

        with self._turn():
            return Retrying(**_AGAIN)(attempt)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        if not self._turns.acquire(timeout=_TURN_SECONDS):
            raise _busy(self._lending.size)
        try:
            yield
        finally:
            self._turns.release()

    def _opened(self) -> ConnectionPool[Connection]:
        with self._opening:
            if self._pool is None:
                with psycopg.connect(self._entry.url) as connection:
                    connection.execute(ENTER, enter_values("app", {}))
                    check_app_role(connection, login=self._lending.checks_login, named=self._entry.named)
                    if self._lending.follows:
                        require_schema(connection, self._entry.what, self._entry.named)
                    vector = _known(TypeInfo.fetch(connection, "vector"), self._entry.what)

                def configure(connection: Connection) -> None:
                    register_vector_info(connection, vector)
                    read_json_soon(connection)
                    prepare_nothing_if_pooled(connection)

                self._pool = ConnectionPool(
                    self._entry.url,
                    connection_class=OurConnection,
                    min_size=1,
                    max_size=self._lending.size,
                    configure=configure,
                    check=ConnectionPool.check_connection,
                    name=self._lending.name,
                    open=True,
                    **_PATIENCE,
                )
            return self._pool

    def close(self) -> None:
        """Close the connections; the next search makes new ones."""
        with self._opening:
            if self._pool is not None:
                self._pool.close()
            self._pool = None


class AsyncAppPool:
    """As `AppPool`, for the tasks of one event loop."""

    def __init__(self, lending: Lending) -> None:
        self._lending, self._entry = lending, lending.entry
        self._turns = asyncio.Semaphore(lending.size)
        self._opening = asyncio.Lock()
        self._pool: AsyncPool | None = None

    async def ask(self, scope: Scope, statements: Sequence[Statement]) -> list[list[Any]]:
        """See `AppPool.ask`."""

        async def attempt() -> list[list[Any]]:
            with as_ours(self._entry.what, self._entry.named, self._entry.hint):
                try:
                    async with (await self._opened()).connection() as connection:
                        return await aask(connection, self._lending.signed(scope), statements)
                except PoolTimeout:
                    await (await psycopg.AsyncConnection.connect(self._entry.url)).close()
                    raise

        async with self._turn():
            return await AsyncRetrying(**_AGAIN)(attempt)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(_TURN_SECONDS):
                await self._turns.acquire()
        except TimeoutError:
            raise _busy(self._lending.size) from None
        try:
            yield
        finally:
            self._turns.release()

    async def _opened(self) -> AsyncPool:
        async with self._opening:
            if self._pool is None:
                async with await psycopg.AsyncConnection.connect(self._entry.url) as connection:
                    await connection.execute(ENTER, enter_values("app", {}))
                    await acheck_app_role(connection, login=self._lending.checks_login, named=self._entry.named)
                    if self._lending.follows:
                        await arequire_schema(connection, self._entry.what, self._entry.named)
                    vector = _known(await TypeInfo.fetch(connection, "vector"), self._entry.what)

                async def configure(connection: AsyncConnection) -> None:
                    register_vector_info(connection, vector)
                    read_json_soon(connection)
                    await aprepare_nothing_if_pooled(connection)

                pool = AsyncPool(
                    self._entry.url,
                    connection_class=OurAsyncConnection,
                    min_size=1,
                    max_size=self._lending.size,
                    configure=configure,
                    name=self._lending.name,
                    check=AsyncPool.check_connection,
                    open=False,
                    **_PATIENCE,
                )
                await pool.open()
                self._pool = pool
            return self._pool

    async def close(self) -> None:
        """See `AppPool.close`."""
        async with self._opening:
            if self._pool is not None:
                await self._pool.close()
            self._pool = None
