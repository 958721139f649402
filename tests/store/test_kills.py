"""Workers and servers are killed while readers search: in the end all is as if nothing had happened."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from rag_assets.embedding.registry import embedder_for
from rag_assets.errors import DatabaseUnavailable
from rag_assets.ingest.run import IngestReport, ingest
from rag_assets.retrieval import LexicalRetriever, open_scope
from rag_assets.store.database import Database, ensure_database
from rag_assets.store.migrate import migrate
from rag_assets.store.profiles import add_spec
from rag_assets.store.roots import add_root
from rag_assets.store.server import start_server, stop_server
from rag_assets.store.tenants import add_tenant
from tests.support.kills_world import PROFILE, Corpus, Reader, chunks_of, marker
from tests.support.workers.kills_worker import POINTS, REPEATED, Errand, kill_postgres

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

FILES = 60
BOT = "support"
ENOUGH = 20  # searches of a reader
WORKER = Path(__file__).parents[1] / "support/workers/kills_worker.py"
POSTGRES_VICTIMS = ("postmaster", "all", "backend")


@dataclass
class World:
    """A server that may be killed, and the tenant `shaken` that is ingested while it is."""

    home: Path
    server_url: str
    database: Database
    corpus: Corpus
    rng: random.Random

    @property
    def data(self) -> Path:
        return self.home / "postgres"

    def errand(self, victim: str, point: str) -> Errand:
        passes = self.rng.randint(1, 3) if point in REPEATED else 1
        return Errand(self.database.url, "shaken", BOT, PROFILE.name, str(self.data), victim, point, passes)

    def finish(self) -> IngestReport:
        """An ingest that nobody disturbs, of files of which many may have gone within a day."""
        return ingest(self.database, "shaken", BOT, PROFILE.name, confirm_loss=True)

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Of a query as superuser, whom no policy holds back."""
        with psycopg.connect(self.database.url) as connection:
            return connection.execute(statement, values).fetchall()

    def served(self, tenant: str) -> list[tuple[str, int, str]]:
        """(file, chunk index, content) of what is in the database, sorted."""
        return sorted(
            self.rows(
                "SELECT s.metadata ->> 'doc_id', c.chunk_index, c.content FROM rag.knowledge_chunks c "
                "JOIN rag.knowledge_sources s ON s.id = c.source_id WHERE c.tenant_id = %s",
                tenant,
            )
        )

    def unpaid(self) -> int:
        """How many texts of the files as they are now have never been embedded for `shaken`."""
        known = self.rows("SELECT content_hash FROM rag.embedding_cache WHERE tenant_id = 'shaken'")
        return len(self.corpus.hashes() - {bytes(row[0]) for row in known})


@pytest.fixture
def seed() -> int:
    """Printed, and so in the report of a failure; give it as RAG_KILLS_SEED to see the same points again."""
    chosen = int(os.environ.get("RAG_KILLS_SEED") or random.randrange(1_000_000))
    print(f"RAG_KILLS_SEED={chosen}")
    return chosen


@pytest.fixture
def world(tmp_path: Path, seed: int) -> Iterator[World]:
    home = tmp_path / "home"
    rng = random.Random(seed)
    server_url = start_server(home)
    database = Database(ensure_database(server_url, "kills"))
    migrate(database)
    add_spec(database, PROFILE)
    corpus = Corpus(tmp_path / "root", rng, FILES)
    for tenant in ("shaken", "calm"):
        add_tenant(database, tenant, BOT)
        add_root(database, tenant, BOT, str(corpus.root))
    yield World(home, server_url, database, corpus, rng)
    database.close()
    start_server(home)
    stop_server(home)


@contextmanager
def reading(world: World, readers: int = 2) -> Iterator[list[Reader]]:
    """Readers search without pause inside, and for a while after; none may have seen anything wrong at the end."""
    threads = [Reader(world.database, "shaken", BOT, number) for number in range(readers)]
    for thread in threads:
        thread.start()
    try:
        yield threads
        while any(thread.searches <= ENOUGH and not thread.faults for thread in threads):
            time.sleep(0.02)
    finally:
        for thread in threads:
            thread.stop()
    assert [thread.faults[:5] for thread in threads] == [[]] * readers


def run_worker(errand: Errand) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(WORKER), errand.to_json()], capture_output=True, text=True, timeout=120, check=False
    )


