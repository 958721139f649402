"""Whoever gets words of his own into a session of the app or of ingest gains nothing by it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from rag_assets.errors import DatabaseRefused
from rag_assets.retrieval import aopen_scope, open_scope
from rag_assets.store.database import Database
from rag_assets.store.migrate import is_current, migrate
from rag_assets.store.server import running_url
from rag_assets.store.statements import Role
from rag_assets.store.tenants import add_tenant, list_tenants

ESCAPES = [
    "SET ROLE NONE",
    "RESET ROLE",
    "SELECT set_config('role', 'none', false)",
    "DISCARD ALL",
]
POWERS = [
    "SET SESSION AUTHORIZATION postgres",
    "SET ROLE postgres",
    "COPY (SELECT 1) TO PROGRAM 'true'",
    "COPY (SELECT 1) TO '/tmp/rag-assets-attack'",
    "CREATE TEMP TABLE t (line text); COPY t FROM PROGRAM 'id'",
    "SELECT lo_import('/etc/passwd')",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT pg_ls_dir('/')",
    "CREATE ROLE mine SUPERUSER",
    "ALTER ROLE CURRENT_USER SUPERUSER",
    "CREATE FUNCTION public.cardinality(uuid[]) RETURNS int LANGUAGE sql RETURN 0",
    "ALTER SYSTEM SET archive_command = 'id'",
]
TABLES = ["rag.knowledge_chunks", "rag.tenants", "rag.embedding_cache"]


@contextmanager
def escaped(database: Database, role: Role, escape: str) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    with database.connect(role, autocommit=True) as connection:
        connection.execute(escape)
        yield connection


@pytest.fixture(scope="module")
def world(module_database: Database) -> Database:
    for tenant in ("alpha", "beta"):
        add_tenant(module_database, tenant, "support")
    return module_database


@pytest.mark.parametrize("escape", ESCAPES)
@pytest.mark.parametrize("role", ["app", "ingest", "owner"])
def test_a_session_that_leaves_its_role_is_nobody(world: Database, role: Role, escape: str) -> None:
    with escaped(world, role, escape) as connection:
        login = f"rag_{role}_login"
        assert connection.execute("SELECT session_user, current_user").fetchone() == (login, login)
        for table in TABLES:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"SELECT * FROM {table}")
        for attack in POWERS:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(attack)


@pytest.mark.parametrize("role", ["app", "ingest"])
def test_a_session_in_its_role_has_no_power_over_the_server_either(world: Database, role: Role) -> None:
    with world.connect(role, autocommit=True) as connection:
        for attack in [*POWERS, "SET ROLE rag_owner", "SET ROLE rag_search"]:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(attack)


@contextmanager
def login(database: Database, *made: str) -> Iterator[Database]:
    """The database as an application with a login of its own has it."""
    with psycopg.connect(database.url, autocommit=True) as connection:
        for statement in made:
            connection.execute(statement)
    app = Database(make_conninfo(database.url, user="strong"))
    try:
        yield app
    finally:
        app.close()
        with psycopg.connect(database.url, autocommit=True) as connection:
            for role in ("strong", "middle"):
                if connection.execute("SELECT to_regrole(%s)", [role]).fetchone() != (None,):
                    connection.execute(f"REASSIGN OWNED BY {role} TO postgres; DROP OWNED BY {role}; DROP ROLE {role}")


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (["CREATE ROLE strong LOGIN SUPERUSER"], "it is a superuser.*ALTER ROLE strong NOSUPERUSER"),
        (["CREATE ROLE strong LOGIN BYPASSRLS IN ROLE rag_app"], "it has BYPASSRLS.*NOBYPASSRLS"),
        (["CREATE ROLE strong LOGIN CREATEROLE IN ROLE rag_app"], "it may create roles.*NOCREATEROLE"),
        (["CREATE ROLE strong LOGIN REPLICATION IN ROLE rag_app"], "copy the whole server.*NOREPLICATION"),
        (["CREATE ROLE strong LOGIN IN ROLE rag_app, rag_owner"], "rag_owner, which owns the tables.*REVOKE rag_owner"),
        (["CREATE ROLE strong LOGIN IN ROLE rag_app, rag_ingest"], "rag_ingest, which writes.*REVOKE rag_ingest"),
        (["CREATE ROLE strong LOGIN IN ROLE rag_app, rag_search"], "rag_search, which reads all.*REVOKE rag_search"),
        (
            ["CREATE ROLE middle SUPERUSER", "CREATE ROLE strong LOGIN IN ROLE rag_app, middle"],
            "it may become middle, which is a superuser.*REVOKE middle FROM strong",
        ),
        (
            ["CREATE ROLE middle IN ROLE rag_owner", "CREATE ROLE strong LOGIN IN ROLE rag_app",
             "GRANT middle TO strong WITH ADMIN TRUE, INHERIT FALSE, SET FALSE"],
            "rag_owner, which owns the tables.*REVOKE middle FROM strong",
        ),
        (
            ["CREATE ROLE strong LOGIN IN ROLE rag_app, pg_execute_server_program"],
            "runs programs on the server.*REVOKE pg_execute_server_program FROM strong",
        ),
        (["CREATE ROLE strong LOGIN IN ROLE rag_app, pg_read_server_files"], "reads files of the server"),
        (["CREATE ROLE strong LOGIN IN ROLE rag_app, pg_write_server_files"], "writes files of the server"),
        (["CREATE ROLE strong LOGIN IN ROLE rag_app, pg_read_all_data"], "reads every table"),
        (
            ["CREATE ROLE strong LOGIN IN ROLE rag_app", "GRANT CREATE ON SCHEMA public TO strong"],
            "functions in schema public.*REVOKE CREATE ON SCHEMA public FROM PUBLIC, strong",
        ),
        (
            ["CREATE ROLE strong LOGIN IN ROLE rag_app", "ALTER TABLE rag.lexeme_stats OWNER TO strong"],
            "owns 1 of the tables",
        ),
    ],
)  # fmt: skip
def test_an_application_whose_login_could_become_too_much_is_refused(
    world: Database, made: list[str], says: str
) -> None:
    with login(world, *made) as app:
        for search in (
            lambda: open_scope(app, "alpha", "support"),
            lambda: asyncio.run(aopen_scope(app, "alpha", "support")),
            lambda: app.connect("app"),
        ):
            with pytest.raises(DatabaseRefused, match=says) as refused:
                search()
            assert "RAG_APP_DATABASE_URL" in str(refused.value)


def test_an_application_whose_login_has_the_role_alone_may_search(world: Database) -> None:
    with (
        login(world, "CREATE ROLE strong LOGIN IN ROLE rag_app") as app,
        pytest.raises(Exception, match="no active profile"),
    ):
        open_scope(app, "alpha", "support")


def test_who_holds_the_owners_login_anyway_may_search_with_it(world: Database) -> None:
    with login(world, "CREATE ROLE strong LOGIN SUPERUSER") as app:
        operator = Database(app.url, operator=True)
        with pytest.raises(Exception, match="no active profile"):
            open_scope(operator, "alpha", "support")
        operator.close()


def test_a_login_for_ingest_that_could_become_too_much_is_refused(world: Database) -> None:
    with login(world, "CREATE ROLE strong LOGIN IN ROLE rag_ingest, pg_read_server_files") as strong:
        ingest = Database(world.url, ingest_url=strong.url)
        with pytest.raises(
            DatabaseRefused, match=r"must not ingest.*reads files of the server.*RAG_INGEST_DATABASE_URL"
        ):
            list_tenants(ingest)
        ingest.close()
    with login(world, "CREATE ROLE strong LOGIN IN ROLE rag_ingest") as strong:
        ingest = Database(world.url, ingest_url=strong.url)
        assert list_tenants(ingest) == ["alpha", "beta"]
        ingest.close()


def _forget(url: str) -> Path:
    """Take a server back to what an earlier version made."""
    socket_dir = Path(str(conninfo_to_dict(url)["host"]))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP ROLE rag_app_login, rag_ingest_login, rag_owner_login")
    (socket_dir / "rag-assets-server").unlink()
    return socket_dir.parent


@pytest.mark.parametrize("how", ["the next start", "rag up"])
def test_a_server_of_an_earlier_version_gets_its_logins(
    new_database: Callable[[], Database], server_url: str, how: str
) -> None:
    database = new_database()
    home = _forget(server_url)
    if how == "the next start":
        assert running_url(home) == server_url
    else:
        (home / "postgres" / "rag-assets-server").touch()
        assert not is_current(database)
        migrate(database)
    assert is_current(database)
    with database.connect("app") as connection:
        assert connection.execute("SELECT session_user, current_user").fetchone() == ("rag_app_login", "rag_app")
    database.close()
