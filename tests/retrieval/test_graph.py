"""A graph retriever follows triples to chunks that nothing else finds, inside its scope, and spoils nothing else."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid4, uuid5

import psycopg
import pytest

from rag_assets.errors import DatabaseFailed, InvalidArgument, ScopeError
from rag_assets.ingest.run import ingest
from rag_assets.retrieval import (
    GraphRetriever,
    HybridRetriever,
    LexicalRetriever,
    Retrieval,
    RetrievalResult,
    RetrievalScope,
    open_scope,
)
from rag_assets.retrieval.files import load_retriever
from rag_assets.retrieval.graph import interleaved
from rag_assets.store.database import Database
from rag_assets.store.triples import GraphRequest, GraphRow, graph_statement
from rag_assets.terms import prepare_names_in
from tests.support.graph_world import FILES, TRIPLES, imported
from tests.support.scopes import set_scope
from tests.support.worlds import ingested, write_files

TOWN = "In which town is the maker of the Brimble valve?"
SECRET = {"subject": "Brimble valve", "predicate": "is owned by", "object": "Quill Trust", "source": "secret.md"}


@pytest.fixture(scope="module")
def world(new_database: Callable[[], Database], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Two tenants of the same files, of which one has a triple more; and one with a second bot and a private source."""
    database = new_database()
    given = tmp_path_factory.mktemp("triples")
    for tenant, bot, files, triples in (
        ("alpha", "support", FILES, TRIPLES),
        ("alpha", "other", {**FILES, "secret.md": "The Brimble valve is owned by Quill Trust."}, (*TRIPLES, SECRET)),
        ("beta", "support", {**FILES, "secret.md": "The Brimble valve is owned by Quill Trust."}, (*TRIPLES, SECRET)),
        ("gamma", "support", {**FILES, "secret.md": "The Brimble valve is owned by Quill Trust."}, (*TRIPLES, SECRET)),
    ):
        ingested(database, tmp_path_factory.mktemp(tenant), tenant, files, bot)
        assert imported(database, given, tenant, triples, bot).errors == []
    with database.work("gamma") as connection:
        connection.execute(
            "UPDATE rag.knowledge_sources SET scope_type = 'user', scope_user_id = 'ann' WHERE name = 'secret.md'"
        )
    yield database
    database.close()


def graph(database: Database, **settings: Any) -> GraphRetriever:
    return GraphRetriever(LexicalRetriever(database), **settings)


def walked(found: Retrieval) -> Mapping[str, list[str]]:
    """Of each chunk that a path led to, by the name of its source, what the path says."""
    return {
        one.source_name: [f"{step['subject']} {step['predicate']} {step['object']}" for step in one.path]
        for one in found
        if one.path
    }


def test_a_path_leads_to_the_chunk_that_does_not_name_what_is_asked_about(world: Database) -> None:
    found = graph(world).search(TOWN, open_scope(world, "alpha", "support"), top_k=3)
    assert walked(found)["corrin.md"] == [
        "Brimble valve is made by Corrin Works", "Corrin Works has its seat in Harrowfen",
    ]  # fmt: skip
    best = next(one for one in found if one.source_name == "corrin.md")
    assert best.citation["heading"] == "Corrin Works"
    assert best.path[-1]["chunk_id"] == str(best.chunk_id)
    assert best.to_dict()["path"] == [dict(step) for step in best.path]
    assert found.trace[-1]["stage"] == "graph"
    assert {"embed", "search", "graph", "total"} <= found.timings_ms.keys()


def test_paths_are_no_longer_than_the_hops_that_are_allowed(world: Database) -> None:
    scope = open_scope(world, "alpha", "support")
    river = "river that the town of the maker of the Brimble valve lies on"
    for hops in (1, 2, 3):
        found = graph(world, max_hops=hops).search(river, scope, top_k=20)
        assert max(len(one.path) for one in found) == hops
    assert "Harrowfen lies on the river Osk" in walked(found)["harrowfen.md"]


def test_triples_are_walked_from_their_object_too(world: Database) -> None:
    found = graph(world).search("what does Corrin Works make", open_scope(world, "alpha", "support"), top_k=5)
    assert walked(found)["valve.md"] == ["Brimble valve is made by Corrin Works"]


def test_an_entity_is_met_in_other_forms_of_its_words(world: Database) -> None:
    found = graph(world).search("towns of makers of BRIMBLE Valves", open_scope(world, "alpha", "support"), top_k=5)
    assert "corrin.md" in walked(found)


def test_where_no_triple_is_met_the_answer_is_the_inner_retrievers(world: Database) -> None:
    scope = open_scope(world, "alpha", "support")
    for query in ("what moves water", "market", "", "zzz", "the of and"):
        inner, outer = (one.search(query, scope) for one in (LexicalRetriever(world), graph(world)))
        assert outer.results == inner.results


