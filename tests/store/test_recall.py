"""What an index is measured against, and how much of it is measured."""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

import numpy as np
import pytest

from rag_assets.embedding.profiles import IndexSpec, make_profile
from rag_assets.store import recall
from rag_assets.store.database import Database
from rag_assets.store.indexes import ensure_hnsw, sample_vectors
from rag_assets.store.recall import nearest_scores, tune_recall
from tests.support.corpora import Corpus, unit

DIMENSIONS = 128


def corpus_of(database: Database, name: str, **fields: Any) -> Corpus:
    spec = {"provider": "hash", "model": "hash", "dimensions": DIMENSIONS, "index": IndexSpec(kind="hnsw")} | fields
    return Corpus(database, make_profile(name=name, **spec), tenant=name)


@pytest.mark.parametrize("metric", ["cosine", "ip", "l2"])
def test_it_is_measured_against_what_exact_search_finds(
    module_database: Database, monkeypatch: pytest.MonkeyPatch, metric: Literal["cosine", "ip", "l2"]
) -> None:
    """With lengths that are allowed, equal texts, and nearer chunks that are somebody's own."""
    rng = np.random.default_rng(1)
    corpus = corpus_of(module_database, f"against-{metric}", distance_metric=metric)
    vectors = unit(rng.normal(size=(100, DIMENSIONS)))
    lengths = rng.uniform(0.991, 1.009, size=(100, 1)).astype(np.float32)
    corpus.publish([f"text {n // 2}" for n in range(100)], vectors * lengths)
    corpus.publish(["mine"], vectors[:1], source="own")
    corpus.as_superuser(
        "UPDATE rag.knowledge_sources SET scope_type = 'user', scope_user_id = 'ann' WHERE name = 'own' "
        "AND tenant_id = %s RETURNING id",
        corpus.built.tenant,
    )
    asked = [*unit(rng.normal(size=(5, DIMENSIONS))), vectors[0]]
    expected = [[row.score for row in corpus.near(one, 10, exact=True, copies=True)] for one in asked]
    for size in (1, 1000, 8 << 20):
        monkeypatch.setattr(recall, "_PART_BYTES", size)
        with module_database.work(corpus.built.tenant) as connection:
            found = nearest_scores(connection, corpus.built, asked)
        assert found == pytest.approx(np.array(expected), abs=1e-6)
    corpus.close()


@pytest.mark.parametrize("limit", [5, 11, 20])
def test_a_sample_has_a_text_once_however_often_it_stands(module_database: Database, limit: int) -> None:
    corpus = corpus_of(module_database, f"repeated-{limit}")
    vectors = unit(np.random.default_rng(4).normal(size=(11, DIMENSIONS)))
    numbers = [0] * 90 + list(range(1, 11))
    corpus.publish([f"text {n}" for n in numbers], vectors[numbers])
    with module_database.work(corpus.built.tenant) as connection:
        sample = sample_vectors(connection, corpus.built, limit)
    assert len(sample) == len({vector.tobytes() for vector in sample}) == min(limit, 11)
    corpus.close()


def test_fewer_chunks_than_are_looked_for_are_all_of_them(module_database: Database) -> None:
    corpus = corpus_of(module_database, "few")
    vectors = unit(np.random.default_rng(2).normal(size=(3, DIMENSIONS)))
    corpus.publish(["a", "b", "c"], vectors)
    with module_database.work(corpus.built.tenant) as connection:
        assert nearest_scores(connection, corpus.built, [vectors[0]]).shape == (1, 3)
        assert nearest_scores(connection, corpus.built, []).size == 0
    corpus.close()


def test_a_step_that_is_not_enough_is_left_as_soon_as_that_is_certain(
    module_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Vectors that share most of their length differ in few bits; only the last step is measured to its end."""
    corpus = corpus_of(module_database, "unlike", index=IndexSpec(kind="hnsw", storage="bit"))
    vectors = unit(6 + np.random.default_rng(3).normal(size=(4000, DIMENSIONS)))
    corpus.publish([f"text {n}" for n in range(4000)], vectors)
    ensure_hnsw(module_database, corpus.built)
    searches: Counter[tuple[int, int]] = Counter()
    search = recall.search_chunks

    def counted(*given: Any) -> Any:
        ((step),) = corpus.as_superuser(
            "SELECT ef_search, oversampling FROM rag.index_state WHERE embedding_profile_id = {p}"
        )
        searches[step] += 1
        return search(*given)

    monkeypatch.setattr(recall, "search_chunks", counted)
    report = tune_recall(module_database, corpus.built)
    assert report is not None
    assert report.recall < recall.MIN_RECALL
    assert searches.pop((800, 80)) == report.queries == 30
    assert len(searches) == 4
    assert max(searches.values()) < 30
    corpus.close()


def test_what_has_not_changed_is_not_measured_again(module_database: Database) -> None:
    """Neither by one chunk more; all of the table would be read for it."""
    corpus = corpus_of(module_database, "unchanged")
    vectors = unit(np.random.default_rng(5).normal(size=(300, DIMENSIONS)))

    def measured() -> tuple[float, int, int]:
        corpus.refresh()
        ensure_hnsw(module_database, corpus.built)
        report = tune_recall(module_database, corpus.built)
        assert report is not None
        return report.recall, report.ef_search, report.queries

    corpus.publish([f"text {n}" for n in range(200)], vectors[:200])
    first = measured()
    assert first[2] == 30
    assert measured() == (*first[:2], 0)
    corpus.publish(["one more"], vectors[200:201], source="another")
    assert measured() == (*first[:2], 0)
    corpus.publish([f"more {n}" for n in range(50)], vectors[201:251], source="more")
    assert measured()[2] == 30, "a fifth is new"
    corpus.as_superuser("UPDATE rag.index_state SET ef_search = 40 WHERE embedding_profile_id = {p} RETURNING 1")
    assert measured()[2] == 30, "by steps of an earlier version"
    corpus.close()
