"""While a thousand chunks are embedded, something dies: all are served in the end, at most one batch is paid twice."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from rag_assets.embedding.profiles import make_profile
from rag_assets.ingest.sources import sync_sources
from rag_assets.store.database import Database, ensure_database
from rag_assets.store.migrate import migrate
from rag_assets.store.profiles import add_spec
from rag_assets.store.roots import add_root
from rag_assets.store.server import start_server, stop_server
from rag_assets.store.tenants import add_tenant
from tests.support.embed_world import GOOGLE_PREFIX, cached, embedded_items, served, statuses
from tests.support.google_server import Behaviour, GoogleServer, Reply, embed, error, google_server, unit_vectors
from tests.support.servers import copy_database, drop_database

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

CHUNKS = 1000
BATCH = 100
TENANT, BOT = "shaken", "support"
PROFILE = make_profile(name="gemini-128", provider="google", model="gemini-embedding-2", dimensions=128)
PREPARED = "embedding_kills"
WORKER = Path(__file__).parents[1] / "support/workers/embed_worker.py"


def text_of(number: int) -> str:
    return f"Part {number} of the pump fits frame {number * 7 % 5003} and is kept on shelf {number % 89}."


def prepare(database: Database, folder: Path) -> None:
    """A tenant whose sources have been read, and none embedded."""
    corpus = folder / "corpus.jsonl"
    lines = (json.dumps({"_id": f"part-{number}", "text": text_of(number)}) for number in range(CHUNKS))
    corpus.write_text("\n".join(lines))
    migrate(database)
    add_spec(database, PROFILE)
    add_tenant(database, TENANT, BOT)
    add_root(database, TENANT, BOT, str(corpus))
    assert sync_sources(database, TENANT, BOT).changed == CHUNKS
    database.close()


@pytest.fixture(scope="module")
def new_world(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], str]:
    """Makes the URL of a fresh copy of what `prepare` makes, in place of the copy before."""
    prepare(Database(ensure_database(server_url, PREPARED)), tmp_path_factory.mktemp("corpus"))

    def make() -> str:
        drop_database(server_url, f"{PREPARED}_copy")
        return copy_database(server_url, PREPARED, f"{PREPARED}_copy")

    return make


@pytest.fixture
def google(monkeypatch: pytest.MonkeyPatch) -> Iterator[GoogleServer]:
    with google_server(monkeypatch) as running:
        yield running


@pytest.fixture
def rng() -> random.Random:
    """Its seed is printed, and so in the report of a failure; give it as RAG_KILLS_SEED to see the same again."""
    seed = int(os.environ.get("RAG_KILLS_SEED") or random.randrange(1_000_000))
    print(f"RAG_KILLS_SEED={seed}")
    return random.Random(seed)


def start(url: str) -> subprocess.Popen[str]:
    words = [sys.executable, str(WORKER), url, TENANT, BOT, PROFILE.name]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(url: str) -> dict[str, int]:
    """An ingest that nobody disturbs: what it embedded and what it found."""
    with start(url) as process:
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    counts: dict[str, int] = json.loads(out)
    return counts


class AtItem:
    """Answers rightly, and strikes with the request that brings the given item: while the worker waits for the
    answer, which is paid for; as it comes; or a moment later."""

    MOMENTS = ("before the answer", "with the answer", "a moment after the answer")

    def __init__(self, item: int, moment: str, strike: Callable[[], None], delay: float = 0.0) -> None:
        self._left, self._moment, self._strike, self._delay = item, moment, strike, delay
        self._lock = threading.Lock()

    def __call__(self, reply: Reply) -> None:
        with self._lock:
            due = 0 < self._left <= len(reply.arrived.items)
            self._left -= len(reply.arrived.items)
        if due and self._moment == "before the answer":
            self._strike()
        embed(reply)
        if due and self._moment == "a moment after the answer":
            time.sleep(self._delay)
        if due and self._moment != "before the answer":
            self._strike()


def answer_with(google: GoogleServer, behaviour: Behaviour) -> None:
    """From now on, with the count of what is paid at zero."""
    google.routes[:] = [("POST", r".*:batchEmbedContents", behaviour)]
    google.paid.clear()


def check_whole(url: str) -> None:
    """Every text is served with its vector and counted once, and nothing is left over."""
    texts, vectors = served(url)
    assert texts == sorted(map(text_of, range(CHUNKS)))
    right = unit_vectors([GOOGLE_PREFIX + text for text in texts], PROFILE.dimensions)
    np.testing.assert_allclose(vectors, right, atol=1e-6)
    assert statuses(url) == {"ready": CHUNKS}
    # A batch whose answer was lost with its worker was paid for and never seen, so it is counted once.
    assert (cached(url), embedded_items(url)) == (CHUNKS, CHUNKS)


def paid(google: GoogleServer) -> tuple[int, int]:
    """How many items were embedded, and how many of these for the second time."""
    assert set(google.paid) == {GOOGLE_PREFIX + text_of(number) for number in range(CHUNKS)}
    return google.paid.total(), google.paid.total() - CHUNKS


def kill_at(google: GoogleServer, url: str, item: int, moment: str, delay: float) -> None:
    """One ingest whose process is killed while it embeds."""
    worker: list[subprocess.Popen[str]] = []
    answer_with(google, AtItem(item, moment, lambda: worker[0].kill(), delay))
    with start(url) as process:
        worker.append(process)
        _, err = process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL, err


@pytest.mark.parametrize("moment", AtItem.MOMENTS)
def test_a_killed_worker_costs_at_most_one_batch_again(
    new_world: Callable[[], str], google: GoogleServer, rng: random.Random, rounds: int, moment: str
) -> None:
    for number in range(rounds):
        url = new_world()
        item, delay = rng.randint(1, CHUNKS), rng.uniform(0, 0.05)
        kill_at(google, url, item, moment, delay)
        known = cached(url)
        before = google.paid.total()
        counts = finish(url)
        total, twice = paid(google)
        print(f"round {number}: killed {moment} to item {item}, {known} kept of {before}, {total} paid, {twice} twice")
        assert (counts["embedded"], counts["cache_hits"]) == (CHUNKS - known, known)
        assert total <= CHUNKS + BATCH
        assert max(google.paid.values()) <= 2
        check_whole(url)


@pytest.mark.parametrize("outage", ["refuses connections", "answers 503"])
def test_a_run_outlives_a_provider_that_goes_and_comes_back(
    new_world: Callable[[], str], google: GoogleServer, rng: random.Random, outage: str
) -> None:
    url = new_world()
    item, down = rng.randint(1, CHUNKS), threading.Event()
    at_item = AtItem(item, "with the answer", down.set)
    answer_with(google, lambda reply: error(503)(reply) if down.is_set() else at_item(reply))
    with start(url) as process:
        assert down.wait(60)
        if outage == "refuses connections":
            google.stop()
        time.sleep(1.5)  # several tries
        down.clear()
        if outage == "refuses connections":
            google.start()
        _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert paid(google) == (CHUNKS, 0), f"gone at item {item}"
    check_whole(url)


def test_a_database_that_is_restarted_costs_at_most_one_batch_again(
    google: GoogleServer, rng: random.Random, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    server = start_server(home)
    try:
        url = ensure_database(server, PREPARED)
        prepare(Database(url), tmp_path)
        item, moment = rng.randint(1, CHUNKS - BATCH), rng.choice(AtItem.MOMENTS)
        answer_with(google, AtItem(item, moment, lambda: restart(home), rng.uniform(0, 0.05)))
        with start(url) as process:
            _, err = process.communicate(timeout=120)
        # It outlives a restart while it asks the provider, and so holds no connection.
        told = re.search(r"^(psycopg\.\S+|rag_assets\.errors\.DatabaseUnavailable): ", err, re.MULTILINE)
        assert process.returncode == 0 or told, err
        finish(url)
        total, twice = paid(google)
        print(f"restarted {moment} to item {item}: {total} paid, {twice} twice")
        assert total <= CHUNKS + BATCH
        check_whole(url)
    finally:
        stop_server(home)


def restart(home: Path) -> None:
    stop_server(home)
    start_server(home)
