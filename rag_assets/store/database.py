"""Connections: which server, which role, whose scope."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, Literal
from urllib.parse import quote

import numpy as np
import psycopg
from numpy.typing import NDArray
from pgvector.psycopg.vector import register_vector_info
from psycopg import conninfo
from psycopg.types import TypeInfo

from rag_assets.errors import DatabaseRefused, InvalidArgument
from rag_assets.settings import Settings, load_settings
from rag_assets.store.app_pool import AppPool, AsyncAppPool
from rag_assets.store.failures import available
from rag_assets.store.ingest_pool import IngestPool
from rag_assets.store.server import start_server
from rag_assets.store.sql import scalar
from rag_assets.store.statements import SET_SCOPE, Scope, Statement, scope_values
from rag_assets.store.statements import Connection as Connection

Role = Literal["owner", "ingest", "app"]

MIN_PGVECTOR = (0, 8, 4)  # earlier ones corrupt an HNSW graph under concurrent insert and vacuum
MIN_POSTGRES = 160000  # GRANT ... WITH INHERIT FALSE, SET TRUE
_EMBEDDED_DATABASE = "rag"
_BUILTIN_LOCALE = psycopg.sql.SQL(" LOCALE_PROVIDER builtin BUILTIN_LOCALE 'C.UTF-8' LOCALE 'C.UTF-8'")


def _whole(connections: object) -> int:
    if not isinstance(connections, int) or isinstance(connections, bool) or connections < 1:
        text = f"search_connections must be a whole number of at least 1, got {connections!r}"
        raise InvalidArgument(text, "search_connections")
    return connections


def checked_url(url: str, name: str) -> str:
    """`url` if it is one that the driver understands.

    Raises:
        InvalidArgument: it is none. The text does not repeat it, because it may hold a password.
    """
    try:
        if url and "@" not in str(conninfo.conninfo_to_dict(url).get("host", "")):
            return url
    except (psycopg.ProgrammingError, TypeError, ValueError, AttributeError):
        pass  # raised below: in here the error would keep the driver's as its context, which repeats the URL
    raise InvalidArgument(
        f"{name} is no connection URL; write it as postgresql://user:password@host/database, "
        "with special characters of the password as %40 and the like",
        name,
    )


def with_database(url: str, database: str) -> str:
    """The same server and options, another database."""
    return conninfo.make_conninfo(url, dbname=database)


class Database:
    """One database of one server, and how to enter it as each role.

    All roles log in through the same URL and switch with the `role` option at connection start, so nothing
    but the URL has to be configured. Production may give the app its own login: `app_url`.
    """

    def __init__(self, url: str, app_url: str | None = None, search_connections: int = 8) -> None:
        """`search_connections`: how many searches reach the server at a time, from all threads of this process, and
        from all tasks of an event loop; the others wait for their turn.

        Raises:
            InvalidArgument: a URL is none that the driver understands.
        """
        self.url = checked_url(url, "url")
        self.app_url = checked_url(app_url, "app_url") if app_url else None
        self.search_connections = _whole(search_connections)
        self._making = Lock()
        self._app: AppPool | None = None
        self._app_process = 0
        self._async_apps: dict[asyncio.AbstractEventLoop, AsyncAppPool] = {}
        self._ingest = IngestPool(with_role(url, "ingest"), lambda: self.connect("ingest"), self._register_vector)
        self._vector_type: TypeInfo | None = None  # asked for once; it takes four round trips

    @classmethod
    def from_settings(cls, settings: Settings | None = None) -> Database:
        """The server that `DATABASE_URL` names (and `RAG_APP_DATABASE_URL`, if set, for searching), else the
        embedded one, which is started and given its database if need be.

        Raises:
            InvalidArgument: one of these variables is no connection URL.
            DatabaseUnavailable: the embedded server does not start.
        """
        settings = settings or load_settings()
        if settings.database_url:
            app_url = settings.app_database_url
            return cls(
                checked_url(settings.database_url, "DATABASE_URL"),
                checked_url(app_url, "RAG_APP_DATABASE_URL") if app_url else None,
            )
        return cls(ensure_database(start_server(settings.home), _EMBEDDED_DATABASE))

    def connect(self, role: Role | None = None, *, autocommit: bool = False) -> Connection:
        """A new connection as `role` (None: as the login user), with vector types registered.

        Raises:
            DatabaseUnavailable: the server does not answer, or refuses the login or the role.
        """
        url = self.app_url if role == "app" and self.app_url else self.url
        with available("cannot connect to", describe(url)):
            connection = psycopg.connect(with_role(url, role), autocommit=autocommit, connect_timeout=30)
            if role is not None:
                self._register_vector(connection)
        return connection

    @contextmanager
    def session(self, role: Role | None = None) -> Iterator[Connection]:
        """A connection of its own in autocommit, closed at the end: for what `work` is not, such as the owner's
        statements, and locks that are held longer than a transaction.

        Raises:
            DatabaseUnavailable: the server does not answer, or breaks the connection off.
        """
        with available("lost", describe(self.url)), self.connect(role, autocommit=True) as connection:
            yield connection

    @contextmanager
    def work(self, tenant: str | None = None, bot: str | None = None) -> Iterator[Connection]:
        """A shared connection as role ingest, in one transaction whose scope is `tenant` (None: what belongs to
        none) and `bot`; commits at the end.

        Raises:
            DatabaseUnavailable: the server does not answer, or breaks the transaction off.
        """
        with available("lost", describe(self.url)), self._ingest.lent() as connection, connection.transaction():
            set_scope(connection, {"tenant": tenant, "bot": bot})
            yield connection

    def _register_vector(self, connection: Connection) -> None:
        if self._vector_type is None:
            self._vector_type = TypeInfo.fetch(connection, "vector")
            connection.rollback()
        register_vector_info(connection, self._vector_type)

    def ask(self, scope: Scope, statements: Sequence[Statement]) -> list[list[Any]]:
        """The rows of each statement, read as the app under `scope`, in one transaction and one round trip.

        Any number of threads may ask; they share `search_connections` connections.

        Raises:
            DatabaseUnavailable: after several attempts, or no connection became free within 30 s.
            DatabaseRefused: the role could bypass row-level security, or the schema is not there.
            DatabaseFailed: any other error of the database.
        """
        with self._making:
            # A forked process must not talk over its parent's connections.
            if self._app is None or self._app_process != os.getpid():
                self._app, self._app_process = AppPool(*self._app_entry()), os.getpid()
            pool = self._app
        return pool.ask(scope, statements)

    async def aask(self, scope: Scope, statements: Sequence[Statement]) -> list[list[Any]]:
        """As `ask`, for tasks: those of one event loop share `search_connections` connections of their own."""
        loop = asyncio.get_running_loop()
        with self._making:
            self._async_apps = {other: pool for other, pool in self._async_apps.items() if not other.is_closed()}
            pool = self._async_apps.get(loop)
            if pool is None:
                pool = self._async_apps[loop] = AsyncAppPool(*self._app_entry())
        return await pool.ask(scope, statements)

    def _app_entry(self) -> tuple[str, str, int]:
        url = self.app_url or self.url
        return with_role(url, "app"), describe(url), self.search_connections

    def close(self) -> None:
        """Close the connections that threads share; whoever asks again gets new ones."""
        self._ingest.close()
        with self._making:
            # What ended with its event loop goes; and what a parent process opened is the parent's.
            self._async_apps = {loop: pool for loop, pool in self._async_apps.items() if not loop.is_closed()}
            mine = self._app if self._app_process == os.getpid() else None
        if mine is not None:
            mine.close()

    async def aclose(self) -> None:
        """Close the connections that tasks of the running event loop share, and those of `close`."""
        pool = self._async_apps.get(asyncio.get_running_loop())
        if pool is not None:
            await pool.close()
        self.close()


def set_scope(connection: Connection, scope: Scope) -> None:
    """Set `rag.<name>` for this transaction only; every part that `scope` leaves out is emptied."""
    connection.execute(SET_SCOPE, scope_values(scope))


def with_role(url: str, role: Role | None) -> str:
    """The same database, entered as one of the roles from the first statement on; None leaves the login's own."""
    if role is None:
        return url
    parts = conninfo.conninfo_to_dict(url)
    options = f"{parts.get('options') or ''} -c role=rag_{role} -c search_path=rag,public,extensions"
    return conninfo.make_conninfo(url, options=options.strip(), application_name=f"rag-assets {role}")


