"""Connections are shared, leave nothing to the next who borrows one, and are survived when they break."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import psycopg
import pytest
from psycopg_pool import ConnectionPool

from rag_assets.embedding.protocol import Usage
from rag_assets.errors import DatabaseUnavailable, RagError
from rag_assets.ingest.run import ingest
from rag_assets.store.cache import PgVectorCache
from rag_assets.store.database import Connection, Database
from rag_assets.store.roots import add_root
from rag_assets.store.tenants import add_tenant, list_tenants
from tests.support.connections import sessions

_SESSION = (
    "SELECT pg_backend_pid(), current_user, current_setting('rag.tenant', true), current_setting('rag.bot', true), "
    "(SELECT count(*) FROM pg_class WHERE relpersistence = 't'), "
    "(SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()), "
    "(SELECT count(*) FROM pg_settings WHERE source = 'session' AND name NOT LIKE 'rag.%%')"
)


def backend(connection: Connection) -> int:
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    assert row is not None
    return int(row[0])


def test_an_ingest_in_which_nothing_changed_opens_fewer_than_ten_connections(database: Database, root: Path) -> None:
    (root / "a.md").write_text("# Pumps\n\nThe pump runs at 40 bar.")
    add_tenant(database, "acme", "support")
    add_root(database, "acme", "support", str(root))
    assert ingest(database, "acme", "support", "hash-64").publication.ready == 1
    database.close()
    before = sessions(database.url)
    assert ingest(database, "acme", "support", "hash-64").sources.unchanged == 1
    database.close()
    assert sessions(database.url) - before < 10


def test_a_connection_leaves_nothing_to_the_next_who_borrows_it(database: Database) -> None:
    add_tenant(database, "acme", "support")
    with database.work("acme", "support") as connection:
        first = backend(connection)
    cache = PgVectorCache(database, "acme", "support", "hash-64")
    cache.put("model", [b"digest"], np.eye(1, 64, dtype=np.float32), Usage("acme", "support", 1, 1, 0.0))
    with pytest.raises(RagError), database.work("acme", "support") as connection:  # noqa: PT012
        connection.execute("SET LOCAL work_mem = '1MB'")
        connection.execute("CREATE TEMP TABLE half_done (n int)")
        connection.execute("SELECT pg_advisory_xact_lock(1)")
        raise RagError("given up")
    with database.work() as connection:
        row = connection.execute(_SESSION).fetchone()
    assert row == (first, "rag_ingest", "", "", 0, 0, 0)


def test_what_fails_is_taken_back_and_what_ends_is_kept(database: Database) -> None:
    add_tenant(database, "acme")
    with pytest.raises(RagError), database.work("bolt") as connection:  # noqa: PT012
        connection.execute("INSERT INTO rag.tenants (id) VALUES ('bolt')")
        raise RagError("given up")
    assert list_tenants(database) == ["acme"]


def test_who_holds_a_connection_and_needs_another_never_waits_for_others_who_do(database: Database) -> None:
    all_hold_one = threading.Barrier(12)

    def nested(_: int) -> tuple[int, int]:
        with database.work() as outer:
            all_hold_one.wait(60)
            with database.work() as inner:
                return backend(outer), backend(inner)

    with ThreadPoolExecutor(12) as pool:
        pairs = list(pool.map(nested, range(12)))
    assert len({outer for outer, _ in pairs}) == 12
    assert all(outer != inner for outer, inner in pairs)


def test_connections_that_the_server_has_closed_are_replaced(database: Database) -> None:
    with database.work() as connection:
        first = backend(connection)
    with psycopg.connect(database.url, autocommit=True) as admin:
        admin.execute("SELECT pg_terminate_backend(%s, 10000)", [first])
    with database.work() as connection:
        assert backend(connection) != first


def test_work_that_the_server_breaks_off_is_an_error_of_ours(database: Database) -> None:
    with pytest.raises(DatabaseUnavailable, match=r"lost database test_\d+ at "), database.work() as connection:  # noqa: PT012
        with psycopg.connect(database.url, autocommit=True) as admin:
            admin.execute("SELECT pg_terminate_backend(%s, 10000)", [backend(connection)])
        connection.execute("SELECT 1")
    assert list_tenants(database) == []


@pytest.mark.parametrize("use", [Database.work, Database.session, Database.connect])
def test_a_server_that_is_away_is_named_without_the_password(
    use: Callable[[Database], AbstractContextManager[Connection]],
) -> None:
    database = Database("postgresql://me:geheim@127.0.0.1:1/knowledge")
    away = pytest.raises(DatabaseUnavailable, match="cannot connect to database knowledge at 127")
    with away as error, use(database):
        pytest.fail("there is no server")
    assert "geheim" not in str(error.value)
    database.close()


def test_a_forked_process_opens_connections_of_its_own(database: Database) -> None:
    with database.work() as connection:
        mine = backend(connection)
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()

    def child() -> None:
        with database.work() as connection:
            answers.put(backend(connection))
        os._exit(0)

    process = context.Process(target=child)
    process.start()
    process.join(60)
    assert answers.get() != mine
    with database.work() as connection:
        assert backend(connection) == mine


def test_a_process_that_forgets_to_close_ends_without_a_word(database: Database) -> None:
    code = "import sys; from rag_assets.store.database import Database; from rag_assets.store.tenants import *\n"
    code += "database = Database(sys.argv[1]); print(list_tenants(database))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code, database.url], capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"[]\n", b"")


class _Ended(BaseException):
    """What a signal's handler raises, as Dagster's does."""


def test_who_is_ended_in_a_query_leaves_no_line_of_the_driver_and_the_next_is_served(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    def end(*_: object) -> None:
        raise _Ended

    before = signal.signal(signal.SIGTERM, end)
    try:
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM)).start()
        with caplog.at_level("INFO", "psycopg"), pytest.raises(_Ended), database.work("acme") as connection:
            connection.execute("SELECT pg_sleep(30)")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert [record.getMessage() for record in caplog.records if record.levelname != "INFO"] == []
    with database.work("acme") as connection:
        assert backend(connection)


def test_what_the_driver_says_of_connections_of_an_application_is_kept(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    with ConnectionPool(database.url, min_size=1, open=True) as pool, caplog.at_level("WARNING", "psycopg"):
        connection = pool.getconn()
        connection.execute("SELECT 1")
        pool.putconn(connection)
    assert any("rolling back returned connection" in record.getMessage() for record in caplog.records)
