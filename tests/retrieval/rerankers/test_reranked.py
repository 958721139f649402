"""Reranking: the better order where there is one, the order before where there is none, and no candidate lost."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.embedding.protocol import Caller, Usage
from rag_assets.errors import InvalidArgument, ProviderUnavailable, ScopeError, UsageError
from rag_assets.retrieval import HybridRetriever, RerankedRetriever
from rag_assets.retrieval.files import load_retriever
from rag_assets.retrieval.rerankers.protocol import Scores
from rag_assets.store.database import Database
from tests.support.passages import SCOPE, TIMINGS, Fixed, Search, awaited, blocking, result

faces = pytest.mark.parametrize("search", [blocking, awaited])
CANDIDATES = [result(number) for number in range(6)]


class Judge:
    """A reranker that says what it is told to say, or does what it is told to do."""

    name = "judge"

    def __init__(self, says: Sequence[tuple[Any, Any]] | Callable[[Caller], Any], usage: Usage | None = None) -> None:
        self.says, self.usage = says, usage
        self.asked: list[tuple[str, list[str], Caller]] = []

    def score(self, query: str, texts: Sequence[str], caller: Caller) -> Scores:
        self.asked.append((query, list(texts), caller))
        return Scores(self.says(caller) if callable(self.says) else self.says, self.usage)


class AwaitedJudge(Judge):
    async def ascore(self, query: str, texts: Sequence[str], caller: Caller) -> Scores:
        return self.score(query, texts, caller)


def reranked(judge: Any, results: Sequence[Any] = CANDIDATES, **settings: Any) -> RerankedRetriever:
    return RerankedRetriever(Fixed(results), judge, **{"limit_s": 30, **settings})


def numbers(found: Any) -> list[int]:
    return [one.chunk_id.int for one in found]


@faces
@pytest.mark.parametrize("kind", [Judge, AwaitedJudge])
def test_the_order_is_the_rerankers_and_each_result_keeps_its_own_score(search: Search, kind: type[Judge]) -> None:
    usage = Usage("acme", "support", 6, 40, 0.25)
    judge = kind([(5, 0.5), (0, 0.1), (3, 0.9), (1, 0.2), (2, 0.8), (4, 0.31)], usage)
    found = search(reranked(judge), "how long", SCOPE)
    assert numbers(found) == [3, 2, 5]
    assert [one.rerank_score for one in found] == [0.9, 0.8, 0.5]
    assert [one.score for one in found] == [CANDIDATES[number].score for number in (3, 2, 5)]
    assert found.degraded is None
    assert found.trace == (
        {"stage": "fixed"},
        {
            "stage": "rerank", "model": "judge", "k_in": 50, "candidates": 6, "scored": 6, "ignored": 0, "tau": 0.32,
            "best": 0.9, "dropped": 3, "tokens": 40, "cost_usd": 0.25,
        },
    )  # fmt: skip
    ((query, texts, caller),) = judge.asked
    assert (query, texts) == ("how long", [one.content for one in CANDIDATES])
    assert (caller.tenant, caller.bot, caller.wait_s) == ("acme", "support", 30)
    assert set(found.timings_ms) == {*TIMINGS, "rerank"}
    assert found.timings_ms["total"] == pytest.approx(TIMINGS["total"] + found.timings_ms["rerank"])


def test_many_are_asked_for_and_few_are_returned() -> None:
    inner = Fixed([result(number) for number in range(40)])
    judge = Judge([(number, 0.9) for number in range(40)])
    retriever = RerankedRetriever(inner, judge, k_in=20, k_out=5)
    filters = {"locales": ["en"]}
    assert numbers(retriever.search("q", SCOPE, 8, filters)) == [0, 1, 2, 3, 4]
    assert numbers(retriever.search("q", SCOPE, 3)) == [0, 1, 2]
    assert inner.asked == [("q", 20, filters), ("q", 20, {})]
    assert [len(texts) for _, texts, _ in judge.asked] == [20, 20]


_scores = st.one_of(
    st.floats(0, 1), st.sampled_from([math.nan, math.inf, None, "0.9", True, 10**400, np.float32(0.5), np.nan])
)
_indices = st.one_of(st.integers(-2, 9), st.sampled_from([None, "1", True, 1.0, np.int64(2)]))


@given(says=st.lists(st.tuples(_indices, _scores), max_size=14))
def test_no_candidate_is_lost_whatever_is_said_of_them(says: list[tuple[Any, Any]]) -> None:
    found = reranked(Judge(says), tau=0).search("q", SCOPE)
    assert sorted(numbers(found)) == list(range(6))
    scored = [one for one in found if one.rerank_score is not None]
    unscored = [one for one in found if one.rerank_score is None]
    assert list(found) == scored + unscored
    assert [one.rerank_score for one in scored] == sorted((one.rerank_score for one in scored), reverse=True)
    assert numbers(unscored) == sorted(numbers(unscored))
    assert (found.degraded is None) == (not unscored)
    assert all(0 <= one.rerank_score <= 1 for one in scored if one.rerank_score is not None)


@given(scores=st.lists(st.floats(0, 1), min_size=6, max_size=6), tau=st.floats(0, 1))
def test_the_best_one_is_kept_however_high_the_threshold(scores: list[float], tau: float) -> None:
    found = reranked(Judge(list(enumerate(scores))), tau=tau).search("q", SCOPE)
    best, *others = [one.rerank_score for one in found]
    assert best == max(scores)
    assert sorted(others) == sorted(score for score in scores if score >= tau)[: len(others)]
    kept = 1 + len(others)
    assert kept == max(1, sum(score >= tau for score in scores))
    assert found.trace[-1]["dropped"] == 6 - kept
    assert found.trace[-1]["best"] == max(scores)


def test_of_a_repeated_index_the_first_counts_and_of_equals_the_one_before_comes_first() -> None:
    found = reranked(Judge([(4, 0.5), (2, 0.5), (4, 0.9), (7, 1.0)]), tau=0).search("q", SCOPE)
    assert numbers(found) == [2, 4, 0, 1, 3, 5]
    assert found.trace[-1]["ignored"] == 2
    assert found.degraded == "the reranker gave no score for 4 of 6 candidates"


def _raises(error: Exception) -> Callable[[Caller], Any]:
    def say(caller: Caller) -> Any:
        raise error

    return say


@faces
@pytest.mark.parametrize(
    ("says", "reason"),
    [
        (_raises(ProviderUnavailable("the server is down")), "the server is down"),
        (_raises(KeyError("key sk-1 of acme")), "KeyError"),
        ([], "the reranker gave no score"),
        ([(0, math.nan), (1, None)], "the reranker gave no score"),
        ([(0, 0.9), (1, 7.5)], "a score of 7.5 is not between 0 and 1"),
        ([(0, 0.9), (1, -4.2)], "a score of -4.2 is not between 0 and 1"),
        (7, "TypeError"),
        ([1, 2], "TypeError"),
    ],
)
def test_the_order_before_stands_where_nothing_can_be_judged_and_the_result_says_so(
    search: Search, says: Any, reason: str
) -> None:
    found = search(reranked(Judge(says), k_out=4), "q", SCOPE)
    assert numbers(found) == [0, 1, 2, 3]
    assert found.degraded == f"not reranked ({reason}); the order before stands"
    assert all(one.rerank_score is None for one in found)
    assert found.trace[-1]["stage"] == "rerank"
    assert "sk-1" not in repr(found)


@faces
def test_a_reranker_that_is_late_is_not_waited_for(search: Search) -> None:
    let_go = threading.Event()
    started = time.monotonic()
    found = search(reranked(Judge(lambda caller: let_go.wait(30)), limit_s=0.2), "q", SCOPE)
    took = time.monotonic() - started
    let_go.set()
    assert took < 25
    assert numbers(found) == list(range(6))
    assert found.degraded == "not reranked (no answer within 0.2 s); the order before stands"
    assert found.trace[-1]["error"] == "no answer within 0.2 s"


def test_what_the_search_says_of_itself_stays() -> None:
    inner = Fixed(CANDIDATES, degraded="searched by words alone")
    both = RerankedRetriever(inner, Judge([])).search("q", SCOPE).degraded
    assert both is not None
    assert both.startswith("searched by words alone; not reranked")
    assert RerankedRetriever(inner, Judge([(n, 1) for n in range(6)])).search("q", SCOPE).degraded == inner.degraded


def test_nothing_found_is_nothing_judged() -> None:
    judge = Judge([])
    found = reranked(judge, results=[]).search("q", SCOPE)
    assert (len(found), found.degraded, judge.asked) == (0, None, [])


def test_title_and_headings_are_judged_with_the_passage_each_once() -> None:
    judge = Judge([(0, 1), (1, 1), (2, 1)])
    results = [
        result(0, "Five years.", citation={"title": "Pumps", "heading": "Warranty"}),
        result(1, "Warranty\n\nFive years.", citation={"title": "Warranty", "heading": "Warranty"}),
        result(2, "Five years.", citation={"title": "Warranty", "heading": "Warranty"}),
    ]
    reranked(judge, results).search("q", SCOPE)
    assert judge.asked[0][1] == ["Pumps\nWarranty\nFive years.", "Warranty\n\nFive years.", "Warranty\nFive years."]


def test_rerankers_nest() -> None:
    inner = reranked(Judge([(number, number / 10) for number in range(6)]), tau=0, k_out=6)
    outer = RerankedRetriever(inner, Judge([(0, 0.2), (1, 0.9)]), tau=0)
    assert numbers(outer.search("q", SCOPE)) == [4, 5, 3, 2, 1, 0]
    assert [one["stage"] for one in outer.search("q", SCOPE).trace] == ["fixed", "rerank", "rerank"]


def test_many_threads_share_one() -> None:
    retriever = reranked(Judge([(number, number / 10) for number in range(6)]), tau=0)
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda _: numbers(retriever.search("q", SCOPE)), range(64)))
    assert found == [[5, 4, 3, 2, 1, 0]] * 64


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("k_in", 0), ("k_in", 1001), ("k_out", 51), ("k_out", 1.5), ("tau", -0.1), ("tau", math.nan), ("tau", "x"),
        ("limit_s", 0), ("limit_s", math.inf), ("limit_s", math.nan), ("limit_s", True),
    ],
)  # fmt: skip
def test_settings_out_of_bounds_are_refused_by_name(argument: str, value: Any) -> None:
    with pytest.raises(InvalidArgument) as error:
        reranked(Judge([]), **{argument: value})
    assert error.value.argument == argument


def test_what_is_no_part_is_refused_by_name() -> None:
    with pytest.raises(InvalidArgument, match="retriever must be a retriever"):
        RerankedRetriever("hybrid", Judge([]))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="reranker must be a reranker"):
        RerankedRetriever(Fixed([]), "mini_lm")  # type: ignore[arg-type]


def test_nothing_is_searched_without_a_scope() -> None:
    inner = Fixed(CANDIDATES)
    with pytest.raises(ScopeError):
        RerankedRetriever(inner, Judge([])).search("q", None)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="top_k"):
        RerankedRetriever(inner, Judge([])).search("q", SCOPE, top_k=0)
    assert inner.asked == []


def test_a_file_makes_one(tmp_path: Path) -> None:
    database = Database("postgresql://nobody@localhost:1/none")
    path = tmp_path / "retriever.toml"
    path.write_text(
        'kind = "reranked"\nk_in = 30\n[retriever]\nkind = "hybrid"\n'
        '[reranker]\nkind = "bi_encoder"\nprofile = { provider = "hash", model = "hash", dimensions = 32 }\n'
    )
    made = load_retriever(database, path)
    assert isinstance(made, RerankedRetriever)
    assert made.database is database
    assert isinstance(made._retriever, HybridRetriever)
    path.write_text('kind = "reranked"\nreranker = "mini_lm"\n[retriever]\nkind = "hybrid"\n')
    with pytest.raises(UsageError, match=r"retriever\.toml, reranker: this is 'mini_lm', and has to be a reranker"):
        load_retriever(database, path)
    database.close()
