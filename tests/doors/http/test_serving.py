"""A server lives through its database's restarts, ends what it began when it is told to stop, and says how it is."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from rag_assets.doors.http import probes
from rag_assets.doors.http.limits import Limits
from rag_assets.observing.started import start
from rag_assets.retrieval.protocol import SteppedRetriever
from rag_assets.retrieval.results import Retrieval
from rag_assets.retrieval.retrievers import HybridRetriever
from rag_assets.retrieval.steps import Steps, call
from rag_assets.settings import load_settings
from rag_assets.store.database import Database, ensure_database
from rag_assets.store.migrate import migrate
from rag_assets.store.profiles import add_spec
from rag_assets.store.server import start_server, stop_server
from tests.doors.http.conftest import Tokens
from tests.support.http_door import OPEN_WIDE, Door, error_of, serving, token_for
from tests.support.signals import hear_ctrl_c
from tests.support.worlds import HASH_PROFILE, ingested

ASKED = {"query": "the recovery code"}


class Slow(SteppedRetriever):
    """Another retriever, some seconds late."""

    def __init__(self, inner: HybridRetriever, seconds: float) -> None:
        super().__init__(inner.database)
        self._inner, self._seconds = inner, seconds

    def steps(self, query: str, scope: Any, top_k: int = 8, filters: Any = None) -> Steps[Retrieval]:
        yield from call(lambda: time.sleep(self._seconds))
        return (yield from self._inner.steps(query, scope, top_k, filters))


class Broken(SteppedRetriever):
    """A retriever with a fault of its own."""

    def steps(self, query: str, scope: Any, top_k: int = 8, filters: Any = None) -> Steps[Retrieval]:
        raise KeyError("postgresql://user:secret@host/db")
        yield


def test_who_probes_a_server_whose_database_hangs_is_told_before_a_probe_gives_up(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(*_: object) -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr(probes, "_ANSWER_S", 0.1)
    with serving(database) as door:
        monkeypatch.setattr(database, "aask", hang)
        away = door.get("/ready", timeout=20)
        assert (away.status_code, error_of(away)["type"]) == (503, "DatabaseUnavailable")
        assert away.headers["retry-after"]


def test_a_search_that_takes_too_long_is_given_up_and_an_error_of_the_inside_stays_inside(
    world: Database, tokens: Tokens
) -> None:
    retrievers = {"slow": Slow(HybridRetriever(world), 3), "broken": Broken(world)}
    with serving(world, retrievers, Limits(seconds=0.5)) as door:
        late = door.post("/search", tokens.acme, {**ASKED, "retriever": "slow"})
        assert (late.status_code, error_of(late)["type"]) == (503, "TimeLimitReached")
        assert late.headers["retry-after"]
        wrong = door.post("/search", tokens.acme, {**ASKED, "retriever": "broken"})
        assert (wrong.status_code, error_of(wrong)["type"]) == (500, "InternalError")
        assert "secret" not in wrong.text
        assert door.post("/search", tokens.acme, ASKED).status_code == 200


def test_a_server_that_stops_ends_what_it_has_begun_and_takes_nothing_new(world: Database, tokens: Tokens) -> None:
    with serving(world, {"slow": Slow(HybridRetriever(world), 1.5)}) as door, door.client(tokens.acme) as client:
        said: list[httpx.Response] = []
        asking = threading.Thread(
            target=lambda: said.append(client.post("/search", json={**ASKED, "retriever": "slow"}))
        )
        asking.start()
        time.sleep(0.5)
        stopping = threading.Thread(target=door.stop)
        stopping.start()
        time.sleep(0.5)
        with pytest.raises(httpx.ConnectError):
            door.get("/health")
        asking.join(20)
        stopping.join(20)
        assert not stopping.is_alive()
    assert said[0].status_code == 200
    assert said[0].json()["results"]


@pytest.fixture
def restartable(tmp_path: Path) -> Iterator[tuple[Path, Database]]:
    """A database of its own with a tenant, on a server that may be stopped."""
    home = tmp_path / "home"
    home.mkdir()
    database = Database(ensure_database(start_server(home), "rag"))
    try:
        migrate(database)
        add_spec(database, HASH_PROFILE)
        ingested(database, tmp_path / "acme", "acme", {"a.md": "The recovery code is AAA-111."})
        ingested(database, tmp_path / "other", "other", {"a.md": "The recovery code is BBB-222."})
        yield home, database
    finally:
        database.close()
        stop_server(home)


@pytest.mark.slow
def test_while_the_database_is_away_every_answer_is_a_typed_503_and_then_all_is_as_before(
    restartable: tuple[Path, Database],
) -> None:
    home, database = restartable
    token = token_for(database, "t", "acme")
    stop, strange, met = threading.Event(), [], set()

    def ask(door: Door) -> None:
        with door.client(token) as client:
            while not stop.is_set():
                answer = client.post("/search", json=ASKED)
                met.add(answer.status_code)
                if answer.status_code == 200 and "BBB-222" in answer.text:
                    strange.append(answer.text)
                elif answer.status_code == 503:
                    if error_of(answer)["type"] != "DatabaseUnavailable" or str(home) in answer.text:
                        strange.append(answer.text)
                elif answer.status_code != 200 or "AAA-111" not in answer.text:
                    strange.append(answer.text)

    with serving(database) as door:
        assert door.get("/ready").status_code == 200
        askers = [threading.Thread(target=ask, args=(door,)) for _ in range(4)]
        for one in askers:
            one.start()
        for _ in range(2):
            time.sleep(0.5)
            stop_server(home)
            assert door.get("/health").status_code == 200
            away = door.get("/ready")
            assert (away.status_code, error_of(away)["type"]) == (503, "DatabaseUnavailable")
            start_server(home)
            _await_ready(door)
        stop.set()
        for one in askers:
            one.join(60)
        assert strange == []
        assert met <= {200, 503}
        assert door.post("/search", token, ASKED).status_code == 200


def _await_ready(door: Door) -> None:
    deadline = time.monotonic() + 60
    while door.get("/ready").status_code != 200:
        assert time.monotonic() < deadline, "it does not come back"


@contextmanager
def _process(home: Path, *words: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], Door]]:
    """`rag serve` as a process of its own."""
    command = [sys.executable, "-m", "rag_assets.cli", "serve", "--port", "0", *words]
    process = subprocess.Popen(
        command,
        env={**os.environ, "RAG_HOME": str(home), **environment},
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=hear_ctrl_c,
    )
    try:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "Serving on" in line)
        door = Door(int(re.findall(r":(\d+) ", line)[0]))
        deadline = time.monotonic() + 30
        while True:
            try:
                door.get("/health")
                break
            except httpx.TransportError:
                assert time.monotonic() < deadline
                time.sleep(0.1)
        yield process, door
    finally:
        process.kill()
        process.wait(30)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_serves_and_ends_well_when_it_is_told_to(
    restartable: tuple[Path, Database], tmp_path: Path, number: signal.Signals
) -> None:
    home, database = restartable
    token = token_for(database, "t", "acme")
    (tmp_path / "words.toml").write_text('kind = "lexical"\n')
    with _process(home, "--retriever", f"words={tmp_path / 'words.toml'}", "--json") as (process, door):
        assert "AAA-111" in door.post("/search", token, ASKED).text
        assert door.post("/search", token, {**ASKED, "retriever": "words"}).json()["retriever"] == "words"
        metrics = door.get("/metrics")
        assert metrics.status_code == 200
        assert 'http_route="/search"' in metrics.text
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert process.returncode == (130 if number == signal.SIGINT else 0), err
    assert '"stopped": true' in out
    assert "Traceback" not in err
    assert not [one for one in children if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


def test_metrics_are_told_to_who_may_read_them_and_to_no_caller(world: Database, tokens: Tokens) -> None:
    secret = "metrics-metrics-1"
    for limits, headers, status in (
        (OPEN_WIDE, {}, 200),
        (OPEN_WIDE, {"X-Forwarded-For": "127.0.0.1"}, 403),
        (OPEN_WIDE, {"X-Forwarded-For": "203.0.113.9"}, 403),
        (OPEN_WIDE, {"Via": "1.1 proxy"}, 403),
        (OPEN_WIDE, {"Host": "localhost:8000"}, 200),
        (OPEN_WIDE, {"Host": "page.example"}, 403),  # whose owner's DNS points to this machine
        (replace(OPEN_WIDE, hosts=("rag.example", "127.0.0.1")), {"Host": "rag.example"}, 200),
        (Limits(metrics_token=secret), {}, 401),
        (Limits(metrics_token=secret), {"Authorization": f"Bearer {tokens.acme}"}, 401),
        (Limits(metrics_token=secret), {"Authorization": f"Bearer {secret}"}, 200),
    ):
        with start("test", load_settings()) as telemetry, serving(world, None, limits, telemetry) as door:
            assert door.post("/search", tokens.acme, ASKED).status_code == 200
            answer = door.get("/metrics", headers=headers)
            assert answer.status_code == status, headers
            assert ("rag_search" in answer.text) is (status == 200)
    with serving(world) as door:
        assert door.get("/metrics").status_code == 404
