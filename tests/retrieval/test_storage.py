"""How an index keeps vectors: whatever it is, scores are the true ones, and what is searched exactly is exact."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import numpy as np
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rag_assets.embedding.profiles import IndexSpec, Storage, make_profile
from rag_assets.store.database import Database
from rag_assets.store.indexes import ensure_hnsw
from rag_assets.store.recall import MIN_RECALL, tune_recall
from rag_assets.store.search import SearchRequest
from tests.support.corpora import Corpus, unit

DIMENSIONS, CHUNKS = 128, 800
STORAGES: tuple[Storage, ...] = get_args(Storage)
INDEXED = {
    "vector": "((embedding)::vector(128)) vector_cosine_ops",
    "halfvec": "((embedding)::halfvec(128)) halfvec_cosine_ops",
    "bit": "((binary_quantize(embedding))::bit(128)) bit_hamming_ops",
}


def clustered(seed: int, rows: int = CHUNKS, topics: int = 40) -> NDArray[np.float32]:
    """Vectors as texts have them: near others of their topic, far from the rest."""
    draw = np.random.default_rng(seed)
    centres = draw.normal(size=(topics, DIMENSIONS))
    return unit(centres[draw.integers(0, topics, rows)] + 0.6 * draw.normal(size=(rows, DIMENSIONS)))


def cosines(vectors: NDArray[np.float32], query: NDArray[np.float32]) -> NDArray[np.float64]:
    return vectors.astype(np.float64) @ query.astype(np.float64)


def new_corpus(database: Database, name: str, storage: Storage, **fields: Any) -> Corpus:
    index = IndexSpec(kind="hnsw", storage=storage)
    spec = {"provider": "hash", "model": "hash", "dimensions": DIMENSIONS, "index": index, **fields}
    return Corpus(database, make_profile(name=name, **spec), tenant=name)


def text(number: int) -> str:
    return f"text {number}" if number % 100 else f"valve text {number}"


VECTORS = clustered(1)


@pytest.fixture(scope="module")
def corpora(module_database: Database) -> Iterator[dict[str, Corpus]]:
    """The same vectors with each storage, indexed and tuned; and bits under another metric."""
    kinds: list[tuple[Storage, str]] = [(storage, "cosine") for storage in STORAGES] + [("bit", "ip")]
    made = {}
    for storage, metric in kinds:
        corpus = new_corpus(module_database, f"{storage}-{metric}", storage, distance_metric=metric)
        corpus.publish([text(n) for n in range(CHUNKS - 5)], VECTORS[:-5])
        corpus.publish([text(n) for n in range(CHUNKS - 5, CHUNKS)], VECTORS[-5:], source="faq", source_type="faq")
        corpus.refresh()
        assert ensure_hnsw(module_database, corpus.built).index_built
        tuned = tune_recall(module_database, corpus.built)
        assert tuned is not None
        assert (tuned.storage, tuned.recall >= MIN_RECALL, tuned.oversampling > 1) == (storage, True, storage == "bit")
        made[f"{storage}-{metric}"] = corpus
    yield made
    for corpus in made.values():
        corpus.close()


def number_of(content: str) -> int:
    return int(content.rsplit(" ", 1)[1])


@pytest.mark.parametrize("storage", STORAGES)
def test_the_index_holds_what_the_profile_says(corpora: dict[str, Corpus], storage: Storage) -> None:
    corpus = corpora[f"{storage}-cosine"]
    ((found,),) = corpus.as_superuser("SELECT indexdef FROM pg_indexes WHERE indexname = 'knowledge_chunks_p{p}_hnsw'")
    assert INDEXED[storage] in found


def test_the_smaller_the_storage_the_smaller_the_index(corpora: dict[str, Corpus]) -> None:
    size = "SELECT pg_relation_size('rag.knowledge_chunks_p{p}_hnsw')"
    sizes = [corpora[f"{storage}-cosine"].as_superuser(size)[0][0] for storage in STORAGES]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > 1.2 * sizes[1] > 1.2 * sizes[2]


@pytest.mark.parametrize("storage", STORAGES)
def test_a_search_uses_the_index(corpora: dict[str, Corpus], storage: Storage) -> None:
    corpus = corpora[f"{storage}-cosine"]
    used = "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'knowledge_chunks_p{p}_hnsw'"
    corpus.app.execute("SET enable_seqscan = off")
    corpus.app.execute("SET enable_sort = off")
    corpus.app.commit()
    (before,) = corpus.as_superuser(used)
    corpus.near(VECTORS[0], 10)
    corpus.app.execute("SELECT pg_stat_force_next_flush()")
    corpus.app.commit()
    corpus.app.execute("RESET ALL")
    corpus.app.commit()
    assert corpus.as_superuser(used) > [before]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32 - 1), top_k=st.sampled_from([1, 3, 10, 40]), kind=st.sampled_from(
    ["vector-cosine", "halfvec-cosine", "bit-cosine", "bit-ip"]), exact=st.booleans())  # fmt: skip
def test_scores_are_the_true_ones_best_first(
    corpora: dict[str, Corpus], seed: int, top_k: int, kind: str, exact: bool
) -> None:
    query = unit(VECTORS[seed % CHUNKS] + 0.05 * np.random.default_rng(seed).normal(size=DIMENSIONS))
    found = corpora[kind].near(query, top_k, exact=exact, copies=True)
    true = cosines(VECTORS, query)
    assert len(found) == top_k
    assert [row.score for row in found] == pytest.approx([true[number_of(row.content)] for row in found], abs=1e-6)
    assert [row.score for row in found] == sorted((row.score for row in found), reverse=True)
    if exact:
        assert [row.score for row in found] == pytest.approx(-np.sort(-true)[:top_k], abs=1e-6)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(number=st.integers(0, CHUNKS - 1), storage=st.sampled_from(STORAGES))
def test_the_vector_of_a_chunk_finds_that_chunk_first(
    corpora: dict[str, Corpus], number: int, storage: Storage
) -> None:
    (best,) = corpora[f"{storage}-cosine"].near(VECTORS[number], 1)
    assert best.content == text(number)
    assert best.score == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("storage", STORAGES)
def test_a_chunk_has_the_same_score_whether_meaning_or_words_found_it(
    corpora: dict[str, Corpus], storage: Storage
) -> None:
    request = SearchRequest("hybrid", VECTORS[100], "valve", top_k=30, candidates=30)
    found = corpora[f"{storage}-cosine"].search(request)
    true = cosines(VECTORS, VECTORS[100])
    by_words = [row for row in found if row.content.startswith("valve")]
    assert 1 < len(by_words) < len(found) == 30
    expected = [true[number_of(row.content)] for row in found]
    assert [row.dense_score for row in found] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("storage", STORAGES)
def test_a_filter_that_leaves_few_still_finds_them_all(corpora: dict[str, Corpus], storage: Storage) -> None:
    far = -VECTORS[-1]
    found = corpora[f"{storage}-cosine"].near(far, 5, filters={"source_types": ["faq"]})
    assert [number_of(row.content) for row in found] == list(CHUNKS - 5 + np.argsort(-cosines(VECTORS[-5:], far)))


@pytest.mark.parametrize("storage", STORAGES)
def test_no_storage_shows_one_tenant_what_another_has(corpora: dict[str, Corpus], storage: Storage) -> None:
    corpus = corpora[f"{storage}-cosine"]
    other = next(one for name, one in corpora.items() if not name.startswith(storage))
    borrowed = {**other.scope.settings, "profile": str(corpus.built.id), "space": str(corpus.built.space_id)}
    own = corpus.scope
    corpus.scope = type("Borrowed", (), {"settings": borrowed})()
    try:
        assert corpus.near(VECTORS[0], 10) == corpus.near(VECTORS[0], 10, exact=True) == []
    finally:
        corpus.scope = own


def test_bits_that_do_not_fit_the_model_are_looked_at_up_to_a_bound_and_it_is_said(module_database: Database) -> None:
    """Vectors that share most of their length differ in few bits: no oversampling that is allowed finds 99 %."""
    corpus = new_corpus(module_database, "unfit", "bit")
    common = 6 * np.ones(DIMENSIONS)
    vectors = unit(common + np.random.default_rng(3).normal(size=(2 * CHUNKS, DIMENSIONS)))
    corpus.publish([text(n) for n in range(2 * CHUNKS)], vectors)
    ensure_hnsw(module_database, corpus.built)
    report = tune_recall(module_database, corpus.built)
    assert report is not None
    assert (report.recall < MIN_RECALL, report.ef_search, report.oversampling) == (True, 800, 80)
    state = "SELECT ef_search, oversampling, recall_at_10 FROM rag.index_state WHERE embedding_profile_id = {p}"
    assert corpus.as_superuser(state) == [(800, 80, report.recall)]
    corpus.close()


def test_a_profile_that_says_nothing_of_storage_is_searched_as_before(module_database: Database) -> None:
    spec = "jsonb_build_object('dimensions', d, 'index', '{}'::jsonb)"
    row = f"jsonb_populate_record(NULL::rag.embedding_profiles, {spec})"
    statement = f"SELECT rag.vector_type({row}) FROM unnest(ARRAY[256, 2000, 2001, 4000]) d"
    with psycopg.connect(module_database.url) as connection:
        types = [found for (found,) in connection.execute(statement)]
    assert types == ["vector(256)", "vector(2000)", "halfvec(2001)", "halfvec(4000)"]