def test_what_the_inner_retriever_thinks_best_stays_the_best_and_nothing_changes_its_order(world: Database) -> None:
    scope = open_scope(world, "alpha", "support")
    for query in (TOWN, "what does Corrin Works make", "river at Harrowfen"):
        inner, outer = (one.search(query, scope, 50) for one in (LexicalRetriever(world), graph(world)))
        order = [one.chunk_id for one in inner]
        assert outer[0].chunk_id == order[0]
        unled = [one.chunk_id for one in outer if not one.path]
        assert unled == [chunk for chunk in order if chunk in unled]
        scores = {one.chunk_id: one.score for one in inner}
        assert all(one.score == scores.get(one.chunk_id, one.score) for one in outer)


def test_results_and_paths_take_turns_and_each_chunk_stands_at_its_first_place() -> None:
    inner = [result(name) for name in "abcd"]
    hits = [dataclasses.replace(result(name), path=({"subject": name},)) for name in "cxy"]
    found = interleaved(inner, hits)
    assert [one.content for one in found] == ["a", "c", "b", "x", "y", "d"]
    assert [one.content for one in found if one.path] == ["c", "x", "y"]
    copy = dataclasses.replace(hits[0], chunk_id=uuid4())
    assert [one.chunk_id for one in interleaved(inner, [copy])] == [inner[n].chunk_id for n in (0, 2, 1, 3)]


def result(name: str) -> RetrievalResult:
    return RetrievalResult(uuid5(NAMESPACE_URL, name), uuid4(), f"{name}.md", 0.5, name, 1, {})


def test_no_chunk_comes_twice_and_no_more_than_asked_for(world: Database) -> None:
    scope = open_scope(world, "alpha", "support")
    for top_k in (1, 2, 5, 50):
        found = graph(world, max_hops=3).search(TOWN, scope, top_k=top_k)
        assert len({one.chunk_id for one in found}) == len(found) <= top_k


def test_filters_hold_for_what_triples_lead_to_and_for_every_step_of_the_way(world: Database) -> None:
    scope = open_scope(world, "alpha", "support")
    ids = {one.source_name: str(one.source_id) for one in graph(world).search(TOWN, scope, top_k=20)}
    for names in (["corrin.md"], ["valve.md"], ["valve.md", "corrin.md"], []):
        found = graph(world).search(TOWN, scope, 20, {"source_ids": [ids[name] for name in names]})
        assert {one.source_name for one in found} <= set(names)
        reached = walked(found)
        assert ("corrin.md" in reached) == (len(names) == 2), "a path goes over nothing that is filtered out"
    with pytest.raises(InvalidArgument):
        graph(world).search(TOWN, scope, 5, {"source_idz": []})


@pytest.mark.parametrize("tenant", ["beta", "gamma"])
def test_triples_that_the_scope_may_not_see_lead_nowhere(world: Database, tenant: str) -> None:
    own = dataclasses.replace(open_scope(world, tenant, "support"), user_id="ann")
    query = "who owns the Brimble valve, Quill Trust"
    assert "secret.md" in walked(graph(world).search(query, own, top_k=50))
    alpha = open_scope(world, "alpha", "support")
    forged = {
        "another tenant": alpha,
        "another user": dataclasses.replace(own, user_id="bob") if tenant == "gamma" else alpha,
        "no user": dataclasses.replace(own, user_id=None) if tenant == "gamma" else alpha,
        "a tenant that was forged": dataclasses.replace(own, tenant_id="alpha"),
        "a bot that was forged": dataclasses.replace(own, bot_id="other"),
        "a profile that was forged": dataclasses.replace(alpha, profile_id=own.profile_id),
        "a space that was forged": dataclasses.replace(alpha, knowledge_space_id=own.knowledge_space_id),
        "both": dataclasses.replace(
            alpha, profile_id=own.profile_id, knowledge_space_id=own.knowledge_space_id, user_id="ann"
        ),
        "ids that are nowhere": dataclasses.replace(alpha, profile_id=10**9, knowledge_space_id=uuid4()),
    }
    for what, scope in forged.items():
        assert not [row for row in asked(world, scope, query) if "Quill" in str(row)], what


def asked(database: Database, scope: RetrievalScope, query: str) -> list[Any]:
    """Rows of the function itself, as an application that was broken into could ask it."""
    with database.connect("app") as connection:
        set_scope(connection, scope.settings)
        return connection.execute("SELECT * FROM rag.graph_search(%s, 5, 100, 1000)", (query,)).fetchall()


def test_another_bot_of_the_tenant_does_not_walk_its_triples(world: Database) -> None:
    query = "who owns the Brimble valve, Quill Trust"
    assert "Quill" not in str(asked(world, open_scope(world, "alpha", "support"), query))
    assert "Quill" in str(asked(world, open_scope(world, "alpha", "other"), query))


@pytest.mark.parametrize("user", [None, "bob"])
def test_a_private_triple_takes_no_place_in_anybody_elses_beam(world: Database, user: str | None) -> None:
    """Else the paths that are missing would tell of it."""
    scopes = open_scope(world, "alpha", "support"), open_scope(world, "gamma", "support", user_id=user)
    for query in ("who owns the Brimble valve, Quill Trust", TOWN):
        for beam in (1, 2):
            alone, beside = (
                sorted((one.source_name, one.score, told(one)) for one in graph_alone(world, scope, query, beam))
                for scope in scopes
            )
            assert alone == beside


