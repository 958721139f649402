"""Connections: which server, which role, whose scope."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Literal

import numpy as np
import psycopg
from numpy.typing import NDArray
from pgvector.psycopg.vector import register_vector_info
from psycopg import conninfo
from psycopg.types import TypeInfo

from rag_assets.errors import DatabaseRefused, InvalidArgument
from rag_assets.settings import Settings, load_settings
from rag_assets.signing import DEFAULT_SECONDS, ScopeKey, parse_key, signed
from rag_assets.store.actor import current_actor
from rag_assets.store.app_pool import AppPools, Lending
from rag_assets.store.app_role import check_app_role, check_ingest_role
from rag_assets.store.failures import OurConnection, available
from rag_assets.store.ingest_pool import IngestPool
from rag_assets.store.logins import login_urls
from rag_assets.store.pooler import prepare_nothing_if_pooled, require_session
from rag_assets.store.server import start_server
from rag_assets.store.sql import scalar
from rag_assets.store.statements import (
    ENTER,
    SEARCH_PATH,
    Role,
    Scope,
    Statement,
    are_for_primary,
    enter_values,
)
from rag_assets.store.statements import Connection as Connection
from rag_assets.store.urls import Entry, checked_url
from rag_assets.store.urls import describe as describe
from rag_assets.store.urls import sqlalchemy_url as sqlalchemy_url
from rag_assets.store.urls import with_database as with_database

MIN_PGVECTOR = (0, 8, 4)  # earlier ones corrupt an HNSW graph under concurrent insert and vacuum
MIN_POSTGRES = 160000  # GRANT ... WITH INHERIT FALSE, SET TRUE
_EMBEDDED_DATABASE = "rag"
_BUILTIN_LOCALE = psycopg.sql.SQL(" LOCALE_PROVIDER builtin BUILTIN_LOCALE 'C.UTF-8' LOCALE 'C.UTF-8'")
_CONNECT_SECONDS = 30  # where the URL does not say
_Login = Role | Literal["search"]
_ENTER_SESSION = f"SELECT set_config('role', %s, false), set_config('search_path', '{SEARCH_PATH}', false)"


def _whole(connections: object) -> int:
    if not isinstance(connections, int) or isinstance(connections, bool) or connections < 1:
        text = f"search_connections must be a whole number of at least 1, got {connections!r}"
        raise InvalidArgument(text, "search_connections")
    return connections


def require_database(value: object) -> Database:
    """`value` if it is a database.

    Raises:
        InvalidArgument: it is something else.
    """
    if not isinstance(value, Database):
        raise InvalidArgument(f"database must be a rag_assets.Database, got {type(value).__name__}", "database")
    return value


class Database:
    """One database of one server, and how to enter it as each role.

    The embedded server has a login for each role. On another server everything may be done through one URL, whose login
    then switches to the role of each transaction, but for an application's searches: these have a login of their own,
    `app_url`, because what a session may become, somebody else's words may make it.
    """

    def __init__(
        self,
        url: str,
        app_url: str | None = None,
        search_connections: int = 8,
        *,
        ingest_url: str | None = None,
        operator: bool = False,
        scope_key: str | ScopeKey | None = None,
        scope_seconds: int = DEFAULT_SECONDS,
        search_url: str | None = None,
    ) -> None:
        """`search_connections`: how many searches reach the server at a time, from all threads of this process, and
        from all tasks of an event loop; the others wait for their turn. `ingest_url`: a login of its own for ingest.
        `search_url`: a replica of the server, as the app; what only reads is asked there, and never here.
        `operator`: for whoever holds the owner's login anyway, at a terminal or in Dagster; without an `app_url`, their
        searches go through `url` whatever its login may do. `scope_key`: every scope is signed with it, for so many
        seconds, as `RAG_SCOPE_KEY` has it; needed where the database takes signed scopes alone, unless each scope
        brings a signature.

        Raises:
            InvalidArgument: a URL is none that the driver understands, or the key is none.
        """
        self.url = checked_url(url, "url")
        self.app_url = checked_url(app_url, "app_url") if app_url else None
        self.search_url = checked_url(search_url, "search_url") if search_url else None
        self.search_connections = _whole(search_connections)
        given: dict[_Login, str | None] = {"app": app_url, "ingest": ingest_url, "search": search_url}
        own = login_urls(self.url)
        # Each with the key in `_names` of what named it.
        self._logins: dict[_Login, tuple[str, str]] = {role: (login, "") for role, login in own.items()}
        self._logins |= {role: (checked_url(its, f"{role}_url"), role) for role, its in given.items() if its}
        self._names: dict[str, str] = {"": "RAG_HOME" if own else "url"}
        self._names |= {role: f"{role}_url" for role in given}
        self._scope_key = parse_key(scope_key) if isinstance(scope_key, str) else scope_key
        self._scope_seconds = scope_seconds
        self._trusts_login = operator and self.searches_need_a_login
        self._app = AppPools(lambda: self._lending("app"))
        self._search = AppPools(lambda: self._lending("search")) if search_url else self._app
        self._ingest = IngestPool(self._entry("ingest").url, lambda: self._opened(self._entry("ingest")), self._prepare)
        self._ingest_checked = False
        self._vector_type: TypeInfo | None = None  # asked for once; it takes four round trips

    @classmethod
    def from_settings(
        cls, settings: Settings | None = None, *, operator: bool = False, on_replica: bool | None = None
    ) -> Database:
        """The server that `DATABASE_URL` names (`RAG_APP_DATABASE_URL` for searching and `RAG_INGEST_DATABASE_URL` for
        ingest, if set), else the embedded one, which is started and given its database if need be. `operator`: as of
        the constructor. `on_replica`: searches go to `RAG_SEARCH_DATABASE_URL`, if set; by default not an operator's,
        who looks at what was just built.

        Raises:
            InvalidArgument: one of these variables is no connection URL.
            DatabaseUnavailable: the embedded server does not start.
        """
        settings = settings or load_settings()
        key = settings.scope_key.get_secret_value() if settings.scope_key is not None else None
        if not settings.database_url:
            url = ensure_database(start_server(settings.home), _EMBEDDED_DATABASE)
            return cls(url, scope_key=key, scope_seconds=settings.scope_seconds)
        goes = not operator if on_replica is None else on_replica
        named = {
            "": ("DATABASE_URL", settings.database_url),
            "app": ("RAG_APP_DATABASE_URL", settings.app_database_url),
            "ingest": ("RAG_INGEST_DATABASE_URL", settings.ingest_database_url),
            "search": ("RAG_SEARCH_DATABASE_URL", settings.search_database_url if goes else None),
        }
        urls = {role: checked_url(url, name) for role, (name, url) in named.items() if url}
        database = cls(
            urls[""],
            urls.get("app"),
            ingest_url=urls.get("ingest"),
            operator=operator,
            scope_key=key,
            scope_seconds=settings.scope_seconds,
            search_url=urls.get("search"),
        )
        database._names = {role: name for role, (name, _) in named.items()}
        return database

    @property
    def is_embedded(self) -> bool:
        """Whether the server is the one of `RAG_HOME`, whose superuser `url` names."""
        return bool(login_urls(self.url))

    @property
    def searches_need_a_login(self) -> bool:
        """Whether an application that searches has to be given a login of its own first."""
        return "app" not in self._logins

    def connect(self, role: Role | None = None, *, autocommit: bool = False) -> Connection:
        """A new connection as `role` (None: as the login user), with vector types registered.

        Raises:
            DatabaseUnavailable: the server does not answer.
            DatabaseRefused: it refuses the login or the role; a pooler in transaction mode is in between; or the login
                of the app or of ingest could do more than that.
        """
        connection = self._entered(role, autocommit)
        if role in ("app", "ingest"):
            try:
                self._check_login(connection, role)
            except DatabaseRefused:
                connection.close()
                raise
            if not autocommit:
                connection.rollback()
        return connection

    @contextmanager
    def session(self, role: Role | None = None) -> Iterator[Connection]:
        """A connection of its own in autocommit, closed at the end: for what `work` is not, such as the owner's
        statements, and locks that are held longer than a transaction.

        Raises:
            DatabaseUnavailable: the server does not answer, or breaks the connection off.
            DatabaseRefused: as `connect`, but for what the login may do.
        """
        with self._available("lost", role), self._entered(role, autocommit=True) as connection:
            yield connection

    @contextmanager
    def work(self, tenant: str | None = None, bot: str | None = None) -> Iterator[Connection]:
        """A shared connection as role ingest, in one transaction whose scope is `tenant` (None: what belongs to
        none) and `bot`; commits at the end.

        Raises:
            DatabaseUnavailable: the server does not answer, or breaks the transaction off.
            DatabaseRefused: the login of `ingest_url` could do more than ingest.
        """
        with self._available("lost", "ingest"), self._ingest.lent() as connection, connection.transaction():
            connection.execute(ENTER, enter_values("ingest", {"tenant": tenant, "bot": bot}, current_actor()))
            if not self._ingest_checked:
                self._check_login(connection, "ingest")
                self._ingest_checked = True
            yield connection

    @contextmanager
    def asking(self) -> Iterator[Connection]:
        """A connection of its own to the primary for `statements.ask`, which enters role and scope in each transaction,
        with the login of searches, which nobody has checked; a pooler may stand in between.

        Raises:
            DatabaseUnavailable: the server does not answer, or breaks the connection off.
        """
        with self._available("lost", "app"), self._opened(self._entry("app")) as connection:
            self._prepare(connection)
            yield connection

    def _check_login(self, connection: Connection, role: Role) -> None:
        if role == "app":
            check_app_role(connection, login=not self._trusts_login)
        elif role in self._logins:
            check_ingest_role(connection)

    def _entered(self, role: Role | None, autocommit: bool) -> Connection:
        """A session that is in `role` from now on."""
        entry = self._entry(role)
        with self._available("cannot connect to", role):
            connection = self._opened(entry, autocommit)
            try:
                require_session(connection, entry.url, entry.what, entry.named)
                if role is not None:
                    connection.execute(_ENTER_SESSION, [f"rag_{role}"])
                    if not autocommit:
                        connection.commit()
                    self._register_vector(connection)
            except BaseException:
                connection.close()
                raise
        return connection

    def _opened(self, entry: Entry, autocommit: bool = False) -> Connection:
        with available("cannot connect to", entry.what, entry.named, entry.hint):
            return OurConnection.connect(entry.url, autocommit=autocommit)

    def _entry(self, role: _Login | None) -> Entry:
        """The login for a role: its own, or else that of `url`."""
        own = self._logins.get(role) if role else None
        url, key = own or (self.url, "")
        named = self._names[key]
        hint = "Start it with: rag up" if named == "RAG_HOME" else f"Is it running, and is {named} right?"
        options: dict[str, Any] = {"application_name": f"rag-assets {role}" if role else "rag-assets"}
        if "connect_timeout" not in conninfo.conninfo_to_dict(url):
            options["connect_timeout"] = _CONNECT_SECONDS
        return Entry(conninfo.make_conninfo(url, **options), describe(url), named, hint)

    def _lending(self, login: Literal["app", "search"]) -> Lending:
        """A replica's login was made for searches, whoever the operator is."""
        follows = login == "search"
        return Lending(
            self._entry(login), self.search_connections, follows or not self._trusts_login, follows, self.signed
        )

    def _available(self, failure: str, role: Role | None) -> AbstractContextManager[None]:
        entry = self._entry(role)
        return available(failure, entry.what, entry.named, entry.hint)

    def _prepare(self, connection: Connection) -> None:
        prepare_nothing_if_pooled(connection)
        self._register_vector(connection)

    def _register_vector(self, connection: Connection) -> None:
        if self._vector_type is None:
            with connection.transaction():
                connection.execute(f"SET LOCAL search_path = {SEARCH_PATH}")
                self._vector_type = TypeInfo.fetch(connection, "vector")
        register_vector_info(connection, self._vector_type)

    def ask(self, scope: Scope, statements: Sequence[Statement]) -> list[list[Any]]:
        """The rows of each statement, read as the app under `scope`, in one transaction and one round trip: on the
        replica, if there is one, unless a statement is for the primary.

        Any number of threads may ask; they share `search_connections` connections.

        Raises:
            DatabaseUnavailable: after several attempts, or no connection became free within 30 s.
            DatabaseRefused: the role could bypass row-level security, or the schema is not there.
            ScopeRefused: the database takes signed scopes alone, and this one is not signed with a key in use.
            DatabaseFailed: any other error of the database.
        """
        return self._pools(statements).of_threads().ask(scope, statements)

    async def aask(self, scope: Scope, statements: Sequence[Statement]) -> list[list[Any]]:
        """As `ask`, for tasks: those of one event loop share `search_connections` connections of their own."""
        return await self._pools(statements).of_tasks().ask(scope, statements)

    def _pools(self, statements: Sequence[Statement]) -> AppPools:
        return self._app if are_for_primary(statements) else self._search

    def signed(self, scope: Scope) -> Scope:
        """The same scope signed with this database's key, if it has one and the scope has no signature yet."""
        tenant, bot = scope.get("tenant"), scope.get("bot")
        if self._scope_key is None or scope.get("signature") or not tenant:
            return scope
        made = signed(self._scope_key, tenant, bot or "", scope.get("user") or "", self._scope_seconds)
        return {**scope, **made.settings}

    def close(self) -> None:
        """Close the connections that threads share; whoever asks again gets new ones."""
        self._ingest.close()
        for pools in {self._app, self._search}:
            pools.close()

    async def aclose(self) -> None:
        """Close the connections that tasks of the running event loop share, and those of `close`."""
        for pools in {self._app, self._search}:
            await pools.aclose()
        self.close()


def with_role(url: str, role: Role) -> str:
    """The same database, entered as one of the roles from the first statement on; not through a pooler."""
    parts = conninfo.conninfo_to_dict(url)
    options = f"{parts.get('options') or ''} -c role=rag_{role} -c search_path={SEARCH_PATH.replace(' ', '')}"
    return conninfo.make_conninfo(url, options=options.strip(), application_name=f"rag-assets {role}")


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
