"""A word that no text has is looked for as it may have been meant, for less, and the search says so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.embedding.profiles import LexicalSpec, make_profile
from rag_assets.retrieval import HybridRetriever, LexicalRetriever, Retrieval
from rag_assets.store.database import Database
from tests.support.corpora import Corpus

TEXTS = (
    "The warranty of the pump lasts two years.",
    "Returns are paid back within a week.",
    "A mutation changes one letter.",
    "The valve KX-772 closes by itself.",
    "Гарантия на насос действует два года.",
    *(f"Filler number {n} says nothing of note." for n in range(20)),
)


def corpus_of(database: Database, terms: int) -> Corpus:
    profile = make_profile(
        name=f"near-{terms}", provider="hash", model="hash", dimensions=8, lexical=LexicalSpec(language="english")
    )
    made = Corpus(database, profile.model_copy(update={"terms": terms}), tenant=f"near{terms}")
    for number, text in enumerate(TEXTS):
        made.publish([text], source=str(number))
    made.refresh()
    return made


@pytest.fixture(scope="module")
def corpus(module_database: Database) -> Iterator[Corpus]:
    made = corpus_of(module_database, 2)
    yield made
    made.close()


def found(corpus: Corpus, query: str) -> Retrieval:
    return LexicalRetriever(corpus.database).search(query, corpus.scope, 3)


def read_as(retrieval: Retrieval) -> dict[str, list[str]]:
    return {word: near for step in retrieval.trace for word, near in step.get("read_as", {}).items()}


@pytest.mark.parametrize(
    ("query", "word", "text"),
    [
        ("warrenty", "warrenty", 0), ("waranty", "waranty", 0), ("warrannty", "warrannty", 0),
        ("is there a wararnty", "wararnty", 0), ("mutatoin", "mutatoin", 2), ("гарантея", "гарантея", 4),
    ],
)  # fmt: skip
def test_a_word_with_one_slip_is_found_and_told(corpus: Corpus, query: str, word: str, text: int) -> None:
    answer = found(corpus, query)
    assert answer[0].content == TEXTS[text]
    assert list(read_as(answer)) == [word]


def test_what_is_meant_counts_for_less_than_what_is_said(corpus: Corpus) -> None:
    said, meant = found(corpus, "warranty"), found(corpus, "warrenty")
    assert 0 < meant[0].score < said[0].score
    assert read_as(said) == {}


def test_a_known_word_beside_it_goes_first(corpus: Corpus) -> None:
    answer = found(corpus, "warrenty returns")
    assert [one.content for one in answer[:2]] == [TEXTS[1], TEXTS[0]]


@pytest.mark.parametrize("query", ["KX-773", "kx773", "7720", "pum", "zzzzzzzz", "the"])
def test_codes_numbers_and_short_words_mean_what_they_say(corpus: Corpus, query: str) -> None:
    assert read_as(found(corpus, query)) == {}


def test_a_published_word_that_is_not_counted_yet_goes_before_its_neighbours(corpus: Corpus) -> None:
    corpus.publish(["A text that spells it warrenty."], source="new")
    try:
        assert found(corpus, "warrenty")[0].content == "A text that spells it warrenty."
    finally:
        corpus.publish([], source="new")


@pytest.mark.parametrize("query", ["warrenty warranty", "wárranty warranty", "wárranty", "насоё насос"])
def test_what_the_query_has_in_another_spelling_too_is_not_guessed(corpus: Corpus, query: str) -> None:
    assert read_as(found(corpus, query)) == {}


def test_what_has_become_private_or_is_gone_is_not_told(corpus: Corpus) -> None:
    corpus.publish([f"The merger with Initech is secret number {n}." for n in range(5)], source="secret")
    corpus.refresh()
    assert read_as(found(corpus, "initecc")) == {"initecc": ["initech"]}
    corpus.as_superuser(
        "UPDATE rag.knowledge_sources SET scope_type = 'user', scope_user_id = 'ann' WHERE name = 'secret' RETURNING id"
    )
    assert read_as(found(corpus, "initecc")) == {}
    corpus.publish([], source="secret")
    assert read_as(found(corpus, "initecc")) == {}


def test_hybrid_search_says_it_too(corpus: Corpus) -> None:
    answer = HybridRetriever(corpus.database).search("warrenty", corpus.scope, 3)
    assert read_as(answer) == {"warrenty": ["warranti"]}
    assert TEXTS[0] in [one.content for one in answer]


def test_profiles_of_earlier_terms_keep_their_meaning(module_database: Database) -> None:
    earlier = corpus_of(module_database, 1)
    try:
        answer = found(earlier, "warrenty")
        assert (len(answer), answer.trace) == (0, ())
    finally:
        earlier.close()


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60))
def test_no_query_fails_and_no_score_leaves_its_bounds(corpus: Corpus, query: str) -> None:
    answer = found(corpus, f"{query} warrenty")
    assert all(0 <= one.score <= 1 for one in answer)
    assert sum(map(len, read_as(answer).values())) <= 6
