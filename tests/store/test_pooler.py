"""Behind PgBouncer in transaction mode, each transaction may run in another session, with what others left there."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from evals.gate import GatePolicy
from evals.runner import judge
from rag_assets.embedding.profiles import IndexSpec, make_profile
from rag_assets.errors import DatabaseRefused, DatabaseUnavailable
from rag_assets.ingest.run import ingest
from rag_assets.retrieval import HybridRetriever, aopen_scope, open_scope
from rag_assets.store.batch_jobs import alone_with_jobs
from rag_assets.store.database import Database
from rag_assets.store.migrate import migrate
from rag_assets.store.profiles import add_spec, built_profile
from rag_assets.store.promotion import promote, roll_back
from rag_assets.store.recall import tune_recall
from tests.support.labelled_world import COARSE, FINE, labelled_bot, write_collection
from tests.support.pooler import PGBOUNCER, pgbouncer
from tests.support.worlds import ingested, rooted, write_files

pytestmark = [pytest.mark.slow, pytest.mark.skipif(PGBOUNCER is None, reason="PgBouncer is not installed")]


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


def test_setting_up_looks_at_the_login_of_searches_through_it(world: Database, tmp_path: Path) -> None:
    with pgbouncer(world, tmp_path / "pooler", "transaction") as through:
        assert migrate(Database(world.url, through("searching"), ingest_url=through("ingesting"))) == []
        with pytest.raises(DatabaseRefused, match="work as rag_app"):
            migrate(Database(world.url, through("ingesting")))


def test_an_index_is_built_and_tuned_and_a_batch_has_its_turn_where_one_connection_is_all_there_is(
    world: Database, tmp_path: Path
) -> None:
    """Whoever held one and needed another would wait for ever."""
    spec = make_profile(name="indexed", provider="hash", model="hash", dimensions=16, index=IndexSpec(kind="hnsw"))
    add_spec(world, spec)
    with pgbouncer(world, tmp_path / "pooler", "transaction", size=1) as through:
        pooled = Database(world.url, through("searching"), ingest_url=through("ingesting"))
        rooted(pooled, tmp_path / "cold", "cold", {f"{n}.md": f"Hose {n} is red." for n in range(40)})
        report = ingest(pooled, "cold", "support", "indexed")
        assert (report.publication.ready, report.hnsw.searched) == (40, "hnsw")
        with pooled.work("cold") as connection:
            built = built_profile(connection, "cold", "support", "indexed")
        tuned = tune_recall(pooled, built)
        assert tuned is not None
        assert tuned.recall == 1
        assert "red" in words(pooled, "cold")
        with alone_with_jobs(pooled, "cold", "m"), alone_with_jobs(pooled, "cold", "n"):
            assert "red" in words(pooled, "cold")
        pooled.close()


def test_labels_gate_and_promotion_go_through_it(world: Database, tmp_path: Path) -> None:
    with pgbouncer(world, tmp_path / "pooler", "transaction", size=1) as through:
        pooled = Database(world.url, through("searching"), ingest_url=through("ingesting"))
        labelled_bot(pooled, "judged", write_collection(tmp_path / "labels"))
        judged = judge(pooled, "judged", "b", FINE, mode="dense", policy=GatePolicy(max_p95_ratio=None))
        assert judged.verdict.exit_code == 0, judged.verdict.reasons
        promote(pooled, "judged", "b", FINE)
        assert open_scope(pooled, "judged", "b").profile.name == FINE
        roll_back(pooled, "judged", "b")
        assert open_scope(pooled, "judged", "b").profile.name == COARSE
        pooled.close()


def test_a_pooler_that_is_restarted_loses_no_search_and_an_ingest_at_most_its_run(
    world: Database, tmp_path: Path
) -> None:
    found: list[str] = []
    over = threading.Event()

    def keep_asking(number: int) -> None:
        while not over.is_set():
            found.append(words(pooled, ("acme", "bolt")[number % 2]))

    with pgbouncer(world, tmp_path / "pooler", "transaction") as through:
        pooled = Database(world.url, through("searching"), ingest_url=through("ingesting"))
        write_files(tmp_path / "docs", {f"new{n}.md": f"Hose {n} is red." for n in range(200)})
        with ThreadPoolExecutor(5) as pool:
            asking = [pool.submit(keep_asking, number) for number in range(4)]
            running = pool.submit(ingest, pooled, "acme", "support", "hash-64")
            for _ in range(2):
                through.restart()
                before = len(found)
                while len(found) < before + 20 and not any(one.done() for one in asking):
                    over.wait(0.01)
            over.set()
            for one in asking:
                one.result()
            try:
                running.result()
            except DatabaseUnavailable:
                ingest(pooled, "acme", "support", "hash-64")
        assert len(found) >= 40
        assert all(("red" in text) is not ("blue" in text) for text in found)
        assert ingest(pooled, "acme", "support", "hash-64").publication.ready == 0, "all of it was published"
        pooled.close()
