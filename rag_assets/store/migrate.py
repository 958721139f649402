"""Bring a database to the current schema."""

from __future__ import annotations

import psycopg

from rag_assets.errors import DatabaseRefused
from rag_assets.settings import bundled
from rag_assets.store.app_role import check_app_role
from rag_assets.store.database import (
    Connection,
    Database,
    check_server,
    sqlalchemy_url,
    with_role,
)
from rag_assets.store.failures import first_line
from rag_assets.store.logins import has_logins, make_logins
from rag_assets.store.schema_version import migrations_folder
from rag_assets.store.sql import scalar, scalars
from rag_assets.store.statements import ENTER, enter_values

# One number for all processes that migrate; a session lock dies with its process, unlike yoyo's lock row.
_MIGRATION_LOCK = 0x7261675F6D6967


def migrate(database: Database) -> list[str]:
    """Create roles, schema and extension, apply the migrations that are missing, and check the app role.

    Idempotent, and safe in several processes at once. Returns the ids of the migrations applied now.

    Raises:
        DatabaseRefused: server, pgvector or app role are unfit.
    """
    with database.session() as connection:
        check_server(connection)
        connection.execute("SELECT pg_advisory_lock(%s)", [_MIGRATION_LOCK])
        connection.execute("SET client_min_messages = warning")
        _bootstrap(connection)
        if database.is_embedded:
            make_logins(connection)
        check_server(connection)
        applied = _apply(database.url)
    with database.asking() as connection:
        connection.execute(ENTER, enter_values("app", {}))
        check_app_role(connection, login=not database.searches_need_a_login)
    return applied


def _bootstrap(connection: Connection) -> None:
    try:
        connection.execute((bundled("sql") / "bootstrap.sql").read_bytes())
    except psycopg.errors.InsufficientPrivilege as error:
        user = connection.info.user
        raise DatabaseRefused(
            f"user {user!r} may not set the database up: {first_line(error)}. It needs CREATEROLE, CREATE on "
            "the database, and the right to create the extension vector; or run `rag up` once as a superuser and then: "
            f'GRANT rag_owner, rag_ingest, rag_app TO "{user}" WITH INHERIT FALSE, SET TRUE'
        ) from error


def _apply(url: str) -> list[str]:
    from yoyo import get_backend, read_migrations  # 20 ms, which every command would wait for

    # Not `backend.lock()`: a process killed while it holds that row would stop every later one.
    backend = get_backend(sqlalchemy_url(with_role(url, "owner"), driver="psycopg"))
    try:
        pending = backend.to_apply(read_migrations(str(migrations_folder())))
        backend.apply_migrations(pending)
        return [migration.id for migration in pending]
    finally:
        backend.connection.close()


def is_current(database: Database) -> bool:
    """Whether every migration of this version has been applied; False on an empty database.

    Looks as the owner, who may read the list.
    """
    wanted = {path.stem for path in migrations_folder().glob("*.sql")}
    with database.session() as connection:
        if connection.execute("SELECT FROM pg_roles WHERE rolname = 'rag_owner'").fetchone() is None:
            return False
        if database.is_embedded and not has_logins(connection):
            return False
        try:
            connection.execute("SET ROLE rag_owner")
            if scalar(connection, "SELECT to_regclass('rag._yoyo_migration')") is None:
                return False
            done = set(scalars(connection, "SELECT migration_id FROM rag._yoyo_migration"))
        except psycopg.errors.InsufficientPrivilege:
            return False  # made by somebody else; the set-up grants them, or says why it cannot
        return wanted <= done