def describe(url: str) -> str:
    """Host and database of a URL, without user or password."""
    parts = conninfo.conninfo_to_dict(url)
    return f"database {parts.get('dbname') or '?'} at {parts.get('host') or 'localhost'}"


def sqlalchemy_url(url: str, driver: str = "psycopg2") -> str:
    """`url` in the form that SQLAlchemy and yoyo take, with its driver named: psycopg2 is Dagster's."""
    parts = conninfo.conninfo_to_dict(url)
    user, password = parts.pop("user", "") or "", parts.pop("password", "") or ""
    database = parts.pop("dbname", "") or ""
    login = quote(str(user), safe="") + (f":{quote(str(password), safe='')}" if password else "")
    query = "&".join(f"{key}={quote(str(value), safe='')}" for key, value in parts.items())
    return f"postgresql+{driver}://{login}@/{quote(str(database), safe='')}?{query}"


def ensure_database(url: str, name: str) -> str:
    """Create database `name` on the server of `url` unless it is there, and return its URL.

    The builtin C.UTF-8 locale, where the server has it, folds the case of all scripts the same everywhere.

    Raises:
        DatabaseUnavailable: the server does not answer.
    """
    with available("cannot connect to", describe(url)), psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute("SELECT FROM pg_database WHERE datname = %s", [name]).fetchone()
        if row is None:
            try:
                locale = _BUILTIN_LOCALE if connection.info.server_version >= 170000 else psycopg.sql.SQL("")
                connection.execute(
                    psycopg.sql.SQL("CREATE DATABASE {} TEMPLATE template0 ENCODING 'UTF8'{}").format(
                        psycopg.sql.Identifier(name), locale
                    )
                )
            except (psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation):
                pass  # another process was faster; it is there, which is all we want
    return with_database(url, name)


