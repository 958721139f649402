"""Two indexes as one: what both say, what one says where the other cannot, and who found it."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.embedding.profiles import make_profile
from rag_assets.embedding.protocol import Usage
from rag_assets.errors import DatabaseUnavailable, EmbeddingError, InvalidArgument, InvalidProfile, ScopeError
from rag_assets.ingest.run import ingest
from rag_assets.retrieval import DenseRetriever, DualRetriever, HybridRetriever, RerankedRetriever, open_scope
from rag_assets.retrieval.files import load_retriever
from rag_assets.retrieval.rerankers.bi_encoder import BiEncoderReranker
from rag_assets.retrieval.results import Retrieval
from rag_assets.retrieval.steps import Branch, adrive, call, drive, together
from rag_assets.store.database import Database
from rag_assets.store.profiles import add_spec
from tests.support.passages import SCOPE, TIMINGS, Fixed, Search, awaited, blocking, result
from tests.support.worlds import ingested

faces = pytest.mark.parametrize("search", [blocking, awaited])
OTHER = make_profile(name="hash-32", provider="hash", model="hash", dimensions=32)
FILES = {f"note{n}.md": f"# Note {n}\n\nThe valve of pump {n} is checked weekly by team {n % 3}." for n in range(9)}


class Failing(Fixed):
    def __init__(self, error: Exception) -> None:
        super().__init__([])
        self.error = error

    def search(self, *args: Any, **more: Any) -> Retrieval:
        raise self.error


class Slow(Fixed):
    """One that answers when it is let go."""

    let_go: threading.Event

    def search(self, *args: Any, **more: Any) -> Retrieval:
        assert self.let_go.wait(30)
        return super().search(*args, **more)

    async def asearch(self, *args: Any, **more: Any) -> Retrieval:
        async with asyncio.timeout(30):
            while not self.let_go.is_set():
                await asyncio.sleep(0.01)
        return Fixed.search(self, *args, **more)


@pytest.fixture
def let_go() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def slow(results: Any, let_go: threading.Event) -> Slow:
    one = Slow(results)
    one.let_go = let_go
    return one


def texts(*numbers: int, profile: int = 0, **fields: Any) -> list[Any]:
    """The same text has another chunk id in another profile."""
    return [
        replace(result(number, **fields), chunk_id=UUID(int=1000 * profile + number), citation={"profile": profile})
        for number in numbers
    ]


def numbers(found: Any) -> list[int]:
    return [int(one.content.split()[-1]) for one in found]


@faces
def test_what_both_found_comes_first_and_each_says_who_found_it(search: Search) -> None:
    dual = DualRetriever(Fixed(texts(1, 2, 3)), Fixed(texts(4, 3, 2, profile=7)))
    found = search(dual, "q", SCOPE)
    assert [(number, one.index) for number, one in zip(numbers(found), found, strict=True)] == [
        (2, "both"), (3, "both"), (1, "primary"), (4, "secondary"),
    ]  # fmt: skip
    assert [one.citation["profile"] for one in found] == [0, 0, 0, 7]
    assert [one.score for one in found] == pytest.approx([(61 / 62 + 61 / 63) / 2, (61 / 63 + 61 / 62) / 2, 0.5, 0.5])
    assert found.degraded is None
    assert found.trace == (
        {"stage": "fixed", "index": "primary"},
        {"stage": "fixed", "index": "secondary"},
        {"stage": "dual", "fusion": "rrf", "primary": 3, "secondary": 3},
    )
    assert set(found.timings_ms) == {*TIMINGS, "dual"}
    assert found.timings_ms["search"] == TIMINGS["search"]  # side by side


_ranking = st.lists(st.integers(0, 20), max_size=12, unique=True)


@given(primary=_ranking, secondary=_ranking, top_k=st.integers(1, 30))
def test_every_text_is_there_once_in_the_order_of_its_ranks(
    primary: list[int], secondary: list[int], top_k: int
) -> None:
    dual = DualRetriever(Fixed(texts(*primary)), Fixed(texts(*secondary, profile=1)))
    found = dual.search("q", SCOPE, top_k)
    assert len(found) == min(top_k, len({*primary, *secondary}))
    assert len(set(numbers(found))) == len(found)
    everything = dual.search("q", SCOPE, 1000)
    assert list(everything[:top_k]) == list(found)
    for one, number in zip(everything, numbers(everything), strict=True):
        found_by = [side for side, ranking in (("primary", primary), ("secondary", secondary)) if number in ranking]
        assert one.index == ("both" if len(found_by) == 2 else found_by[0])
        ranks = [ranking.index(number) + 1 for ranking in (primary, secondary) if number in ranking]
        assert one.score == pytest.approx(sum(61 / (60 + rank) for rank in ranks) / 2)
    assert [one.score for one in everything] == sorted((one.score for one in everything), reverse=True)


@faces
@pytest.mark.parametrize("fields", [{"dense_score": 0.41, "score": 0.9}, {"score": 0.41}])
def test_the_secondary_answers_where_the_primary_finds_nothing_similar(search: Search, fields: dict[str, Any]) -> None:
    primary, secondary = Fixed(texts(1, 2, **fields)), Fixed(texts(2, 3, profile=1))
    enough = search(DualRetriever(primary, secondary, fusion="fallback", floor=0.4), "q", SCOPE)
    assert [(one.index, one.score) for one in enough] == [("primary", fields["score"])] * 2
    assert numbers(enough) == [1, 2]
    assert enough.trace[-1]["fell_back"] is False
    below = search(DualRetriever(primary, secondary, fusion="fallback", floor=0.42), "q", SCOPE)
    assert [(number, one.index) for number, one in zip(numbers(below), below, strict=True)] == [
        (2, "both"), (3, "secondary"), (1, "primary"),
    ]  # fmt: skip
    told = below.trace[-1]
    assert (told["fell_back"], told["floor"], told["best"]) == (True, 0.42, 0.41)
    assert enough.degraded is None
    assert below.degraded is None
    nothing = search(DualRetriever(Fixed([]), secondary, fusion="fallback", floor=-1), "q", SCOPE)
    assert numbers(nothing) == [2, 3]


@faces
def test_a_good_primary_does_not_wait_for_a_secondary_that_is_not_needed(
    search: Search, let_go: threading.Event
) -> None:
    dual = DualRetriever(Fixed(texts(1, score=0.9)), slow(texts(2), let_go), fusion="fallback", floor=0.5, limit_s=3000)
    found = search(dual, "q", SCOPE)
    let_go.set()
    assert (numbers(found), found.degraded) == ([1], None)


@faces
@pytest.mark.parametrize("late", ["primary", "secondary"])
@pytest.mark.parametrize("fusion", [{}, {"fusion": "fallback", "floor": 0.9}])
def test_one_that_is_late_is_left_out_and_the_other_stands(
    search: Search, let_go: threading.Event, late: str, fusion: dict[str, Any]
) -> None:
    quick, waiting = Fixed(texts(1, 2)), slow(texts(3), let_go)
    parts = (waiting, quick) if late == "primary" else (quick, waiting)
    started = time.monotonic()
    found = search(DualRetriever(*parts, limit_s=0.3, **fusion), "q", SCOPE)
    took = time.monotonic() - started
    let_go.set()
    assert took < 25
    assert numbers(found) == [1, 2]
    assert [one.score for one in found] == [one.score for one in quick.results]
    assert {one.index for one in found} == {"secondary" if late == "primary" else "primary"}
    assert found.degraded is not None
    assert found.degraded.startswith(f"the {late} index gave no answer (no answer within 0.3")


@faces
def test_while_neither_has_answered_both_are_waited_for(search: Search, let_go: threading.Event) -> None:
    dual = DualRetriever(slow(texts(1), let_go), slow(texts(2), let_go), limit_s=0.05)
    timer = threading.Timer(0.5, let_go.set)
    timer.start()
    found = search(dual, "q", SCOPE)
    timer.join()
    assert len(found) >= 1


@faces
@pytest.mark.parametrize("error", [EmbeddingError("no weights"), InvalidProfile("no such folder"), KeyError("sk-1")])
def test_one_that_fails_is_left_out_and_the_other_stands(search: Search, error: Exception) -> None:
    for parts, side in [
        ((Failing(error), Fixed(texts(1, 2), "by words alone")), "primary"),
        ((Fixed(texts(1, 2), "by words alone"), Failing(error)), "secondary"),
    ]:
        found = search(DualRetriever(*parts), "q", SCOPE)
        other = "secondary" if side == "primary" else "primary"
        assert numbers(found) == [1, 2]
        assert {one.index for one in found} == {other}
        assert found.degraded is not None
        assert f"{other}: by words alone" in found.degraded
        assert f"the {side} index gave no answer (" in found.degraded
        assert "sk-1" not in found.degraded
        assert found.trace[-1][side] is None


@faces
def test_where_both_fail_the_primarys_error_is_raised(search: Search) -> None:
    with pytest.raises(DatabaseUnavailable, match="of the first"):
        search(DualRetriever(Failing(DatabaseUnavailable("of the first")), Failing(KeyError())), "q", SCOPE)


@faces
def test_a_request_that_is_wrong_is_refused_whoever_says_so(search: Search) -> None:
    for parts in [(Fixed(texts(1)), Failing(ScopeError("forged"))), (Failing(ScopeError("forged")), Fixed(texts(1)))]:
        with pytest.raises(ScopeError, match="forged"):
            search(DualRetriever(*parts), "q", SCOPE)


def test_what_both_consumed_is_one_usage() -> None:
    class Paid(Fixed):
        def search(self, *args: Any, **more: Any) -> Retrieval:
            return replace(super().search(*args, **more), usage=Usage("acme", "support", 1, 10, 0.5))

    usage = DualRetriever(Paid(texts(1)), Paid(texts(2))).search("q", SCOPE).usage
    assert usage == Usage("acme", "support", 2, 20, 1.0)
    assert DualRetriever(Paid(texts(1)), Fixed([])).search("q", SCOPE).usage == Usage("acme", "support", 1, 10, 0.5)


@pytest.mark.parametrize("run", [lambda steps: drive(None, steps), lambda steps: asyncio.run(adrive(None, steps))])
def test_patience_is_asked_for_as_branches_end(run: Callable[[Any], Any], let_go: threading.Event) -> None:
    asked: list[list[int]] = []

    def patience(ended: Any) -> float | None:
        asked.append(sorted(ended))
        return 0 if 1 in ended else None

    branches = [Branch(call(lambda: let_go.wait(30))), Branch(call(lambda: 7))]
    late, quick = run(together(*branches, patience=patience))
    let_go.set()
    assert quick.get() == 7
    assert late.error is not None
    assert asked == [[], [1]]


@pytest.mark.parametrize(
    ("argument", "settings"),
    [
        ("fusion", {"fusion": "sum"}),
        ("floor", {"fusion": "fallback"}),
        ("floor", {"floor": 0.5}),
        ("floor", {"fusion": "fallback", "floor": 1.5}),
        ("floor", {"fusion": "fallback", "floor": math.nan}),
        ("limit_s", {"limit_s": -1}),
        ("candidates", {"candidates": 0}),
        ("secondary_profile", {"secondary_profile": "No Key"}),
        ("primary", {"secondary_profile": "wide"}),
    ],
)
def test_settings_that_cannot_be_are_refused_by_name(argument: str, settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument) as error:
        DualRetriever(Fixed([]), Fixed([]), **settings)
    assert error.value.argument == argument


@pytest.fixture(scope="module")
def world(new_database: Callable[[], Database], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Two tenants; both bots have a second profile."""
    database = new_database()
    add_spec(database, OTHER)
    for tenant in ("acme", "globex"):
        files = {name: f"{text}\n\nBelongs to {tenant}." for name, text in FILES.items()}
        ingested(database, tmp_path_factory.mktemp(tenant), tenant, files)
        ingest(database, tenant, "support", OTHER.name)
    yield database
    database.close()


