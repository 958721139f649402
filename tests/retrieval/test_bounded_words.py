"""Lexical search reads a bounded number of chunks, and still finds the best and as many as are asked for."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.embedding.profiles import LexicalSpec, make_profile
from rag_assets.store.database import Database
from tests.support.corpora import Corpus
from tests.support.skewed import skewed_texts

CHUNKS = 1500


@pytest.fixture(scope="module")
def corpus(module_database: Database) -> Iterator[Corpus]:
    profile = make_profile(
        name="tiny", provider="hash", model="hash", dimensions=8, lexical=LexicalSpec(language="simple")
    )
    made = Corpus(module_database, profile, tenant="acme")
    made.publish(skewed_texts(7, CHUNKS))
    made.publish([f"w0 w1 w2 w3 rare{n}" for n in range(3)], source="few")
    made.refresh()
    yield made
    made.close()


@pytest.fixture
def crowd(corpus: Corpus) -> Iterator[Corpus]:
    """The same with the statistics of a thousand times as many chunks, so that no search may look for any word."""
    scaled = (
        "WITH words AS (UPDATE rag.lexeme_stats SET chunk_count = chunk_count {0} WHERE embedding_profile_id = {{p}}) "
        "UPDATE rag.index_state SET chunks_at_statistics = chunks_at_statistics {0} WHERE embedding_profile_id = {{p}} "
        "RETURNING 1"
    )
    corpus.as_superuser(scaled.format("* 1000"))
    yield corpus
    corpus.as_superuser(scaled.format("/ 1000"))


def rows_read(corpus: Corpus, words: str, budget: int) -> int:
    """How many chunks a search with this budget scores."""
    ((rows,),) = corpus.as_superuser(
        "SELECT count(*) FROM rag.knowledge_chunks WHERE embedding_profile_id = {p} "
        "AND fts @@ rag.essential_words(rag.analyse_query({p}, 'simple', %s), %s)",
        words, budget,
    )  # fmt: skip
    return int(rows)


def best(corpus: Corpus, words: str, budget: int, top_k: int = 10) -> list[object]:
    """The ids that are first of those that a search with this budget scores."""
    rows = corpus.as_superuser(
        "SELECT c.id FROM rag.knowledge_chunks c, rag.analyse_query({p}, 'simple', %s) q "
        "WHERE c.embedding_profile_id = {p} AND c.fts @@ rag.essential_words(q, %s) "
        f"ORDER BY c.lexical <#> q.weights, c.id LIMIT {top_k}",
        words, budget,
    )  # fmt: skip
    return [row[0] for row in rows]


WEIGHTS = st.lists(st.integers(1, 40), min_size=1, max_size=7).map(lambda found: sorted(found, reverse=True))


@given(WEIGHTS, st.integers(1, 100), st.integers(1, 4), st.data())
@settings(max_examples=60, deadline=None)
def test_what_is_looked_for_are_the_sets_that_reach_the_threshold(
    corpus: Corpus, weights: list[int], needed: int, size: int, data: st.DataObject
) -> None:
    words = [f"w{n}" for n in range(len(weights))]
    ((looked_for,),) = corpus.as_superuser(
        "SELECT rag.words_that_reach(%s::text[], %s::float8[], 1, %s, %s)", words, weights, needed, size
    )
    sets = [chosen for n in range(1, size + 1) for chosen in combinations(range(len(weights)), n)]
    reaching = [set(chosen) for chosen in sets if sum(weights[n] for n in chosen) >= needed]
    assert bool(looked_for) == bool(reaching)
    text = data.draw(st.sets(st.sampled_from(range(len(weights)))))
    if looked_for:
        ((is_found,),) = corpus.as_superuser(
            "SELECT array_to_tsvector(%s::text[]) @@ %s::tsquery", [words[n] for n in text], looked_for
        )
        assert is_found == any(chosen <= text for chosen in reaching)


def queries(seed: int, words: int) -> list[str]:
    """Some frequent words and some rare ones each, one of them always the same."""
    draw = random.Random(seed)
    return [" ".join(["w110", *(f"w{int(120 ** draw.random()) - 1}" for _ in range(words - 1))]) for _ in range(20)]


@pytest.mark.parametrize("words", [2, 5, 30])
def test_about_as_many_are_read_as_the_budget_says_and_the_best_are_among_them(corpus: Corpus, words: int) -> None:
    kept = []
    for query in queries(words, words):
        exhaustive = best(corpus, query, 10 * CHUNKS)
        for budget in (100, 300):
            assert rows_read(corpus, query, budget) <= 3 * budget
        kept.append(len(set(best(corpus, query, 300)) & set(exhaustive)) / len(exhaustive))
    assert sum(kept) / len(kept) >= 0.9


def test_a_query_of_two_thousand_words_reads_no_more(corpus: Corpus) -> None:
    draw = random.Random(1)
    words = " ".join(f"w{draw.randrange(120)}" for _ in range(2000))
    assert rows_read(corpus, words, 10 * CHUNKS) == CHUNKS + 3
    assert rows_read(corpus, words, 100) <= 300


def test_small_profiles_are_searched_for_any_word(corpus: Corpus) -> None:
    for query in queries(3, 6):
        assert [row.chunk_id for row in corpus.words(query)] == best(corpus, query, 10 * CHUNKS)


@pytest.mark.parametrize("query", ["w0 w1", "w0 w1 w2 w3 w4 w5 w6", "w0", "w110 w111 w112"])
@pytest.mark.parametrize("top_k", [10, 300])
def test_as_many_are_found_as_are_asked_for_and_there(crowd: Corpus, query: str, top_k: int) -> None:
    ((there,),) = crowd.as_superuser(
        "SELECT count(*) FROM rag.knowledge_chunks WHERE embedding_profile_id = {p} AND fts @@ "
        "(rag.analyse_query({p}, 'simple', %s)).every_term",
        query,
    )
    assert len(crowd.words(query, top_k)) == min(top_k, there)


@pytest.mark.parametrize("query", ["w0 w1 w2 w3", "w3 w40 w50"])
def test_a_filter_that_leaves_few_starves_no_search(crowd: Corpus, query: str) -> None:
    found = crowd.words(query, 10, filters={"source_names": ["few"]})
    assert {row.source_name for row in found} == {"few"}
    assert len(found) == 3


def test_what_came_after_the_statistics_is_found(crowd: Corpus) -> None:
    crowd.publish(["w0 w1 brandnew", "w0 w1 w2 w3 w4 " * 4], source="later")
    try:
        assert crowd.words("w0 w1 w2 brandnew", 1)[0].content == "w0 w1 brandnew"
        assert crowd.words("w0 w1 w2 w3 w4", 1)[0].content == "w0 w1 w2 w3 w4 " * 4
    finally:
        crowd.publish([], source="later")


@pytest.mark.parametrize(("chunks", "looked_for"), [(5_000, 8), (15_000, 3), (30_000, 2), (300_000, 2)])
def test_the_lists_that_are_read_are_bounded_too(corpus: Corpus, chunks: int, looked_for: int) -> None:
    """Of frequent words fewer are looked for, and those that weigh most; of a company of words there are always two."""
    words = [f"'w{n}'" for n in range(12)]
    query = {"words": words, "word_weights": [3 - n / 10 for n in range(12)], "word_chunks": [chunks] * 12}
    ((found,),) = corpus.as_superuser(
        "SELECT rag.essential_words(jsonb_populate_record(NULL::rag.lexical_query, %s::jsonb), 2000)::text",
        json.dumps({**query, "chunks": 1_000_000}),
    )
    assert set(words[:2]) <= {word for word in words if word in found} <= set(words[:looked_for])
