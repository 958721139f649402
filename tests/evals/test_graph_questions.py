"""The bundled questions of two hops: along triples more of them are answered, and those of one hop are not worse."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from evals.datasets import EvalSet, load_evalset
from rag_assets.ingest.run import ingest
from rag_assets.ingest.triples import import_triples
from rag_assets.retrieval import GraphRetriever, HybridRetriever, RetrievalScope, Retriever, open_scope
from rag_assets.store.database import Database
from rag_assets.store.roots import add_root
from rag_assets.store.tenants import add_tenant

DATA = Path(__file__).parents[2] / "evals" / "data" / "tellmarsh"


@cache
def questions() -> EvalSet:
    return load_evalset(DATA)


def of_kind(kind: str) -> list[str]:
    return [one.id for one in questions().queries if one.kind == kind]


@pytest.fixture(scope="module")
def world(new_database: Callable[[], Database]) -> Iterator[Database]:
    database = new_database()
    add_tenant(database, "tellmarsh", "support")
    add_root(database, "tellmarsh", "support", str(DATA / "sources"))
    ingest(database, "tellmarsh", "support", "static-256")
    report = import_triples(database, "tellmarsh", "support", DATA / "triples.jsonl")
    assert report.errors == []
    assert report.written > 100
    yield database
    database.close()


def documents(retriever: Retriever, scope: RetrievalScope, query: str) -> list[str]:
    text = next(one.text for one in questions().queries if one.id == query)
    return list(dict.fromkeys(str(hit.citation["document"]) for hit in retriever.search(text, scope, 5)))


def recall(found: list[str], query: str) -> float:
    wanted = {document for document, grade in questions().qrels[query].items() if grade > 0}
    return len(wanted & set(found[:5])) / len(wanted)


def reciprocal_rank(found: list[str], query: str) -> float:
    return next((1 / n for n, one in enumerate(found, 1) if questions().qrels[query].get(one) == 2), 0.0)


def test_the_set_is_large_enough_and_its_labels_name_documents() -> None:
    assert len(of_kind("two-hop")) >= 20
    assert len(of_kind("one-hop")) >= 10
    names = {path.relative_to(DATA / "sources").as_posix() for path in (DATA / "sources").rglob("*.md")}
    assert {document for grades in questions().qrels.values() for document in grades} <= names
    for query in of_kind("two-hop"):
        assert sorted(questions().qrels[query].values()) == [1, 2], "the answer, and what leads to it"
    sources = {json.loads(line)["source"] for line in (DATA / "triples.jsonl").read_text().splitlines()}
    assert sources <= names


def test_no_document_that_answers_a_question_of_two_hops_names_what_is_asked_about() -> None:
    """Else one hop would do. What is asked about is what the document on the way is called."""
    for query in of_kind("two-hop"):
        grades = questions().qrels[query]
        answer, bridge = (next(one for one, grade in grades.items() if grade == wanted) for wanted in (2, 1))
        named = (DATA / "sources" / bridge).read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        assert named in next(one.text for one in questions().queries if one.id == query)
        assert named not in (DATA / "sources" / answer).read_text(encoding="utf-8")


@pytest.mark.parametrize("half", [0, 1], ids=["even", "odd"])
def test_graph_finds_more_of_two_hops_and_no_less_of_one(world: Database, half: int) -> None:
    scope = open_scope(world, "tellmarsh", "support")
    hybrid = HybridRetriever(world)
    graph = GraphRetriever(hybrid)
    two = [query for query in of_kind("two-hop") if int(query[-3:]) % 2 == half]
    before, after = (
        sum(recall(documents(retriever, scope, query), query) for query in two) / len(two)
        for retriever in (hybrid, graph)
    )
    assert after >= 0.9
    assert after > before + 0.1
    for query in of_kind("one-hop"):
        first, second = (documents(retriever, scope, query) for retriever in (hybrid, graph))
        assert recall(second, query) >= recall(first, query), query
        assert reciprocal_rank(second, query) >= reciprocal_rank(first, query), query


def test_a_path_says_how_the_answer_was_reached(world: Database) -> None:
    scope = open_scope(world, "tellmarsh", "support")
    found = GraphRetriever(HybridRetriever(world)).search("In which town is the maker of the Ostrel gauge?", scope, 5)
    hit = next(one for one in found if one.citation["document"] == "works/calder-mott.md")
    steps = [(step["subject"], step["object"]) for step in hit.path]
    assert steps == [("Ostrel gauge", "Calder Mott"), ("Calder Mott", "Ansley Quay")]