def strike(world: World, victim: str, point: str) -> None:
    """One ingest in which the victim dies: at a named point, or "any time"."""
    if point == "any time":
        strike_after(world, victim, world.rng.uniform(0.3, 2.5))
    else:
        done = run_worker(world.errand(victim, point))
        if victim == "worker":
            assert done.returncode == -9, f"not killed {point!r}: {done.stdout}{done.stderr}"
        else:
            # Only a backend's death may pass a worker by, where recovery is faster than its next connection.
            assert done.returncode != 0 or victim == "backend", done.stdout
    if victim != "worker":
        assert start_server(world.home) == world.server_url


def strike_after(world: World, victim: str, seconds: float) -> None:
    errand = world.errand("", "")
    with subprocess.Popen(
        [sys.executable, str(WORKER), errand.to_json()], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        time.sleep(seconds)
        if victim == "worker":
            process.kill()
        else:
            kill_postgres(world.data, victim, world.rng)
        process.wait(timeout=120)


def check_whole(world: World) -> None:
    """Chunks are those of the files, every source says so, and nothing is left over."""
    assert world.served("shaken") == world.corpus.chunks()
    statuses = world.rows(
        "SELECT status, count(*) FROM rag.knowledge_sources WHERE tenant_id = 'shaken' AND status <> 'deleted' "
        "GROUP BY 1"
    )
    assert dict(statuses) == {"ready": len(world.corpus.versions)}
    orphans = world.rows(
        "SELECT 'profile', s.name, s.status, sp.status FROM rag.source_profiles sp "
        "JOIN rag.knowledge_sources s ON s.id = sp.source_id "
        "WHERE s.status <> 'ready' OR sp.status <> 'ready' OR sp.checksum <> s.checksum "
        "  OR sp.chunk_count <> (SELECT count(*) FROM rag.knowledge_chunks c WHERE c.source_id = s.id) "
        "UNION ALL "
        "SELECT 'document', s.name, s.status, d.checksum FROM rag.source_documents d "
        "JOIN rag.knowledge_sources s ON s.id = d.source_id WHERE s.status <> 'ready' OR d.checksum <> s.checksum "
        "UNION ALL "
        "SELECT 'file', f.uri, '', '' FROM rag.source_files f WHERE NOT EXISTS ("
        "  SELECT FROM rag.knowledge_sources s WHERE s.file_hash = f.file_hash AND s.status = 'ready')"
    )
    assert orphans == []
    assert world.rows("SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid") == []


def everything(world: World, tenant: str) -> dict[tuple[str, int], tuple[Any, ...]]:
    """All columns of the tenant's chunks that do not depend on whose they are, by file and index."""
    rows = world.rows(
        "SELECT s.metadata ->> 'doc_id', c.chunk_index, c.content, c.citation::text, c.token_count, "
        "c.metadata::text, c.fts::text, c.embedding::text, sp.chunk_count, s.checksum, s.status "
        "FROM rag.knowledge_chunks c JOIN rag.knowledge_sources s ON s.id = c.source_id "
        "JOIN rag.source_profiles sp USING (source_id, embedding_profile_id) WHERE c.tenant_id = %s",
        tenant,
    )
    found = {(row[0], row[1]): row[2:] for row in rows}
    assert len(found) == len(rows)
    return found


def check_embeddings(world: World) -> None:
    rows = world.rows("SELECT content, embedding::text FROM rag.knowledge_chunks WHERE tenant_id = 'shaken'")
    fresh = embedder_for(PROFILE).embed_documents([row[0] for row in rows]).vectors
    stored = np.array([json.loads(row[1]) for row in rows], dtype=np.float32)
    np.testing.assert_allclose(stored, fresh, atol=1e-6)


def schedule(rng: random.Random, rounds: int) -> list[tuple[str, str]]:
    """In each round the worker dies at every point, Postgres in each way at a random one, and one of them at any
    time."""
    kills = [("worker", point) for point in POINTS] * rounds
    kills += [(victim, rng.choice(POINTS)) for victim in POSTGRES_VICTIMS * rounds]
    kills += [(rng.choice(("worker", *POSTGRES_VICTIMS)), "any time") for _ in range(rounds)]
    rng.shuffle(kills)
    return kills


def test_kills_at_random_points_leave_the_chunks_of_an_undisturbed_run_and_no_reader_sees_half_a_source(
    world: World, seed: int, rounds: int
) -> None:
    world.finish()
    started = time.monotonic()
    kills = schedule(world.rng, rounds)
    with reading(world) as readers:
        for number, (victim, point) in enumerate(kills):
            # All files at times, so that there is something to do at every point.
            world.corpus.change(1.0 if point in REPEATED else world.rng.choice([0.3, 0.6]))
            strike(world, victim, point)
            if world.rng.random() < 0.5 or number == len(kills) - 1:
                unpaid = world.unpaid()
                report = world.finish()
                assert report.embeddings.embedded == unpaid, f"after {victim} {point!r}"
                check_whole(world)
    ingest(world.database, "calm", BOT, PROFILE.name)
    assert everything(world, "shaken") == everything(world, "calm")
    check_embeddings(world)
    searches, away = sum(r.searches for r in readers), sum(r.unavailable for r in readers)
    longest = max(reader.longest_s for reader in readers)
    print(
        f"{len(kills)} kills in {time.monotonic() - started:.0f} s, {searches} searches, "
        f"{away} unavailable, the longest {longest:.1f} s"
    )


def test_a_search_sees_one_version_while_sources_are_replaced_without_pause(world: World, rounds: int) -> None:
    world.finish()
    with reading(world, readers=2):
        for _ in range(2 * rounds):
            world.corpus.change(1.0)
            world.finish()
    check_whole(world)


def test_what_was_embedded_before_a_kill_is_not_embedded_again(world: World) -> None:
    for point, unpaid in (("embeddings", 0), ("inside a publication", 0)):
        world.corpus.change(1.0)
        strike(world, "worker", point)
        assert world.unpaid() == unpaid
        report = world.finish()
        assert (report.embeddings.embedded, report.embeddings.cache_hits > 400) == (0, True)
    check_whole(world)


def test_kills_during_the_very_first_ingest_leave_nothing_that_stops_it(world: World) -> None:
    for victim, point in zip(("worker", "all", "worker", "postmaster", "backend"), POINTS[1::2], strict=True):
        strike(world, victim, point)
    world.finish()
    check_whole(world)
    with reading(world, readers=1):
        pass


def test_a_search_without_a_server_gives_up_within_half_a_minute_and_works_soon_after_it_is_back(world: World) -> None:
    world.finish()
    scope = open_scope(world.database, "shaken", BOT)
    retriever = LexicalRetriever(world.database)
    wanted = len(retriever.search(marker(1), scope, top_k=100))
    kill_postgres(world.data, "all", world.rng)
    began = time.monotonic()
    with pytest.raises(DatabaseUnavailable):
        retriever.search(marker(1), scope)
    assert time.monotonic() - began < 30
    start_server(world.home)
    assert len(retriever.search(marker(1), scope, top_k=100)) == wanted


def test_a_scope_cannot_be_opened_without_a_server_and_the_error_says_that(world: World) -> None:
    stop_server(world.home)
    with pytest.raises(DatabaseUnavailable, match="kills"):
        open_scope(world.database, "shaken", BOT)


def test_an_index_that_a_crash_left_invalid_is_built_anew(world: World) -> None:
    world.finish()
    ((index,),) = world.rows("SELECT oid::regclass::text FROM pg_class WHERE relname ~ '_fts$'")
    table = index.removesuffix("_fts")
    with psycopg.connect(world.database.url, autocommit=True) as connection:
        connection.execute(f"DROP INDEX {index}")
    # A writer in the table makes the concurrent build wait, in its half-built state.
    writer = psycopg.connect(world.database.url)
    writer.execute(f"LOCK TABLE {table} IN ROW EXCLUSIVE MODE")
    with ThreadPoolExecutor(1) as pool:
        worker = pool.submit(run_worker, world.errand("", ""))
        deadline = time.monotonic() + 60
        while not world.rows("SELECT FROM pg_index WHERE NOT indisvalid") and time.monotonic() < deadline:
            time.sleep(0.05)
        kill_postgres(world.data, "all", world.rng)
        assert worker.result().returncode != 0
    writer.close()
    start_server(world.home)
    assert len(world.rows("SELECT FROM pg_index WHERE NOT indisvalid")) == 1
    assert world.finish().lexical.index_built
    check_whole(world)


def test_every_chunk_of_the_files_names_its_file_and_its_version() -> None:
    for number in range(FILES):
        for version in (1, 2, 3):
            chunks = chunks_of(number, version)
            assert 6 <= len(chunks) <= 20
            assert all(f"{marker(number)} release {version}" in chunk for chunk in chunks)