def graph_alone(database: Database, scope: RetrievalScope, query: str, beam: int) -> list[GraphRow]:
    return database.ask(scope.settings, [graph_statement(GraphRequest(prepare_names_in(query), 2, beam, 20))])[0]


def told(row: GraphRow) -> list[str]:
    return [f"{step['subject']} {step['predicate']} {step['object']}" for step in row.path]


def test_the_app_reads_only_triples_of_its_scope(world: Database) -> None:
    scope = open_scope(world, "gamma", "support")
    with world.connect("app") as connection:
        for user, count in ((None, 4), ("bob", 4), ("ann", 5)):
            set_scope(connection, {**scope.settings, "user": user})
            assert connection.execute("SELECT count(*) FROM rag.triples").fetchone() == (count,)
        set_scope(connection, {})
        assert connection.execute("SELECT count(*) FROM rag.triples").fetchone() == (0,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT count(*) FROM rag.triple_answers")


@pytest.mark.parametrize("helper", ["named_entities", "next_hop", "chunk_of_triple", "triple_condition"])
def test_the_app_may_call_the_door_and_nothing_behind_it(world: Database, helper: str) -> None:
    with world.connect("app") as connection:
        allowed = connection.execute(
            "SELECT bool_or(has_function_privilege('rag_app', oid, 'EXECUTE')) FROM pg_proc WHERE proname = %s",
            (helper,),
        ).fetchone()
    assert allowed == (False,)


@pytest.mark.parametrize("bad", ["NULL, 2, 5, 5", "'x', 0, 5, 5", "'x', 6, 5, 5", "'x', NULL, 5, 5", "'x', 2, 101, 5",
                                 "'x', 2, 5, 0", "'x', 2, 5, 5, NULL", "'x', 2, 5, 5, '{\"no\": 1}'"])  # fmt: skip
def test_arguments_out_of_bounds_are_refused_by_the_function(world: Database, bad: str) -> None:
    with world.connect("app") as connection:
        set_scope(connection, open_scope(world, "alpha", "support").settings)
        with pytest.raises(psycopg.DataError):
            connection.execute(f"SELECT * FROM rag.graph_search({bad})")


def test_queries_that_look_like_code_find_what_their_words_say(world: Database) -> None:
    scope = open_scope(world, "alpha", "support")
    for query in ("Brimble' || valve", r"\'Brimble\' valve :* & !", "Brimble valve'; DROP TABLE rag.triples; --"):
        assert "valve.md" in walked(graph(world).search(query, scope, top_k=50))


def test_both_faces_answer_alike(world: Database) -> None:
    retriever = GraphRetriever(HybridRetriever(world))
    scope = open_scope(world, "alpha", "support")

    async def main() -> Retrieval:
        try:
            return await retriever.asearch(TOWN, scope, top_k=5)
        finally:
            await world.aclose()

    assert asyncio.run(main()).results == retriever.search(TOWN, scope, top_k=5).results


def test_triples_that_cannot_be_asked_cost_nothing_that_the_inner_retriever_found(
    world: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(GraphRetriever):
        def _walked(self, *_: Any) -> Any:
            raise DatabaseFailed("canceling statement")
            yield

    scope = open_scope(world, "alpha", "support")
    found = Broken(LexicalRetriever(world)).search(TOWN, scope)
    assert found.results == LexicalRetriever(world).search(TOWN, scope).results
    assert "triples could not be asked (canceling statement)" in str(found.degraded)


def test_what_is_wrong_with_a_graph_retriever_is_said_when_it_is_made(world: Database, tmp_path: Path) -> None:
    for settings, argument in (({"max_hops": 0}, "max_hops"), ({"beam": 101}, "beam")):
        with pytest.raises(InvalidArgument) as error:
            graph(world, **settings)
        assert error.value.argument == argument
    with pytest.raises(ScopeError):
        graph(world).search(TOWN, None)  # type: ignore[arg-type]
    file = tmp_path / "graph.toml"
    file.write_text('kind = "graph"\nmax_hops = 3\n[retriever]\nkind = "hybrid"\n', encoding="utf-8")
    assert isinstance(load_retriever(world, file), GraphRetriever)


def test_triples_of_what_all_bots_share_are_walked_too(world: Database, tmp_path: Path) -> None:
    ingest(world, "delta", "support", "hash-64", [write_files(tmp_path / "own", {"hose.md": "A hose bends."})])
    shared = write_files(tmp_path / "shared", FILES)
    ingest(world, "delta", "support", "hash-64", [shared], visibility="tenant")
    assert imported(world, tmp_path, "delta", bot="all-bots").errors == []
    found = graph(world).search(TOWN, open_scope(world, "delta", "support"), top_k=5)
    assert len(walked(found)["corrin.md"]) == 2
    assert {one.space for one in found if one.path} == {"tenant"}