@faces
def test_each_side_searches_its_own_profile_in_the_same_scope(world: Database, search: Search) -> None:
    dual = DualRetriever(HybridRetriever(world), DenseRetriever(world), secondary_profile="hash-32")
    scope = open_scope(world, "acme", "support")
    found = search(dual, "the valve of pump 3", scope, top_k=30)
    assert {one.index for one in found} <= {"primary", "secondary", "both"}
    assert found.trace[-1]["primary"] == found.trace[-1]["secondary"] == 9
    assert found.degraded is None
    assert all("Belongs to acme" in one.content for one in found)
    wide = DenseRetriever(world).search("the valve of pump 3", open_scope(world, "acme", "support", "hash-32"), 9)
    alone = {(one.source_id, one.content) for one in wide}
    assert {(one.source_id, one.content) for one in found if one.index != "primary"} == alone


@faces
def test_a_profile_that_is_not_built_leaves_the_other_index(world: Database, search: Search) -> None:
    dual = DualRetriever(HybridRetriever(world), HybridRetriever(world), secondary_profile="never-built")
    found = search(dual, "the valve of pump 3", open_scope(world, "acme", "support"))
    assert {one.index for one in found} == {"primary"}
    assert found.degraded is not None
    assert "'never-built'" in found.degraded


def test_a_scope_of_another_space_finds_nothing_in_a_second_profile_either(world: Database) -> None:
    dual = DualRetriever(HybridRetriever(world), HybridRetriever(world), secondary_profile="hash-32")
    forged = replace(open_scope(world, "acme", "support"), knowledge_space_id=uuid4())
    assert len(dual.search("the valve of pump 3", forged)) == 0


def test_a_dual_nests_and_is_made_by_a_file_and_many_threads_share_it(world: Database, tmp_path: Path) -> None:
    path = tmp_path / "dual.toml"
    path.write_text(
        'kind = "reranked"\ntau = 0.0\nlimit_s = 60\n'
        '[reranker]\nkind = "bi_encoder"\nprofile = { provider = "hash", model = "hash", dimensions = 32 }\n'
        '[retriever]\nkind = "dual"\nsecondary_profile = "hash-32"\n'
        '[retriever.primary]\nkind = "lexical"\n[retriever.secondary]\nkind = "dense"\n'
    )
    retriever = load_retriever(world, path)
    scope = open_scope(world, "acme", "support")
    expected = list(retriever.search("pump 4 valve", scope))
    assert len(expected) == 8
    assert all(one.rerank_score is not None and one.index for one in expected)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda _: list(retriever.search("pump 4 valve", scope)), range(24))) == [expected] * 24
    twice = DualRetriever(retriever, RerankedRetriever(HybridRetriever(world), BiEncoderReranker("static-64"), tau=0))
    assert twice.search("pump 4 valve", scope)[0].index == "both"
