"""Filters choose sources before anything is ranked, so that k results stay k; and one that is misspelt is refused."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest

from rag_assets.errors import InvalidArgument
from rag_assets.ingest.run import ingest
from rag_assets.retrieval import TimedRetriever, open_scope
from rag_assets.retrieval.filters import check_filters
from rag_assets.retrieval.retrievers import RETRIEVERS
from rag_assets.store.database import Database
from rag_assets.store.profiles import add_spec
from rag_assets.store.search import Mode
from tests.support.worlds import HASH_PROFILE, write_files

COUNT = 600
QUERY = "the valve of the pump is checked"


def record(number: int) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "rank": number,
        "grade": str(number),
        "kind": "rare" if number % 100 == 7 else "common",
        "tags": ["all", f"t{number % 50}"],
        "date": f"20{10 + number % 10}-03-0{1 + number % 9}",
        "odd": "no number" if number % 2 else None,
    }
    if number % 3 == 0:
        metadata["third"] = True
    return {"id": f"r{number}", "text": f"The valve of the pump {number} is checked.", "metadata": metadata}


@pytest.fixture(scope="module")
def world(new_database: Callable[[], Database], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    database = new_database()
    add_spec(database, HASH_PROFILE)
    folder = write_files(
        tmp_path_factory.mktemp("docs"),
        {
            "records.jsonl": "\n".join(json.dumps(record(number)) for number in range(COUNT)),
            "Hand buch/eins.md": "---\ndate: 2026-02-01\ntags: [manual]\n---\nThe valve of the pump is checked.",
            "Hand buch/zwei.md": "---\ndate: not a date\ntags: manual\n---\nThe valve of the pump is checked twice.",
        },
    )
    report = ingest(database, "acme", "b", HASH_PROFILE, [folder])
    assert report.sources.failures == []
    yield database
    database.close()


def hits(database: Database, filters: dict[str, Any], mode: Mode = "hybrid", top_k: int = 6) -> list[Any]:
    return list(RETRIEVERS[mode](database).search(QUERY, open_scope(database, "acme", "b"), top_k, filters))


@pytest.mark.parametrize("mode", RETRIEVERS)
@pytest.mark.parametrize(
    "filters",
    [
        {"where": {"kind": {"equals": "rare"}}},
        {"where": {"kind": {"in": ["rare", "none such"]}}},
        {"where": {"rank": {"gte": 594}}},
        {"where": {"rank": {"gt": 100, "lte": 106}}},
        {"where": {"grade": {"lt": 6}}},
        {"where": {"rank": {"in": [1, 2, 3, "4", 5, 6]}}},
        {"where": {"date": {"gte": "2019-03-07", "lt": dt.date(2019, 3, 8)}}},
        {"tags": ["t3", "none such"], "where": {"rank": {"lt": 300}}},
    ],
    ids=str,
)
def test_a_filter_that_one_source_in_a_hundred_passes_still_returns_k(
    world: Database, mode: Mode, filters: dict[str, Any]
) -> None:
    assert len(hits(world, filters, mode)) == 6


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"where": {"third": {"exists": True}}}, COUNT // 3),
        ({"where": {"third": {"exists": False}}}, COUNT - COUNT // 3 + 2),
        ({"where": {"third": {"equals": True}}}, COUNT // 3),
        ({"where": {"odd": {"exists": True}}}, COUNT // 2),
        ({"where": {"odd": {"gt": 0}}}, 0),
        ({"where": {"rank": {"gte": "2010-01-01"}}}, 0),
        ({"where": {"no such key": {"equals": "x"}}}, 0),
        ({"where": {"rank": {"gte": 10, "lt": 20}, "kind": {"equals": "common"}}}, 10),
        ({"source_types": ["record"]}, COUNT),
        ({"content_types": ["text/markdown"]}, 2),
        ({"path_prefixes": ["Hand buch/"]}, 2),
        ({"path_prefixes": ["/Hand buch/zw"]}, 1),
        ({"path_prefixes": ["and buch"]}, 0),
        ({"path_prefixes": ["records.json"]}, COUNT),
        ({"tags": ["manual"]}, 2),
        ({"tags": []}, 0),
        ({"source_names": ["Hand buch/eins.md", "none such"]}, 1),
        ({"since": "2026-01-15", "until": "2026-02-02", "tags": ["manual"]}, 1),
        ({"since": "2019-01-01", "until": "2020-01-01"}, COUNT // 10),
        ({"source_ids": []}, 0),
        ({}, COUNT + 2),
    ],
    ids=str,
)
def test_a_filter_lets_through_just_what_it_says(world: Database, filters: dict[str, Any], expected: int) -> None:
    assert len(hits(world, filters, "lexical", 1000)) == expected


def test_sources_are_chosen_by_their_root(world: Database) -> None:
    with world.work("acme") as connection:
        row = connection.execute("SELECT id, uri FROM rag.source_roots").fetchone()
    assert row is not None
    assert isinstance(row[0], UUID)
    for root, expected in ((row[0], COUNT + 2), (row[1], COUNT + 2), ("file:///elsewhere", 0)):
        assert len(hits(world, {"roots": [root]}, "lexical", 1000)) == expected


@pytest.mark.parametrize(
    ("filters", "said"),
    [
        ({"local": ["de"]}, "did you mean 'locales'"),
        ({"where": []}, "'where' must be an object"),
        ({"where": {"a": "b"}}, "'a': conditions are an object"),
        ({"where": {"a": {}}}, "'a': conditions are an object"),
        ({"where": {"a": {"is": 1}}}, "'is': no such comparison"),
        ({"where": {"a": {"gt": "soon"}}}, "must be a number, or a date"),
        ({"where": {"a": {"gt": True}}}, "must be a number, or a date"),
        ({"where": {"a": {"gt": float("nan")}}}, "got nan"),
        ({"where": {"a": {"in": "xy"}}}, "must be a list"),
        ({"where": {"a": {"in": [None]}}}, "compares with"),
        ({"where": {"a": {"exists": 1}}}, "must be True or False"),
        ({"where": {7: {"exists": True}}}, "is a string"),
        ({"where": {f"k{n}": {"exists": True} for n in range(101)}}, "more than 100"),
        ({"since": "yesterday"}, "since must be a date like 2026-01-31"),
        ({"until": 2026}, "until must be a date"),
        ({"since": "2026-02-01", "until": "2026-01-01"}, "since must be before until"),
        ({"since": "2026-02-01", "until": "2026-02-01T00:00:00Z"}, "since must be before until"),
        ({"tags": "x"}, "'tags' must be a list"),
        ({"path_prefixes": [1]}, "must hold strings"),
    ],
    ids=str,
)
def test_a_filter_that_says_nothing_certain_is_refused(filters: Any, said: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        check_filters(filters)
    assert said in str(error.value)
    assert error.value.argument == "filters"


@pytest.mark.parametrize(
    "text", ["x'); DROP TABLE rag.knowledge_sources; --", "%s %L $1", "\\", '"', "a' OR true OR 'b"]
)
def test_what_stands_in_a_filter_is_never_sql(world: Database, text: str) -> None:
    for filters in (
        {"tags": [text]}, {"path_prefixes": [text]}, {"roots": [text]}, {"source_names": [text]},
        {"where": {text: {"equals": text}}}, {"where": {"kind": {"in": [text]}}}, {"metadata": {text: text}},
    ):  # fmt: skip
        assert hits(world, filters) == []
    assert len(hits(world, {"where": {text: {"exists": False}}})) == 6


@pytest.mark.parametrize("key", ["grade", "none such"])
def test_a_list_of_many_values_is_read_once_and_not_for_each_source(world: Database, key: str) -> None:
    values: list[Any] = [f"value {number}" for number in range(50_000)] + [7, "11"]
    ask = TimedRetriever(RETRIEVERS["hybrid"](world), 60)  # read for each of 600 sources, it took minutes
    found = ask.search(QUERY, open_scope(world, "acme", "b"), 6, {"where": {key: {"in": values}}})
    assert len(found) == (2 if key == "grade" else 0)