def check_server(connection: Connection) -> None:
    """Refuse servers that would lose or leak data.

    Raises:
        DatabaseRefused: PostgreSQL below 16, or pgvector missing or below 0.8.4.
    """
    if connection.info.server_version < MIN_POSTGRES:
        raise DatabaseRefused(
            f"PostgreSQL {connection.info.server_version // 10000} is too old: rag-assets needs 16 or newer"
        )
    version = scalar(
        connection,
        "SELECT coalesce((SELECT extversion FROM pg_extension WHERE extname = 'vector'), "
        "(SELECT default_version FROM pg_available_extensions WHERE name = 'vector'))",
    )
    needed = ".".join(map(str, MIN_PGVECTOR))
    if version is None:
        raise DatabaseRefused(f"this server has no pgvector: install pgvector {needed} or newer")
    if parse_version(version) < MIN_PGVECTOR:
        raise DatabaseRefused(
            f"pgvector {version} is too old: {needed} or newer is needed, because earlier ones can corrupt an "
            "HNSW index while it is vacuumed. Upgrade it, then run: ALTER EXTENSION vector UPDATE"
        )


def parse_version(text: str) -> tuple[int, ...]:
    """`"0.8.5"` -> `(0, 8, 5)`; what is not a number ends it."""
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def as_array(value: object) -> NDArray[np.float32]:
    """A vector as the driver returns it, as (d,) float32."""
    to_numpy = getattr(value, "to_numpy", None)
    return np.asarray(to_numpy() if to_numpy else value, dtype=np.float32)
