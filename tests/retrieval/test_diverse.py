"""Results that do not repeat each other, and are none but those that were found."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.errors import InvalidArgument, ScopeError
from rag_assets.retrieval import HybridRetriever, open_scope
from rag_assets.retrieval.diverse import DiverseRetriever
from rag_assets.retrieval.files import load_retriever
from rag_assets.store.database import Database
from tests.support.passages import SCOPE, TIMINGS, Fixed, Search, awaited, blocking, result
from tests.support.worlds import ingested

faces = pytest.mark.parametrize("search", [blocking, awaited])
TEXT = "Every pump of the large series has a warranty of five years, from the day of delivery on, if it is serviced."
ABOUT = {
    "pump": "the pump has a warranty of five years and a {} seal",
    "door": "behind the {} door lies the key of the cellar",
    "cake": "flour sugar butter and {} eggs make a cake",
}


def numbers(found: Any) -> list[int]:
    return [one.chunk_id.int for one in found]


def of_sources(*sources: int) -> list[Any]:
    return [
        result(number, f"word{number} of its own", source_id=UUID(int=source)) for number, source in enumerate(sources)
    ]


@faces
def test_no_source_has_more_than_its_share_and_the_order_stays(search: Search) -> None:
    inner = Fixed(of_sources(1, 1, 1, 2, 1, 2, 2, 3), degraded="by words alone")
    found = search(DiverseRetriever(inner, per_source=2), "q", SCOPE)
    assert numbers(found) == [0, 1, 3, 5, 7]
    assert [one.score for one in found] == [inner.results[n].score for n in numbers(found)]
    assert inner.asked == [("q", 50, {})]
    assert found.degraded == "by words alone"
    assert found.trace == (
        {"stage": "fixed"},
        {"stage": "diverse", "candidates": 8, "near_identical": 0, "of_full_sources": 3, "mmr_lambda": None},
    )
    assert set(found.timings_ms) == {*TIMINGS, "diverse"}
    assert numbers(search(DiverseRetriever(inner, per_source=2), "q", SCOPE, top_k=3)) == [0, 1, 3]


@faces
@pytest.mark.parametrize(
    ("text", "same"),
    [
        (TEXT, True),
        (TEXT.upper() + " …", True),
        (f"  {TEXT}\n".replace(", ", " – "), True),
        (TEXT.replace("five", "six"), False),
        (TEXT + " " + TEXT.replace("pump", "valve"), False),
        ("ポンプの保証は納品の日から五年です。", False),
        ("", False),
    ],
)
def test_near_identical_passages_are_there_once_and_the_first_one_stays(search: Search, text: str, same: bool) -> None:
    inner = Fixed([result(0, TEXT), result(1, text or "…"), result(2, "The valve behind the door is checked weekly.")])
    found = search(DiverseRetriever(inner), "q", SCOPE)
    assert numbers(found) == ([0, 2] if same else [0, 1, 2])
    assert found.trace[-1]["near_identical"] == int(same)
    assert numbers(search(DiverseRetriever(inner, near_identical=None), "q", SCOPE)) == [0, 1, 2]


def test_how_alike_they_may_be_is_the_share_of_their_runs_of_words() -> None:
    words = [f"w{chr(97 + number // 26)}{chr(97 + number % 26)}" for number in range(104)]  # 100 runs of 5
    changed = [*words[:50], "other", *words[51:]]  # of which 5 are others: 95 of 105 are shared
    inner = Fixed([result(0, " ".join(words)), result(1, " ".join(changed))])
    assert numbers(DiverseRetriever(inner, near_identical=95 / 105 + 0.001).search("q", SCOPE)) == [0, 1]
    assert numbers(DiverseRetriever(inner, near_identical=95 / 105 - 0.001).search("q", SCOPE)) == [0]


def test_a_language_without_blanks_is_compared_as_well() -> None:
    text = "ポンプの保証は納品の日から五年です。定期的に点検してください。"
    inner = Fixed(
        [result(0, text), result(1, f"{text}\n"), result(2, "会社は年末年始に閉まります。鍵は扉の後ろにあります。")]
    )
    assert numbers(DiverseRetriever(inner).search("q", SCOPE)) == [0, 2]


@faces
def test_something_else_comes_before_more_of_the_same(search: Search) -> None:
    texts = [ABOUT[kind].format(f"n{n}") for n, kind in enumerate(["pump", "pump", "pump", "door", "door", "cake"])]
    inner = Fixed([result(number, text, score=1 - number / 100) for number, text in enumerate(texts)])

    def kinds(**settings: Any) -> list[str]:
        found = search(DiverseRetriever(inner, near_identical=None, **settings), "q", SCOPE, top_k=3)
        return [next(kind for kind in ABOUT if f" {kind}" in f" {one.content}") for one in found]

    assert kinds() == kinds(mmr_lambda=1) == ["pump", "pump", "pump"]
    assert sorted(kinds(mmr_lambda=0.2)) == sorted(kinds(mmr_lambda=0)) == ["cake", "door", "pump"]
    assert kinds(mmr_lambda=0.2)[0] == kinds(mmr_lambda=0)[0] == "pump"


def test_relevance_is_the_order_where_scores_say_something_else() -> None:
    results = [result(0, "a b c", score=0.1), result(1, "d e f", score=0.9), result(2, "g h i", score=0.5)]
    assert numbers(DiverseRetriever(Fixed(results), mmr_lambda=0.9).search("q", SCOPE)) == [0, 1, 2]


_passages = st.lists(
    st.tuples(st.integers(1, 4), st.text("ab é漢", max_size=12), st.floats(-1, 1), st.none() | st.floats(0, 1)),
    max_size=14,
)


@given(
    passages=_passages,
    per_source=st.none() | st.integers(1, 3),
    near=st.none() | st.floats(0.01, 1),
    trust=st.none() | st.floats(0, 1),
    top_k=st.integers(1, 20),
)
def test_what_is_returned_was_found_each_once_and_within_its_bounds(
    passages: list[Any], per_source: int | None, near: float | None, trust: float | None, top_k: int
) -> None:
    results = [
        result(number, text or "-", score, source_id=UUID(int=source), rerank_score=judged)
        for number, (source, text, score, judged) in enumerate(passages)
    ]
    settings: dict[str, Any] = {"per_source": per_source, "near_identical": near, "mmr_lambda": trust}
    found = DiverseRetriever(Fixed(results), **settings).search("q", SCOPE, top_k)
    assert len(set(numbers(found))) == len(found) <= top_k
    assert all(one == results[one.chunk_id.int] for one in found)
    if results:
        assert len(found) >= 1
    if trust is None:
        assert numbers(found) == sorted(numbers(found))
    if per_source is not None:
        assert max(Counter(one.source_id for one in found).values(), default=0) <= per_source
    if near is None and per_source is None:
        assert len(found) == min(top_k, len(results))


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("per_source", 0), ("per_source", 1.5), ("near_identical", 0), ("near_identical", 1.1),
        ("near_identical", math.nan), ("mmr_lambda", -1), ("mmr_lambda", "x"), ("k_in", 0), ("k_in", 1001),
    ],
)  # fmt: skip
def test_settings_out_of_bounds_are_refused_by_name(argument: str, value: Any) -> None:
    with pytest.raises(InvalidArgument) as error:
        DiverseRetriever(Fixed([]), **{argument: value})
    assert error.value.argument == argument


def test_nothing_is_searched_without_a_scope() -> None:
    inner = Fixed([])
    with pytest.raises(ScopeError):
        DiverseRetriever(inner).search("q", None)  # type: ignore[arg-type]
    assert inner.asked == []


def test_a_file_makes_one_around_a_search_of_a_database(database: Database, tmp_path: Path) -> None:
    sentence = "The valve of the {} pump is checked every week by the caretaker, who writes down what was found there."
    files = {f"note{n}.md": f"# Note {n}\n\n{sentence.format('old')}\n" for n in range(4)}
    files["other.md"] = "# Other\n\nThe pump in the cellar is new, and nobody has looked at its valve so far.\n"
    ingested(database, tmp_path / "acme", "acme", files)
    path = tmp_path / "diverse.toml"
    path.write_text('kind = "diverse"\nper_source = 1\nmmr_lambda = 0.7\n[retriever]\nkind = "hybrid"\n')
    scope = open_scope(database, "acme", "support")
    plain = HybridRetriever(database).search("the valve of the pump", scope)
    assert len(plain) == 5
    found = load_retriever(database, path).search("the valve of the pump", scope)
    assert len(found) == 2
    assert all(one in list(plain) for one in found)
