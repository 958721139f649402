"""What a search is asked is checked by name, by the library and by the database itself; nothing makes it wider."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from enum import Enum
from typing import Any

import psycopg
import pytest

from rag_assets.errors import InvalidArgument
from rag_assets.retrieval import CachedRetriever, HybridRetriever, RetrievalScope, open_scope
from rag_assets.retrieval.filters import check_filters
from rag_assets.store.database import Database
from tests.support.scopes import set_scope
from tests.support.worlds import ingested

VECTOR = "[1" + ",0" * 63 + "]"
GOOD: dict[str, Any] = {
    "mode": "hybrid", "query_vector": VECTOR, "query_text": "valve", "top_k": 5, "copies": True, "candidates": 10,
    "dense_weight": 0.5, "fusion": "rrf", "filters": "{}", "exact": False,
}  # fmt: skip
CALL = (
    "SELECT * FROM rag.search(%(mode)s, %(query_vector)s::vector, %(query_text)s, %(top_k)s, %(copies)s, "
    "%(candidates)s, %(dense_weight)s, %(fusion)s, %(filters)s::jsonb, %(exact)s)"
)


@pytest.fixture(scope="module")
def world(module_database: Database, tmp_path_factory: pytest.TempPathFactory) -> Database:
    ingested(module_database, tmp_path_factory.mktemp("docs"), "acme", {"a.md": "The valve is red."})
    return module_database


@pytest.fixture(scope="module")
def scope(world: Database) -> RetrievalScope:
    return open_scope(world, "acme", "support")


@pytest.fixture
def app(world: Database, scope: RetrievalScope) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    with world.connect("app") as connection:
        set_scope(connection, scope.settings)
        yield connection


def test_a_search_with_every_argument_right_finds(app: psycopg.Connection[tuple[Any, ...]]) -> None:
    assert len(app.execute(CALL, GOOD).fetchall()) == 1


@pytest.mark.parametrize("name", GOOD)
def test_the_database_refuses_an_argument_that_is_null_by_its_name(
    app: psycopg.Connection[tuple[Any, ...]], name: str
) -> None:
    with pytest.raises(psycopg.errors.NullValueNotAllowed, match=f"{name} must not be null"):
        app.execute(CALL, {**GOOD, name: None})


@pytest.mark.parametrize("name", [name for name in GOOD if name != "copies"])
def test_programs_of_the_version_before_are_refused_alike(app: psycopg.Connection[tuple[Any, ...]], name: str) -> None:
    with pytest.raises(psycopg.errors.NullValueNotAllowed, match=f"{name} must not be null"):
        app.execute(CALL.replace(" %(copies)s,", ""), {**GOOD, name: None})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mode", "both"), ("top_k", 0), ("top_k", 1001), ("candidates", -1), ("dense_weight", float("nan")),
        ("dense_weight", 1.5), ("fusion", ""), ("filters", "[]"), ("filters", "null"), ("filters", '"source_ids"'),
        ("filters", '{"sources": []}'), ("filters", '{"locales": "de"}'), ("filters", '{"locales": null}'),
        ("filters", '{"source_types": {"file": 1}}'), ("filters", '{"content_types": [null]}'),
        ("filters", '{"source_ids": [7]}'), ("filters", '{"metadata": []}'), ("filters", '{"metadata": null}'),
    ],
)  # fmt: skip
def test_the_database_refuses_a_wrong_argument_by_its_name(
    app: psycopg.Connection[tuple[Any, ...]], name: str, value: Any
) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=f"rag.search: bad {name}"):
        app.execute(CALL, {**GOOD, name: value})


@pytest.mark.parametrize(
    ("argument", "options"),
    [
        ("query", {"query": None}), ("query", {"query": b"valve"}), ("query", {"query": 7.0}),
        ("scope", {"scope": None}), ("scope", {"scope": {"tenant_id": "acme"}}),
        ("top_k", {"top_k": float("nan")}), ("top_k", {"top_k": None}), ("top_k", {"top_k": True}),
        ("top_k", {"top_k": 2**70}), ("top_k", {"top_k": "8"}), ("top_k", {"top_k": 3.0}),
        *(("filters", {"filters": wrong}) for wrong in (
            [], "locales", {1: ["de"]}, {"\0": []}, {"locales": "de"}, {"locales": ["de\0"]}, {"locales": ["\ud800"]},
            {"locales": [None]}, {"locales": [float("nan")]}, {"source_ids": [7]}, {"source_ids": {"a": 1}},
            {"metadata": {"x": float("nan")}}, {"metadata": {"x": float("inf")}}, {"metadata": {"x": "\0"}},
            {"metadata": {"\0": 1}}, {"metadata": {"x": "\udfff"}}, {"metadata": {"x": object()}},
            {"metadata": {"x": b"y"}}, {"metadata": {("x",): 1}}, {"metadata": None}, {"metadata": {"x": 10**5000}},
            {"metadata": {"x": 1e400}}, {"metadata": {1: "x", "1": "y"}}, {"metadata": {"x": [{None: 1, "b": 2}]}},
            {"path_prefixes": ["\ud800"]}, {"since": "0001-01-01T00:00:00+14:00"}, 10**5000, {10**5000: []},
            {"until": "9999-12-31T23:59:59-23:59"}, {"where": {"x": {"gt": 10**5000}}}, {"tags": [10**5000]},
        )),
        ("top_k", {"top_k": 10**5000}), ("query", {"query": 10**5000}), ("query", {"query": ["x" * 10**6]}),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_named_in_both_faces_and_no_error_of_the_driver_leaves(
    world: Database, scope: RetrievalScope, argument: str, options: dict[str, Any]
) -> None:
    retriever = HybridRetriever(world)
    arguments = {"query": "valve", "scope": scope, **options}
    for search in (lambda: retriever.search(**arguments), lambda: asyncio.run(retriever.asearch(**arguments))):
        with pytest.raises(InvalidArgument) as refused:
            search()
        assert refused.value.argument == argument
        assert len(str(refused.value)) < 500


@pytest.mark.parametrize(
    "filters",
    [
        {"since": "2020-01-01T00:00:00+23:59"}, {"since": "2020-01-01T00:00:00-00:00:01"},
        {"until": "9999-12-31T23:59:59-00:00"}, {"where": {"none": {"gt": "2020-01-01T00:00:00+20:00"}}},
        {"where": {"none": {"gt": 10**4000}}}, {"where": {"a'b\"; \\ %s": {"in": ["' OR 1=1 --", "%", "值"]}}},
        {"path_prefixes": ["'; --", "%", "\\"]},
    ],
)  # fmt: skip
def test_what_python_and_json_can_say_the_database_understands(
    world: Database, scope: RetrievalScope, filters: dict[str, Any]
) -> None:
    found = CachedRetriever(HybridRetriever(world)).search("valve", scope, filters=filters)
    assert len(found) == ("since" in filters or "until" in filters)


def test_a_filter_by_the_members_of_an_enumeration_is_one_by_their_values(
    world: Database, scope: RetrievalScope
) -> None:
    class Kind(str, Enum):  # noqa: UP042 - as applications have them
        FILE = "file"

    assert len(HybridRetriever(world).search("valve", scope, filters={"source_types": [Kind.FILE]})) == 1


def test_a_filter_that_is_nested_too_deep_is_refused(world: Database, scope: RetrievalScope) -> None:
    nested: Any = 1
    for _ in range(100_000):
        nested = [nested]
    with pytest.raises(InvalidArgument, match="filters"):
        HybridRetriever(world).search("valve", scope, filters={"metadata": {"x": nested}})


@pytest.mark.parametrize("filters", [{"metadata": {"a": "x" * 9_000_000}}, {"locales": ["x" * 100] * 100_000}])
def test_filters_that_would_hold_up_the_database_are_refused_before_it_is_asked(filters: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=r"^filters: they are longer than 8,000,000 characters"):
        check_filters(filters)
