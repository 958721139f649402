"""Builds of an index whose process was stopped while the server was at them."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from rag_assets.embedding.profiles import IndexSpec, make_profile
from rag_assets.store import indexes
from rag_assets.store.database import Database
from rag_assets.store.indexes import ensure_hnsw
from rag_assets.store.partitions import partition_name
from rag_assets.store.sql import query, scalar
from tests.support.corpora import Corpus, unit


@pytest.fixture
def corpus(module_database: Database, request: pytest.FixtureRequest) -> Iterator[Corpus]:
    name = request.node.name.replace("_", "-")[:40].strip("-")
    profile = make_profile(name="stopped", provider="hash", model="hash", dimensions=128, index=IndexSpec(kind="hnsw"))
    corpus = Corpus(module_database, profile, tenant=name)
    _publish(corpus, 0, 20)
    yield corpus
    corpus.close()


def _publish(corpus: Corpus, first: int, last: int) -> None:
    vectors = unit(np.random.default_rng(first).normal(size=(last - first, 128)))
    corpus.publish([f"text {n}" for n in range(first, last)], vectors, source=f"from {first}")


def test_an_index_that_the_server_finished_alone_is_rebuilt_once_it_has_outgrown_that(
    module_database: Database, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as killed:
        killed.setattr(indexes, "_note_build", lambda *_: None)
        assert ensure_hnsw(module_database, corpus.built).index_built
    assert not ensure_hnsw(module_database, corpus.built).index_built
    with module_database.work(corpus.built.tenant) as connection:
        recall = scalar(connection, query("index_recall"), {"profile": corpus.built.id})
    assert recall is None, "it was not measured, and is not said to be exact"
    _publish(corpus, 20, 50)
    assert ensure_hnsw(module_database, corpus.built).index_built


def test_what_a_stopped_rebuild_left_goes_with_the_next_one(module_database: Database, corpus: Corpus) -> None:
    ensure_hnsw(module_database, corpus.built)
    left = f"{partition_name(corpus.built.id)}_hnsw_ccnew1"
    with module_database.session() as connection:
        connection.execute(f"CREATE INDEX {left} ON rag.{partition_name(corpus.built.id)} (chunk_index)")
        connection.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = %s::regclass", [f"rag.{left}"])
    _publish(corpus, 20, 50)
    assert ensure_hnsw(module_database, corpus.built).index_built
    with module_database.work(corpus.built.tenant) as connection:
        assert scalar(connection, "SELECT to_regclass(%(left)s)", {"left": f"rag.{left}"}) is None


class _Stopped(BaseException):
    """As Dagster's, which is neither an Exception nor a KeyboardInterrupt."""


@contextmanager
def _stopped_soon(kind: type[BaseException]) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise kind

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("kind", [_Stopped, KeyboardInterrupt])
def test_what_the_server_is_at_is_cancelled_however_its_client_is_stopped(
    module_database: Database, kind: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    processes: list[int] = []

    def wait() -> None:
        with module_database.session("owner") as connection:
            processes.append(connection.info.backend_pid)
            connection.execute("SELECT pg_sleep(60)")

    with caplog.at_level(logging.WARNING), pytest.raises(kind), _stopped_soon(kind):
        wait()
    assert caplog.records == []
    with module_database.session() as connection:
        state = scalar(connection, "SELECT state FROM pg_stat_activity WHERE pid = %(pid)s", {"pid": processes[0]})
    assert state != "active"
