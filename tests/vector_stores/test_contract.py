"""What every store promises, asked of each of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from numpy.typing import NDArray

from rag_assets.embedding.profiles import make_profile
from rag_assets.errors import InvalidArgument, RagError, ScopeError, UnknownBot, UsageError
from tests.support.corpora import unit
from tests.support.store_world import KINDS, PROFILE, PostgresWorld, StoreWorld, local_world

DIMENSIONS = PROFILE.dimensions
ONE = np.eye(DIMENSIONS, dtype=np.float32)
FILTERED = {
    "en.md": {"locale": "en", "content_type": "text/markdown", "metadata": {"tags": ["manual", "pump"], "year": 2024}},
    "de.md": {"locale": "de", "content_type": "text/markdown", "metadata": {"tags": "manual", "draft": True}},
    "faq": {"source_type": "faq", "metadata": {"by": {"team": "b", "people": ["ann", "bob"]}, "tags": [7]}},
    "bare": {},
}


@pytest.fixture(params=KINDS)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreWorld]:
    if request.param == "postgres":
        made: StoreWorld = PostgresWorld(request.getfixturevalue("database"))
    else:
        made = local_world(request.param, tmp_path)
    yield made
    made.close()


def random_vectors(number: int, seed: int = 0) -> NDArray[np.float32]:
    return unit(np.random.default_rng(seed).standard_normal((number, DIMENSIONS)))


def names(found: list[Any]) -> set[str]:
    return {one.source_name for one in found}


def test_the_nearest_are_those_of_numpy_with_their_cosines(world: StoreWorld) -> None:
    vectors = random_vectors(300)
    for start in range(0, 300, 10):
        world.put(f"s{start}", [f"text {start + n}" for n in range(10)], vectors[start : start + 10])
    assert world.store.count(world.scope()) == 300
    for query in random_vectors(10, seed=1):
        cosines = vectors @ query
        best = np.argsort(-cosines)[:10]
        found = world.store.search(world.scope(), 3 * query, top_k=10)  # of any length
        assert [one.content for one in found] == [f"text {number}" for number in best]
        assert [one.score for one in found] == pytest.approx(cosines[best].tolist(), abs=1e-5)
        assert [one.dense_score for one in found] == [one.score for one in found]


def test_scores_are_similarities_from_minus_one_to_one(world: StoreWorld) -> None:
    world.put("s", ["same", "other", "against"], np.stack([ONE[0], ONE[1], -ONE[0]]))
    found = world.store.search(world.scope(), ONE[0])
    assert [one.content for one in found] == ["same", "other", "against"]
    assert [one.score for one in found] == pytest.approx([1, 0, -1], abs=1e-6)
    assert all(-1 <= one.score <= 1 for one in found)


def test_equals_come_in_the_order_of_their_ids_every_time(world: StoreWorld) -> None:
    odd = unit(np.full((1, DIMENSIONS), 1 / 3))[0]  # no number of it is exact
    for number in range(6):
        world.put(f"s{number}", ["first", "second"], np.stack([odd, odd]))
    world.put("far", ["far"], -odd[None])
    found = world.store.search(world.scope(), odd, top_k=12)
    ids = [one.chunk_id for one in found]
    assert ids == sorted(ids)
    assert "far" not in names(found)
    for top_k in (1, 5, 12):
        again = [[one.chunk_id for one in world.store.search(world.scope(), odd, top_k)] for _ in range(5)]
        assert again == [again[0]] * 5
        assert again[0] == sorted(again[0])


def test_what_is_written_again_replaces_the_whole_source(world: StoreWorld) -> None:
    world.put("kept", ["kept"], ONE[3:4])
    for texts in (["a", "b", "c"], ["a", "b", "c"], ["a"]):
        source = world.put("s", texts, ONE[: len(texts)])
        found = world.store.search(world.scope(), ONE[0], top_k=100)
        assert sorted(one.content for one in found) == sorted([*texts, "kept"])
        assert world.store.count(world.scope()) == len(texts) + 1
    world.take(source)
    assert names(world.store.search(world.scope(), ONE[0], top_k=100)) == {"kept"}
    assert world.store.count(world.scope()) == 1
    world.put("kept", ["moved"], ONE[5:6])
    assert world.store.search(world.scope(), ONE[5])[0].score == pytest.approx(1)


def test_tenants_in_one_store_find_only_their_own(world: StoreWorld) -> None:
    for tenant in ("acme", "globex"):
        world.put("s", [f"of {tenant}"], ONE[:1], tenant)
    for tenant in ("acme", "globex"):
        assert [one.content for one in world.store.search(world.scope(tenant), ONE[0])] == [f"of {tenant}"]
    mine, other = world.scope("acme"), world.scope("globex")
    for forged in (
        replace(mine, tenant_id="globex"),
        replace(mine, knowledge_space_id=other.knowledge_space_id),
        replace(mine, bot_id="sales"),
        replace(mine, knowledge_space_id=uuid4()),
        replace(mine, profile_id=2**40),
    ):
        assert world.store.search(forged, ONE[0]) == []
        assert world.store.count(forged) == 0


def test_a_private_source_is_found_by_its_user_alone(world: StoreWorld) -> None:
    world.put("all", ["for all"], ONE[1:2])
    world.put("ann", ["of ann"], ONE[:1], user_id="ann")
    for user, expected in (("ann", {"all", "ann"}), ("bob", {"all"}), (None, {"all"})):
        scope = world.scope(user_id=user)
        assert names(world.store.search(scope, ONE[0])) == expected
        assert names(world.store.search(scope, ONE[0], filters={"source_names": ["ann", "all"]})) == expected
        assert world.store.count(scope) == len(expected)
    found = world.store.search(world.scope(user_id="ann"), ONE[0])
    assert [one.space for one in found] == ["user", "bot"]


def test_a_scope_with_another_profile_is_refused(world: StoreWorld) -> None:
    world.put("s", ["text"], ONE[:1])
    other = make_profile(name="hash-16", provider="hash", model="hash", dimensions=16, task_instruction={"query": "q "})
    with pytest.raises(ScopeError, match="two models could meet"):
        world.store.search(replace(world.scope(), profile=other), ONE[0])
    with pytest.raises(ScopeError):
        world.store.search(None, ONE[0])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "vector",
    [ONE[0][:8], np.concatenate([ONE[0], ONE[0]]), ONE[:1], np.zeros(DIMENSIONS), ONE[0] * np.nan, "text", None],
    ids=("shorter", "longer", "matrix", "zero", "nan", "text", "none"),
)
def test_a_vector_that_is_none_of_the_profile_is_refused(world: StoreWorld, vector: Any) -> None:
    world.put("s", ["text"], ONE[:1])
    with pytest.raises(InvalidArgument) as refused:
        world.store.search(world.scope(), vector)
    assert refused.value.argument == "vector"


@pytest.mark.parametrize("top_k", [0, -1, 1001, "8", True, 1.5])
def test_a_number_of_results_out_of_bounds_is_refused(world: StoreWorld, top_k: Any) -> None:
    with pytest.raises(InvalidArgument, match="top_k"):
        world.store.search(world.scope(), ONE[0], top_k)


def test_an_empty_store_answers_with_nothing(world: StoreWorld) -> None:
    assert world.store.search(world.scope(), ONE[0]) == []
    assert world.store.search(world.scope(), ONE[0], filters={"source_names": ["s"]}) == []
    assert world.store.count(world.scope()) == 0
    with pytest.raises(UnknownBot):
        world.store.scope("nobody", "support")


def test_texts_of_all_scripts_come_back_as_they_were_and_nul_is_refused(world: StoreWorld) -> None:
    texts = [
        "Öl für die Pumpe",
        "ポンプの保証",
        "\u202emirrored\u2028line",
        "😀 'quoted\"; DROP TABLE chunks --",
        "\t\r\n x",
    ]
    world.put("ü'\"😀.md", texts, ONE[: len(texts)])
    found = world.store.search(world.scope(), ONE[0])
    assert sorted(one.content for one in found) == sorted(texts)
    assert names(found) == {"ü'\"😀.md"}
    with pytest.raises(RagError):
        world.put("nul", ["a\x00b"], ONE[:1])
    assert world.store.count(world.scope()) == len(texts)


def test_what_was_written_is_there_after_a_reopening(world: StoreWorld) -> None:
    if not world.is_lasting:
        pytest.skip("it holds everything in memory")
    vectors = random_vectors(50)
    world.put("s", [f"text {number}" for number in range(50)], vectors, metadata={"tags": ["manual"]}, locale="en")
    before = world.store.search(world.scope(), vectors[7], top_k=50)
    world.reopen()
    assert world.store.search(world.scope(), vectors[7], top_k=50) == before
    scope = world.store.scope("acme", "support")
    assert (scope.profile, scope.shared) == (PROFILE, None)
    assert world.store.search(scope, vectors[7], top_k=50, filters={"locales": ["en"]}) == before


def test_readers_beside_a_writer_see_one_state_of_a_source(world: StoreWorld) -> None:
    texts = [[f"version {version}, {n}" for n in range(3)] for version in range(2)]
    world.put("s", texts[0], ONE[:3])
    stop = threading.Event()

    def read() -> int:
        searches = 0
        while not stop.is_set():
            found = world.store.search(world.scope(), ONE[0], top_k=6)
            versions = {one.content.split(",")[0] for one in found}
            assert versions <= {"version 0", "version 1"}
            assert not world.is_whole or (len(found), len(versions)) == (3, 1)
            searches += 1
        return searches

    with ThreadPoolExecutor(4) as threads:
        readers = [threads.submit(read) for _ in range(4)]
        try:
            for turn in range(20):
                world.put("s", texts[turn % 2], ONE[:3])
        finally:
            stop.set()
        assert all(reader.result() > 0 for reader in readers)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"source_names": ["en.md", "faq", "none"]}, {"en.md", "faq"}),
        ({"source_names": []}, set()),
        ({"source_types": ["faq"]}, {"faq"}),
        ({"locales": ["en", "de"]}, {"en.md", "de.md"}),
        ({"content_types": ["text/markdown"], "locales": ["de"]}, {"de.md"}),
        ({"tags": ["manual"]}, {"en.md", "de.md"}),
        ({"tags": ["7", "pump"]}, {"en.md", "faq"}),
        ({"metadata": {"year": 2024}}, {"en.md"}),
        ({"metadata": {"year": 2024.0}}, {"en.md"}),
        ({"metadata": {"year": "2024"}}, set()),
        ({"metadata": {"draft": 1}}, set()),
        ({"metadata": {"by": {"people": ["bob"]}}}, {"faq"}),
        ({"metadata": {}}, set(FILTERED)),
        ({"path_prefixes": ["en"]}, {"en.md"}),
        ({"where": {"year": {"gte": 2020}}}, {"en.md"}),
        ({"roots": ["none"]}, set()),
        ({"until": "1990-01-01"}, set()),
        ({"since": "1990-01-01"}, set(FILTERED)),
    ],
)
def test_a_filter_means_the_same_in_each_store_or_is_refused(
    world: StoreWorld, filters: dict[str, Any], expected: set[str]
) -> None:
    for number, (name, known) in enumerate(FILTERED.items()):
        world.put(name, [name], ONE[number : number + 1], **known)
    unknown = set(filters) - world.store.filters
    if unknown:
        with pytest.raises(InvalidArgument, match=f"does not know '{min(unknown)}'"):
            world.store.search(world.scope(), ONE[0], filters=filters)
    else:
        assert names(world.store.search(world.scope(), ONE[0], filters=filters)) == expected


def test_ids_of_sources_are_filtered_by_and_misspelt_filters_are_refused(world: StoreWorld) -> None:
    sources = [world.put(f"s{number}", ["text"], ONE[number : number + 1]) for number in range(3)]
    found = world.store.search(world.scope(), ONE[0], filters={"source_ids": [sources[2], str(sources[1])]})
    assert {one.source_id for one in found} == set(sources[1:])
    with pytest.raises(InvalidArgument, match="did you mean 'locales'"):
        world.store.search(world.scope(), ONE[0], filters={"locale": ["en"]})
    with pytest.raises(InvalidArgument, match="must be a list"):
        world.store.search(world.scope(), ONE[0], filters={"locales": "en"})


def test_a_filter_finds_as_many_as_there_are(world: StoreWorld) -> None:
    vectors = random_vectors(200)
    for start in range(0, 200, 10):
        texts = [f"text {start + n}" for n in range(10)]
        world.put(f"s{start}", texts, vectors[start : start + 10], locale="en" if start == 190 else "de")
    assert len(world.store.search(world.scope(), vectors[0], top_k=10, filters={"locales": ["en"]})) == 10


def test_a_closed_store_says_so(world: StoreWorld) -> None:
    if isinstance(world, PostgresWorld):
        pytest.skip("the database is closed by whoever opened it")
    world.put("s", ["text"], ONE[:1])
    world.store.close()
    world.store.close()
    for use in (
        lambda: world.store.search(world.scope(), ONE[0]),
        lambda: world.store.count(world.scope()),
        lambda: world.store.scope("acme", "support"),
        lambda: world.put("s", ["text"], ONE[:1]),
    ):
        with pytest.raises(UsageError, match="closed"):
            use()
