"""Dense search on a real server: what may be stored, what is found, by index and without."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from numpy.typing import NDArray

from rag_assets.chunking import ChunkingSpec
from rag_assets.embedding.profiles import IndexSpec, make_profile
from rag_assets.errors import InvalidProfile, SourceError
from rag_assets.retrieval import DenseRetriever, HybridRetriever, LexicalRetriever, open_scope
from rag_assets.store.database import Database
from rag_assets.store.indexes import ensure_hnsw
from rag_assets.store.profiles import add_spec
from rag_assets.store.recall import tune_recall
from tests.support.corpora import Corpus, unit
from tests.support.worlds import ingested

RETRIEVERS = (DenseRetriever, LexicalRetriever, HybridRetriever)


def new_corpus(database: Database, name: str, dimensions: int = 16, **fields: Any) -> Corpus:
    profile = make_profile(name=name, provider="hash", model="hash", dimensions=dimensions, **fields)
    return Corpus(database, profile, tenant=name)


def random_units(seed: int, rows: int, dimensions: int = 16) -> NDArray[np.float32]:
    return unit(np.random.default_rng(seed).normal(size=(rows, dimensions)))


def texts(count: int) -> list[str]:
    return [f"text {n}" for n in range(count)]


def cosines(vectors: NDArray[np.float32], query: NDArray[np.float32]) -> NDArray[np.float64]:
    return vectors.astype(np.float64) @ query.astype(np.float64)


@pytest.mark.slow
def test_bug_49_a_selective_filter_still_finds_as_many_as_asked_through_the_index(module_database: Database) -> None:
    corpus = new_corpus(module_database, "selective", 32, index=IndexSpec(kind="hnsw"))
    query = unit(np.eye(32)[0])
    near = unit(np.eye(32)[0] + 0.1 * random_units(1, 4950, 32))
    far = unit(-np.eye(32)[0] + 0.1 * random_units(2, 50, 32))
    corpus.publish(texts(4950), near, source="big", source_type="file")
    corpus.publish(texts(50), far, source="small", source_type="faq")
    assert ensure_hnsw(corpus.database, corpus.built).searched == "hnsw"
    small = corpus.add_source("small")
    best = -np.sort(-cosines(far, query))[:10]
    for filters in ({"source_ids": [str(small)]}, {"source_types": ["faq"]}):
        found = corpus.near(query, 10, filters=filters)
        assert len(found) == 10
        assert {row.source_id for row in found} == {small}
        assert [row.score for row in found] == pytest.approx(best, abs=1e-5)
    # So few chunks would rather be sorted than looked up. Without sorting it is the index that has to go on and
    # on; and where memory is short, as with many more chunks, it must not give up early.
    corpus.app.execute("SET enable_sort = off")
    corpus.app.execute("SET enable_bitmapscan = off")
    corpus.app.execute("SET work_mem = '64kB'")
    corpus.app.commit()
    assert len(corpus.near(query, 10, filters={"source_types": ["faq"]})) == 10
    corpus.close()


def test_bug_52_more_than_2000_dimensions_are_indexed_as_halfvec(module_database: Database) -> None:
    corpus = new_corpus(module_database, "halfvec", 3072, index=IndexSpec(kind="hnsw"))
    vectors = random_units(3, 60, 3072)
    corpus.publish(texts(60), vectors)
    assert ensure_hnsw(corpus.database, corpus.built).index_built
    ((definition,),) = corpus.as_superuser(
        "SELECT indexdef FROM pg_indexes WHERE indexname = 'knowledge_chunks_p{p}_hnsw'"
    )
    assert "halfvec(3072)" in definition
    expected = cosines(vectors, vectors[7])
    for exact in (True, False):
        found = corpus.near(vectors[7], 10, exact=exact)
        assert [row.content for row in found] == [f"text {n}" for n in np.argsort(-expected)[:10]]
        assert [row.score for row in found] == pytest.approx(-np.sort(-expected)[:10], abs=1e-5)
        assert found[0].score <= 1
    corpus.close()


def test_bug_52_4000_dimensions_can_be_searched(module_database: Database) -> None:
    corpus = new_corpus(module_database, "widest", 4000, index=IndexSpec(kind="hnsw"))
    vectors = random_units(4, 5, 4000)
    corpus.publish(texts(5), vectors)
    assert ensure_hnsw(corpus.database, corpus.built).index_built
    assert corpus.near(vectors[3], 1)[0].content == "text 3"
    corpus.close()


def test_bug_52_4096_dimensions_are_refused_before_anything_is_written() -> None:
    with pytest.raises(InvalidProfile, match="4000 dimensions"):
        make_profile(name="too-wide", provider="hash", model="hash", dimensions=4096)


def with_row(row: NDArray[Any]) -> NDArray[np.float32]:
    return np.vstack([np.eye(16)[0], row]).astype(np.float32)


@pytest.mark.parametrize(
    "bad",
    [
        np.zeros((1, 16)), np.full((1, 16), np.nan), np.full((1, 16), np.inf), 3 * np.eye(16)[:1], 0.5 * np.eye(16)[:1],
    ],
    ids=["zero", "NaN", "infinity", "too long", "too short"],
)  # fmt: skip
def test_bug_53_a_vector_that_must_not_be_searched_is_refused_at_write_and_nothing_is_stored(
    module_database: Database, bad: NDArray[Any]
) -> None:
    corpus = new_corpus(module_database, "strict")
    with pytest.raises(SourceError) as refused:
        corpus.publish(["good", "bad"], with_row(bad), source="refused")
    assert isinstance(refused.value.__cause__, psycopg.DataError | psycopg.errors.CheckViolation)
    assert corpus.as_superuser("SELECT count(*) FROM rag.knowledge_chunks WHERE embedding_profile_id = {p}") == [(0,)]
    corpus.close()


def test_bug_53_a_vector_of_another_model_is_refused_at_write(module_database: Database) -> None:
    corpus = new_corpus(module_database, "strict")
    with pytest.raises(SourceError) as refused:
        corpus.publish(["other model"], random_units(5, 1, 8), source="refused")
    assert isinstance(refused.value.__cause__, psycopg.errors.CheckViolation)
    corpus.close()


@pytest.fixture(scope="module")
def metrics(module_database: Database) -> Iterator[dict[str, Corpus]]:
    """The same 300 vectors under each metric, opposite pairs among them, indexed."""
    half = random_units(6, 150)
    made = {}
    for metric in ("cosine", "ip", "l2"):
        corpus = made[metric] = new_corpus(
            module_database, f"by-{metric}", distance_metric=metric, index=IndexSpec(kind="hnsw")
        )
        corpus.publish(texts(300), np.vstack([half, -half]))
        ensure_hnsw(corpus.database, corpus.built)
    yield made
    for corpus in made.values():
        corpus.close()


@pytest.mark.parametrize("exact", [True, False])
def test_each_metric_gives_the_cosine_as_score_and_the_same_ranking(metrics: dict[str, Corpus], exact: bool) -> None:
    half = random_units(6, 150)
    vectors = np.vstack([half, -half])
    for query in (vectors[0], random_units(7, 1)[0]):
        expected = cosines(vectors, query)
        ranking = [f"text {n}" for n in np.argsort(-expected)]
        for metric, corpus in metrics.items():
            found = corpus.near(query, 300 if exact else 50, exact=exact)
            assert [row.content for row in found] == ranking[: len(found)], metric
            assert [row.score for row in found] == pytest.approx(-np.sort(-expected)[: len(found)], abs=1e-5)
            assert all(-1 <= row.score <= 1 for row in found)
            assert all(row.dense_score == row.score and row.lexical_score is None for row in found)


def test_below_the_threshold_it_is_exact_and_from_it_on_an_index(module_database: Database) -> None:
    corpus = new_corpus(module_database, "threshold", index=IndexSpec(exact_below=100))
    vectors = random_units(8, 2000)
    corpus.publish(texts(99), vectors[:99])
    assert ensure_hnsw(corpus.database, corpus.built).searched == "exact"
    assert tune_recall(corpus.database, corpus.built) is None
    assert [row.content for row in corpus.near(vectors[5], 1)] == ["text 5"]

    corpus.publish(texts(2000), vectors)
    report = ensure_hnsw(corpus.database, corpus.built)
    assert (report.searched, report.index_built, report.chunks) == ("hnsw", True, 2000)
    assert not ensure_hnsw(corpus.database, corpus.built).index_built, "built once"
    tuned = tune_recall(corpus.database, corpus.built)
    assert tuned is not None
    assert tuned.recall >= 0.99
    state = corpus.as_superuser("SELECT ef_search, recall_at_10 FROM rag.index_state WHERE embedding_profile_id = {p}")
    assert state == [(tuned.ef_search, tuned.recall)]

    corpus.publish(texts(10), vectors[:10])
    assert ensure_hnsw(corpus.database, corpus.built).searched == "exact"
    assert corpus.as_superuser("SELECT to_regclass('rag.knowledge_chunks_p{p}_hnsw')") == [(None,)]
    corpus.close()


@pytest.fixture(scope="module")
def filtered(module_database: Database) -> Iterator[Corpus]:
    corpus = new_corpus(module_database, "filtered")
    for n, (kind, locale, content_type, metadata) in enumerate(
        [
            ("file", "en", "text/markdown", {"team": "red", "tags": ["a", "b"]}),
            ("faq", "de", "text/markdown", {"team": "red", "level": 2}),
            ("file", None, "application/pdf", {"team": "blue", "nested": {"x": 1}}),
        ]
    ):
        corpus.publish(
            [f"pump {n}"], random_units(n, 1), source=f"s{n}",
            source_type=kind, locale=locale, content_type=content_type, metadata=metadata,
        )  # fmt: skip
    yield corpus
    corpus.close()


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, "012"),
        ({"source_types": ["file"]}, "02"),
        ({"source_types": ["file", "faq"]}, "012"),
        ({"locales": ["de"]}, "1"),
        ({"locales": ["de", "en"]}, "01"),
        ({"content_types": ["application/pdf"]}, "2"),
        ({"metadata": {"team": "red"}}, "01"),
        ({"metadata": {"team": "red", "level": 2}}, "1"),
        ({"metadata": {"tags": ["b"]}}, "0"),
        ({"metadata": {"nested": {"x": 1}}}, "2"),
        ({"source_types": ["file"], "metadata": {"team": "red"}}, "0"),
        ({"source_types": []}, ""),
        ({"source_ids": []}, ""),
        ({"source_ids": ["no uuid"]}, ""),
        ({"locales": ["' OR true --"]}, ""),
        ({"metadata": {"team": "'; SELECT 1 --"}}, ""),
    ],
)
def test_filters_narrow_each_mode_and_combine(filtered: Corpus, filters: dict[str, Any], expected: str) -> None:
    for retriever in RETRIEVERS:
        found = retriever(filtered.database).search("pump", filtered.scope, filters=filters)
        assert sorted(result.content[-1] for result in found) == list(expected), retriever.__name__


def test_a_filter_by_source_id_finds_that_source(filtered: Corpus) -> None:
    source = filtered.add_source("s1")
    for retriever in RETRIEVERS:
        search = retriever(filtered.database).search
        assert [r.source_id for r in search("pump", filtered.scope, filters={"source_ids": [str(source)]})] == [source]


@pytest.mark.parametrize(
    "filters", [{"source_type": ["faq"]}, {"locales": "de"}, {"source_ids": None}, {"metadata": "red"}]
)
def test_a_filter_that_is_misspelt_is_refused_and_never_left_out(filtered: Corpus, filters: dict[str, Any]) -> None:
    for retriever in RETRIEVERS:
        with pytest.raises(ValueError, match="filter"):
            retriever(filtered.database).search("pump", filtered.scope, filters=filters)


@pytest.mark.parametrize("top_k", [0, -1, 1001])
def test_top_k_out_of_bounds_is_refused(filtered: Corpus, top_k: int) -> None:
    for retriever in RETRIEVERS:
        with pytest.raises(ValueError, match="top_k must be between 1 and 1000"):
            retriever(filtered.database).search("pump", filtered.scope, top_k=top_k)


@pytest.mark.parametrize("top_k", [1, 2, 3, 1000])
def test_no_more_than_top_k_are_found_in_any_mode(filtered: Corpus, top_k: int) -> None:
    for retriever in RETRIEVERS:
        found = retriever(filtered.database).search("pump", filtered.scope, top_k=top_k)
        assert len(found) == min(top_k, 3)


@pytest.mark.parametrize("query", ["", "   ", "\n\t", "\0"])
def test_an_empty_query_finds_nothing_and_says_so(filtered: Corpus, query: str) -> None:
    for retriever in RETRIEVERS:
        found = retriever(filtered.database).search(query, filtered.scope)
        assert (len(found), found.degraded) == (0, "the query is empty")


@pytest.mark.slow
def test_bug_51_the_index_finds_what_exact_search_finds(new_database: Callable[[], Database], tmp_path: Path) -> None:
    database = new_database()
    add_spec(
        database,
        make_profile(
            name="indexed", provider="hash", model="hash", dimensions=64,
            chunking=ChunkingSpec(size=200, overlap=20), index=IndexSpec(kind="hnsw"),
        ),
    )  # fmt: skip
    words = ("pump", "valve", "hose", "seal", "motor", "brass", "steel", "drain", "inlet", "gauge", "filter", "lamp")
    draw = np.random.default_rng(9)
    files = {
        f"f{n}.md": "\n\n".join(" ".join(draw.choice(words, 25)) + f" part {n * 50 + m}." for m in range(50))
        for n in range(10)
    }
    report = ingested(database, tmp_path, "acme", files, profile="indexed")
    assert report.hnsw.searched == "hnsw"
    scope = open_scope(database, "acme", "support")
    retriever = DenseRetriever(database)
    found = [{r.chunk_id for r in retriever.search(f"{a} {b} part", scope, top_k=10)} for a in words for b in words[:3]]
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute(f"DROP INDEX rag.knowledge_chunks_p{scope.profile_id}_hnsw")
    exact = [{r.chunk_id for r in retriever.search(f"{a} {b} part", scope, top_k=10)} for a in words for b in words[:3]]
    assert sum(len(a & e) for a, e in zip(found, exact, strict=True)) >= 0.99 * sum(map(len, exact))
    database.close()
