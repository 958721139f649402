"""Behind PgBouncer in transaction mode, each transaction may run in another session, with what others left there."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from rag_assets.errors import DatabaseRefused
from rag_assets.ingest.run import ingest
from rag_assets.retrieval import HybridRetriever, aopen_scope, open_scope
from rag_assets.store.database import Database
from rag_assets.store.migrate import migrate
from rag_assets.store.server_process import HERE
from tests.support.worlds import ingested, write_files

PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")

pytestmark = [pytest.mark.slow, pytest.mark.skipif(PGBOUNCER is None, reason="PgBouncer is not installed")]


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@contextmanager
def pgbouncer(database: Database, folder: Path, mode: str) -> Iterator[Callable[[str], str]]:
    """A pooler of two connections before the server; makes the URL of a login through it."""
    parts, port = conninfo_to_dict(database.url), _free_port()
    folder.mkdir()
    (folder / "users").write_text("".join(f'"{user}" ""\n' for user in ("postgres", "searching", "ingesting")))
    (folder / "pgbouncer.ini").write_text(
        f"[databases]\n* = host={HERE} port={parts['port']}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
        f"listen_port = {port}\nunix_socket_dir =\nauth_type = trust\nauth_file = {folder}/users\npool_mode = {mode}\n"
        "default_pool_size = 2\nmax_client_conn = 200\n"
    )
    command = [str(PGBOUNCER), str(folder / "pgbouncer.ini")]
    if os.geteuid() == 0:  # it refuses to be root, and the server's socket is for root and this user
        command += ["-u", "pgserver"]
        os.chown(folder, *pwd.getpwnam("pgserver")[2:4])
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(command, cwd=str(parts["host"]), stdout=log, stderr=log) as running,
    ):
        try:
            for _ in range(100):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.1)
            yield lambda user: make_conninfo(database.url, host="127.0.0.1", port=port, user=user)
        finally:
            running.terminate()


@pytest.fixture
def world(database: Database, tmp_path: Path) -> Iterator[Database]:
    ingested(database, tmp_path / "docs", "acme", {f"a{n}.md": f"Valve {n} is red." for n in range(5)})
    ingested(database, tmp_path / "others", "bolt", {f"b{n}.md": f"Valve {n} is blue." for n in range(5)})
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute("CREATE ROLE searching LOGIN IN ROLE rag_app")
        connection.execute("CREATE ROLE ingesting LOGIN IN ROLE rag_ingest")
    yield database
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute("DROP ROLE searching, ingesting")


def words(database: Database, tenant: str) -> str:
    scope = open_scope(database, tenant, "support")
    return " ".join(hit.content for hit in HybridRetriever(database).search("valve red blue", scope))


def test_threads_and_tasks_search_through_it_each_in_its_own_tenant(world: Database, tmp_path: Path) -> None:
    async def tasks(app: Database) -> None:
        async def ask(tenant: str) -> str:
            scope = await aopen_scope(app, tenant, "support")
            return " ".join(hit.content for hit in await HybridRetriever(app).asearch("valve red blue", scope))

        for red, blue in await asyncio.gather(*(asyncio.gather(ask("acme"), ask("bolt")) for _ in range(20))):
            assert ("red" in red, "blue" in red, "red" in blue, "blue" in blue) == (True, False, False, True)
        await app.aclose()

    with pgbouncer(world, tmp_path / "pooler", "transaction") as through:
        app = Database(through("searching"))
        with ThreadPoolExecutor(8) as pool:  # often enough for the driver to prepare its statements
            found = list(pool.map(lambda n: words(app, ("acme", "bolt")[n % 2]), range(80)))
        assert all("red" in text and "blue" not in text for text in found[::2])
        assert all("blue" in text and "red" not in text for text in found[1::2])
        asyncio.run(tasks(app))
        app.close()


def test_nobody_who_borrows_a_connection_after_us_finds_a_role_or_a_scope(world: Database, tmp_path: Path) -> None:
    with pgbouncer(world, tmp_path / "pooler", "transaction") as through:
        app = Database(through("searching"))
        assert "red" in words(app, "acme")
        for _ in range(4):
            with psycopg.connect(through("searching")) as next_one:
                row = next_one.execute(
                    "SELECT current_user, current_setting('rag.tenant', true), current_setting('search_path')"
                ).fetchone()
            assert row in (("searching", None, '"$user", public'), ("searching", "", '"$user", public'))
        app.close()


def test_ingest_goes_through_it_while_the_owners_work_goes_to_the_server(world: Database, tmp_path: Path) -> None:
    with pgbouncer(world, tmp_path / "pooler", "transaction") as through:
        pooled = Database(world.url, through("searching"), ingest_url=through("ingesting"))
        write_files(tmp_path / "docs", {f"new{n}.md": f"Hose {n} is red." for n in range(60)})
        report = ingest(pooled, "acme", "support", "hash-64")
        assert report.publication.ready == 60
        assert "red" in words(pooled, "acme")
        pooled.close()


@pytest.mark.parametrize("work", [migrate, lambda database: database.connect("owner")])
def test_what_needs_a_session_is_refused_by_name_through_it(
    world: Database, tmp_path: Path, work: Callable[[Database], object]
) -> None:
    with pgbouncer(world, tmp_path / "pooler", "transaction") as through:
        owner = Database(through("postgres"))
        with pytest.raises(DatabaseRefused, match=r"pooler in transaction mode, such as PgBouncer.*itself"):
            work(owner)


def test_a_pooler_in_session_mode_is_as_good_as_the_server_but_for_setting_up(world: Database, tmp_path: Path) -> None:
    with pgbouncer(world, tmp_path / "pooler", "session") as through:
        owner = Database(through("postgres"), operator=True)
        with owner.connect("owner") as connection:
            assert connection.execute("SELECT current_user").fetchone() == ("rag_owner",)
        with pytest.raises(DatabaseRefused, match="name the server itself"):
            migrate(owner)
        assert "red" in words(owner, "acme")
        owner.close()
