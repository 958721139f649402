"""rag.fuse, called as the search calls it: two lists in, one ranking out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.types.composite import CompositeInfo, register_composite

from rag_assets.retrieval import HybridRetriever, open_scope
from rag_assets.store.database import Database
from tests.support.worlds import ingested

Listing = list[tuple[int, float]]
Ranking = list[tuple[int, float]]
Fuse = Callable[..., Ranking]

IDS = st.integers(1, 12)
# In steps that no rounding closes: only what is equal may tie.
COSINES = st.integers(-1000, 1000).map(lambda n: n / 1000)
SHARES = st.integers(1, 1000).map(lambda n: n / 1000)
DENSE = st.lists(st.tuples(IDS, COSINES), max_size=12)
LEXICAL = st.lists(st.tuples(IDS, SHARES), max_size=12)
WEIGHTS = st.sampled_from([0.0, 0.2, 0.5, 0.8, 1.0])
METHODS = st.sampled_from(["minmax", "rrf"])
FLOORS = st.sampled_from([0.0, -0.3, 0.25])
CHECKS = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def fuse(module_database: Database) -> Iterator[Fuse]:
    with psycopg.connect(module_database.url) as connection:
        info = CompositeInfo.fetch(connection, "rag.candidates")
        assert info is not None
        register_composite(info, connection)
        make = info.python_type

        def candidates(listing: Listing | None) -> object:
            if listing is None:
                return None
            assert make is not None
            return make([UUID(int=number) for number, _ in listing], [score for _, score in listing])

        def run(
            dense: Listing | None,
            lexical: Listing | None,
            weight: float = 0.5,
            method: str = "minmax",
            floor: float = 0,
        ) -> Ranking:
            rows = connection.execute(
                "SELECT id, score FROM rag.fuse(%s::rag.candidates, %s::rag.candidates, %s, %s, %s)",
                [candidates(dense), candidates(lexical), weight, method, floor],
            )
            return [(row[0].int, row[1]) for row in rows]

        yield run


def best_of(listing: Listing) -> dict[int, float]:
    best: dict[int, float] = {}
    for number, score in listing:
        best[number] = max(score, best.get(number, score))
    return best


def shares(listing: Mapping[int, float], method: str, floor: float) -> dict[int, float]:
    if method == "rrf":
        ranked = sorted(listing, key=lambda number: (-listing[number], number))
        return {number: 61 / (60 + rank) for rank, number in enumerate(ranked, start=1)}
    top = max(listing.values(), default=0)
    if top <= floor:
        return dict.fromkeys(listing, 0.0)
    return {number: max(score - floor, 0) / (top - floor) for number, score in listing.items()}


def reference(dense: Listing, lexical: Listing, weight: float, method: str, floor: float) -> dict[int, float]:
    by_vector = shares(best_of(dense), method, floor if lexical else -1)
    by_words = shares(best_of(lexical), method, 0)
    weight_of_words = 1.0 if not dense else 1 - weight
    weight_of_vectors = 1.0 if not lexical else weight
    return {
        number: weight_of_vectors * by_vector.get(number, 0) + weight_of_words * by_words.get(number, 0)
        for number in {*by_vector, *by_words}
    }


@given(DENSE, LEXICAL, WEIGHTS, METHODS, FLOORS)
@CHECKS
def test_scores_are_those_of_the_formula_and_in_order(
    fuse: Fuse, dense: Listing, lexical: Listing, weight: float, method: str, floor: float
) -> None:
    found = fuse(dense, lexical, weight, method, floor)
    assert dict(found) == pytest.approx(reference(dense, lexical, weight, method, floor), abs=1e-9)
    assert len(found) == len(dict(found)), "a chunk is listed once"
    assert found == sorted(found, key=lambda row: (-row[1], row[0]))
    assert all(0 <= score <= 1 + 1e-12 for _, score in found)


@given(DENSE, LEXICAL, METHODS)
@CHECKS
def test_bug_71_the_order_is_the_same_however_the_lists_are_ordered(
    fuse: Fuse, dense: Listing, lexical: Listing, method: str
) -> None:
    assert fuse(dense[::-1], sorted(lexical), 0.5, method) == fuse(dense, lexical, 0.5, method)


@given(DENSE, METHODS)
@CHECKS
def test_one_list_alone_keeps_its_own_order(fuse: Fuse, dense: Listing, method: str) -> None:
    best = best_of(dense)
    expected = sorted(best, key=lambda number: (-best[number], number))
    for empty in ([], None):
        assert [number for number, _ in fuse(dense, empty, 0.3, method, 0.25)] == expected
    best = best_of([(number, (score + 1.5) / 3) for number, score in dense])
    expected = sorted(best, key=lambda number: (-best[number], number))
    found = fuse(None, list(best.items()), 0.9, method, 0.25)
    assert [number for number, _ in found] == expected
    assert not found or found[0][1] == pytest.approx(1)


def test_two_empty_lists_give_nothing(fuse: Fuse) -> None:
    assert fuse([], []) == fuse(None, None) == []


def test_bug_67_a_chunk_that_is_absent_from_a_list_earns_nothing_there(fuse: Fuse) -> None:
    dense, lexical = [(1, 0.9), (2, 0.8), (3, 0.7)], [(4, 0.9), (5, 0.8), (3, 0.7)]
    assert fuse(dense, lexical, method="rrf")[0] == (3, pytest.approx(61 / 63))
    assert dict(fuse(dense, lexical, method="rrf"))[1] == pytest.approx(0.5)
    assert dict(fuse(dense, lexical))[4] == pytest.approx(0.5)


def test_bug_71_two_chunks_that_are_each_first_in_one_list_stand_by_id(fuse: Fuse) -> None:
    for method in ("minmax", "rrf"):
        for dense, lexical in (([(7, 0.5)], [(3, 0.5)]), ([(3, 0.5)], [(7, 0.5)])):
            assert {tuple(fuse(dense, lexical, method=method)) for _ in range(20)} == {((3, 0.5), (7, 0.5))}


def test_bug_72_the_first_of_one_list_beats_the_last_of_a_long_one(fuse: Fuse) -> None:
    dense = [(number, 1 - number / 200) for number in range(1, 96)]
    found = [number for number, _ in fuse(dense, [(500, 0.9)], method="rrf")]
    assert len(found) == 96
    assert found.index(500) < found.index(95)
    assert found.index(500) == 1


def test_bug_73_a_perfect_hit_scores_one_by_either_method(fuse: Fuse) -> None:
    for method in ("minmax", "rrf"):
        assert fuse([(1, 0.9), (2, 0.1)], [(1, 0.8)], method=method)[0] == (1, pytest.approx(1))


def test_a_better_score_in_one_list_never_lowers_a_chunk(fuse: Fuse) -> None:
    lexical = [(1, 0.5), (2, 0.4)]
    scores = [dict(fuse([(3, 0.9), (1, cosine)], lexical))[1] for cosine in (-0.5, 0.0, 0.2, 0.6, 0.9)]
    assert scores == sorted(scores)


def test_bug_69_equal_texts_of_two_sources_are_two_results_where_copies_are_asked_for(
    database: Database, root: Path
) -> None:
    text = "The pump must be primed before the first start."
    ingested(database, root, "acme", {"a.md": text, "b.md": text})
    scope = open_scope(database, "acme", "support")
    for fusion in ("minmax", "rrf"):
        found = HybridRetriever(database, fusion=fusion, copies=True).search("prime the pump", scope)  # type: ignore[arg-type]
        assert [result.content for result in found] == [text, text]
        assert len({result.source_id for result in found}) == 2
        assert found[0].chunk_id < found[1].chunk_id, "equal in both lists, so the smaller id is first"
