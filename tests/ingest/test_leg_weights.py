"""Estimates of how much each list says, on queries whose answers are drawn."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.ingest.leg_weights import Estimate, Trials, estimate, nearest, term_matrix, trials
from rag_assets.ingest.self_queries import is_prose, self_queries, sentences
from rag_assets.store.term_weights import Terms

SHARES = st.floats(0, 1)
ESTIMATES = st.builds(Estimate, SHARES, st.floats(0, 1))
DRAWN = st.tuples(st.integers(0, 2**16), st.floats(0, 6), st.floats(0, 6))


def drawn(seed: int, dense: float, lexical: float, queries: int = 200, candidates: int = 20) -> Trials:
    """Queries whose right candidate is the likelier, the more it has of what counts."""
    numbers = np.random.default_rng(seed)
    shares = numbers.random((queries, candidates, 2))
    luck = numbers.gumbel(size=(queries, candidates))
    right = (shares @ np.array([dense, lexical]) + luck).argmax(axis=1)
    rows = np.arange(queries)
    shares[rows, 0], shares[rows, right] = shares[rows, right], shares[rows, 0].copy()
    return Trials(shares, np.ones((queries, candidates), dtype=bool))


def test_the_weight_that_answers_were_drawn_with_is_found() -> None:
    for dense, lexical in ((8, 2), (5, 5), (1, 9), (0, 8), (8, 0)):
        found = estimate(drawn(1, dense, lexical, queries=1000))
        assert found.weight == pytest.approx(dense / (dense + lexical), abs=0.05)
        assert found.error < 0.05


@settings(deadline=None, max_examples=40)
@given(DRAWN)
def test_neither_list_is_preferred(made: tuple[int, float, float]) -> None:
    found = drawn(*made)
    mirrored = Trials(found.shares[:, :, ::-1], found.listed)
    one, other = estimate(found), estimate(mirrored)
    assert one.weight == pytest.approx(1 - other.weight, abs=1e-3)
    assert 0 <= one.weight <= 1


def test_queries_that_are_all_answered_prove_little() -> None:
    perfect = drawn(2, 1, 1)
    perfect.shares[:, 1:] *= 0.5
    perfect.shares[:, 0] = 1
    found = estimate(perfect)
    assert np.isfinite([found.weight, found.error]).all()
    assert nearest(0.5, [found]) == 0.5
    nothing = Trials(np.zeros((60, 5, 2)), np.ones((60, 5), dtype=bool))
    assert nearest(0.5, [estimate(nothing)]) == 0.5


@given(st.lists(ESTIMATES, min_size=1, max_size=3), SHARES)
def test_the_default_moves_only_as_far_as_it_must(estimates: list[Estimate], default: float) -> None:
    weight = nearest(default, estimates)
    assert 0 <= weight <= 1
    low, high = min(e.weight - e.error for e in estimates), max(e.weight + e.error for e in estimates)
    assert weight == pytest.approx(min(max(default, max(low, 0)), min(high, 1)), abs=0.005)


def test_what_is_left_out_is_no_wrong_answer() -> None:
    """A passage of the same source would win both lists; beside it the right one is the first."""
    dense = np.array([[0.5, 0.9, 0.1], [0.2, 0.3, 0.8]], dtype=np.float32)
    words = np.array([[0.4, 0.8, 0.2], [0.0, 0.0, 0.0]], dtype=np.float32)
    found = trials(dense, words, [0, 2], np.array([[False, False, True], [True, True, False]]), floor=0.0)
    assert len(found.listed) == 1, "a query without words says nothing about fusing"
    assert found.ndcg(0.5) == 1
    assert found.shares[0, 0].tolist() == [1, 1]


def test_terms_meet_by_their_numbers() -> None:
    texts = Terms(3, np.array([0, 1, 1]), np.array([5, 1, 9]), np.array([0.5, 3, 1], np.float32))
    assert term_matrix(texts, np.array([1, 5, 7])).tolist() == [[0.0, 0.5, 0.0], [3.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    assert term_matrix(texts, np.array([], np.int64)).shape == (3, 0)


@settings(deadline=None)
@given(st.text(max_size=500))
def test_sentences_are_parts_of_their_text_in_order(text: str) -> None:
    spans = sentences(text)
    assert all(12 <= end - start <= 200 for start, end in spans)
    assert all(first[1] <= second[0] for first, second in pairwise(spans))
    for query in self_queries([text], 5):
        assert query.text in text
        assert len(query.hard) == len(text) - len(query.text)
        assert len(query.hard) <= len(query.easy) < len(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("The warranty lasts two years. It costs 4.50 a month, e.g. by card.", 3),
        ("東大寺の仏像について説明する。八世紀に日本の首都であった奈良を代表する寺院である。", 2),
        ("यह पहला वाक्य है जो लंबा है। यह दूसरा वाक्य है जो लंबा है।", 2),
        ("word " * 100, 3),
        ("ภาษาไทย" * 60, 3),
    ],
)
def test_sentences_of_every_script_are_found(text: str, count: int) -> None:
    assert len(sentences(text)) in (count - 1, count)


def test_source_code_is_no_prose() -> None:
    assert is_prose("The warranty (two years) starts with the day of purchase; keep the receipt.")
    assert is_prose("本項では東大寺に所在する仏像彫刻について概観する。")
    assert not is_prose("def save(self, *args):\n    self._rows[key] = {**args}\n")
