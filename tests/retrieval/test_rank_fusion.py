"""Reciprocal rank fusion: every list counts by places alone, and nothing in it depends on chance."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.retrieval.fusion import fused, fused_ranks
from rag_assets.retrieval.results import RetrievalResult

LISTS = st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=8), min_size=1, max_size=4)


def result(number: int, score: float = 0.5) -> RetrievalResult:
    return RetrievalResult(UUID(int=number), UUID(int=0), "a.md", score, f"text {number}", 2, {})


@given(LISTS)
def test_everything_that_is_listed_comes_back_once_best_first(lists: list[list[str]]) -> None:
    scores = fused_ranks(lists)
    assert set(scores) == set().union(*lists)
    values = list(scores.values())
    assert values == pytest.approx(sorted(values, reverse=True), abs=1e-9)
    assert all(0 < value <= 1 + 1e-9 for value in values)


@given(LISTS, st.randoms(use_true_random=False))
def test_what_is_listed_twice_counts_once_at_its_better_place(lists: list[list[str]], random: Any) -> None:
    again = [[*keys, *random.sample(keys, len(keys))] for keys in lists]
    assert fused_ranks(again) == fused_ranks([list(dict.fromkeys(keys)) for keys in lists])


@given(LISTS)
def test_the_order_of_the_lists_changes_no_score(lists: list[list[str]]) -> None:
    backwards = fused_ranks(lists[::-1])
    assert fused_ranks(lists) == {key: pytest.approx(backwards[key]) for key in backwards}


@given(st.lists(st.sampled_from("abcdefgh"), unique=True))
def test_one_list_stays_as_it_is_and_so_do_equal_ones(keys: list[str]) -> None:
    assert list(fused_ranks([keys])) == keys
    assert list(fused_ranks([keys, keys, keys])) == keys


def test_the_scores_are_the_means_of_reciprocal_ranks() -> None:
    scores = fused_ranks([["a", "b"], ["b", "c"]])
    assert list(scores) == ["b", "a", "c"]
    assert scores == {
        "a": pytest.approx(1 / 2),
        "b": pytest.approx((61 / 62 + 1) / 2),
        "c": pytest.approx(61 / 62 / 2),
    }


def test_of_equals_the_one_that_was_higher_anywhere_comes_first_then_the_earlier_list() -> None:
    assert list(fused_ranks([["a", "b"], ["c", "d"]])) == ["a", "c", "b", "d"]
    # Of b in the third place with twice the weight, and of a in the first: a was higher.
    weight = (60 + 3) / (60 + 1)
    assert list(fused_ranks([["z", "y", "b"], ["a"]], [weight, 1.0]))[2:] == ["a", "b"]


def test_a_light_list_never_outweighs_the_head_of_a_heavy_one() -> None:
    assert list(fused_ranks([["a", "b", "c"], ["x", "c"]], [1.0, 0.5])) == ["c", "a", "b", "x"]


def test_a_chunk_is_returned_as_the_search_gave_it_that_scored_it_highest() -> None:
    lists = [[result(1, 0.9), result(2, 0.2)], [result(2, 0.8), result(3, 0.1)]]
    found = fused(lists)
    assert [(one.chunk_id.int, one.score) for one in found] == [(2, 0.8), (1, 0.9), (3, 0.1)]
    assert fused([]) == ()
    assert fused([[], []]) == ()
