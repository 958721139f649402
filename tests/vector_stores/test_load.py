"""What a profile serves, copied into a store: the same answers, for nobody else, and through every retriever."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rag_assets.doors.langchain import RagRetriever
from rag_assets.embedding.profiles import make_profile
from rag_assets.embedding.protocol import Caller
from rag_assets.errors import DatabaseUnavailable, InvalidArgument, ScopeError, UnknownBot
from rag_assets.ingest.run import ingest
from rag_assets.retrieval import (
    DenseRetriever,
    DualRetriever,
    RerankedRetriever,
    answer,
    format_retrieved_context,
    open_scope,
)
from rag_assets.retrieval.rerankers.protocol import Scores
from rag_assets.store.database import Database
from rag_assets.store.tenants import SHARED_BOT
from rag_assets.vector_stores.load import load
from rag_assets.vector_stores.memory import MemoryStore
from rag_assets.vector_stores.postgres import PostgresStore
from rag_assets.vector_stores.protocol import WritableStore
from rag_assets.vector_stores.retriever import StoreRetriever
from tests.support.door_world import QUESTION, SECRETS, fill
from tests.support.retrieval_world import Face, awaited, blocking
from tests.support.store_world import local_store
from tests.support.worlds import ingested, write_files

QUESTIONS = (QUESTION, "valve 7", "nothing like it", "the")


@pytest.fixture(scope="module")
def world(new_database: Callable[[], Database], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Two tenants; and alpha's bots share a note."""
    database = new_database()
    folder = tmp_path_factory.mktemp("load")
    fill(database, folder)
    ingested(database, folder / "shared", "alpha", {"all.md": "The valves of all houses are red."}, SHARED_BOT)
    yield database
    database.close()


@pytest.fixture(params=["memory", "sqlite", "chroma"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[WritableStore]:
    made = local_store(request.param, tmp_path)
    yield made
    made.close()


def plain(found: Sequence[Any]) -> list[dict[str, Any]]:
    return [{**one.to_dict(), "score": round(one.score, 4), "dense_score": None} for one in found]


def by_score(found: Sequence[Any]) -> list[dict[str, Any]]:
    """Equals in one order, whose scores may differ beyond the digits that are compared."""
    return sorted(plain(found), key=lambda one: (-one["score"], one["chunk_id"]))


@pytest.mark.parametrize("face", [blocking, awaited])
def test_a_copy_answers_as_postgres_does(world: Database, store: WritableStore, face: Face) -> None:
    scope = open_scope(world, "alpha", "support")
    report = load(world, scope, store)
    assert (report.sources, report.chunks, report.removed) == (13, 13, 0)
    for question in QUESTIONS:
        expected = DenseRetriever(world, copies=True).search(question, scope, top_k=1000)
        for one in (store, PostgresStore(world)):
            found = face(StoreRetriever(one), question, scope, 1000)
            assert by_score(found) == by_score(expected)
            assert set(found.timings_ms) == {"embed", "search", "total"}
    assert face(StoreRetriever(store), "  ", scope).degraded == "the query is empty"


def test_a_copy_needs_no_database_any_more(world: Database, store: WritableStore) -> None:
    load(world, open_scope(world, "alpha", "support"), store)
    scope = store.scope("alpha", "support")
    assert scope == replace(open_scope(world, "alpha", "support"), dense_weight=None, shared=scope.shared)
    assert scope.shared is not None
    retriever = RagRetriever(StoreRetriever(store), lambda request: store.scope("alpha", "support"), top_k=50)
    documents = retriever.invoke(QUESTION)
    assert {one.metadata["space"] for one in documents} == {"bot", "tenant"}
    assert {secret for secret in SECRETS.values() if secret in str(documents)} == {SECRETS["alpha"]}


def test_tenants_copied_into_one_store_do_not_mix(world: Database, store: WritableStore) -> None:
    for tenant in SECRETS:
        load(world, open_scope(world, tenant, "support"), store)
    for tenant, secret in SECRETS.items():
        for scope in (open_scope(world, tenant, "support"), store.scope(tenant, "support")):
            contents = " ".join(one.content for one in StoreRetriever(store).search(QUESTION, scope, top_k=1000))
            assert {one for one in SECRETS.values() if one in contents} == {secret}
    with pytest.raises(UnknownBot):
        store.scope("alpha", "sales")


def test_a_copy_made_again_follows_what_has_changed(database: Database, tmp_path: Path, store: WritableStore) -> None:
    files = {f"note{n}.md": f"The code of the valve {n} is one." for n in range(4)}
    ingested(database, tmp_path / "root", "acme", files)
    scope = open_scope(database, "acme", "support")
    assert load(database, scope, store) == load(database, scope, store)
    write_files(tmp_path / "root", {"note0.md": "The code of the valve 0 is another now."})
    (tmp_path / "root" / "note1.md").unlink()
    ingest(database, "acme", "support", "hash-64")
    report = load(database, scope, store)
    assert (report.sources, report.removed) == (3, 1)
    found = StoreRetriever(store).search(QUESTION, scope, top_k=100)
    assert by_score(found) == by_score(DenseRetriever(database, copies=True).search(QUESTION, scope, top_k=100))
    assert {one.source_name for one in found} == {"note0.md", "note2.md", "note3.md"}


def test_nothing_is_copied_that_the_scope_may_not_see(database: Database, tmp_path: Path) -> None:
    ingested(database, tmp_path / "root", "acme", {"all.md": "The valve is red.", "ann.md": "The valve is Ann's."})
    with database.work("acme", "support") as connection:
        connection.execute(
            "UPDATE rag.knowledge_sources SET scope_type = 'user', scope_user_id = 'ann' WHERE name = 'ann.md'"
        )
    for user, expected in ((None, {"all.md"}), ("bob", {"all.md"}), ("ann", {"all.md", "ann.md"})):
        store = MemoryStore()
        load(database, open_scope(database, "acme", "support", user_id=user), store)
        scope = store.scope("acme", "support", "ann")
        assert {one.source_name for one in StoreRetriever(store).search("valve", scope)} == expected
        assert {one.source_name for one in StoreRetriever(store).search("valve", replace(scope, user_id=None))} == {
            "all.md"
        }


def test_a_scope_that_fits_nothing_copies_nothing(world: Database, store: WritableStore) -> None:
    scope = open_scope(world, "beta", "support")
    other = open_scope(world, "alpha", "support")
    forged = replace(other, tenant_id="beta", shared=None)
    assert load(world, forged, store).sources == 0
    with pytest.raises(ScopeError):
        load(world, None, store)  # type: ignore[arg-type]
    changed = make_profile(name="hash-64", provider="hash", model="hash", dimensions=32)
    with pytest.raises(ScopeError, match="two models could meet"):
        load(world, replace(scope, profile=changed), store)
    down = Database("postgresql://127.0.0.1:1/none")
    with pytest.raises(DatabaseUnavailable):
        load(down, scope, store)
    down.close()


def test_what_goes_through_retrievers_goes_through_stores(world: Database, store: WritableStore) -> None:
    class Longest:
        name = "longest"

        def score(self, query: str, texts: Sequence[str], caller: Caller) -> Scores:
            return Scores([(number, len(text) / 1000) for number, text in enumerate(texts)])

    scope = open_scope(world, "alpha", "support")
    load(world, scope, store)
    inner = StoreRetriever(store)
    found = RerankedRetriever(inner, Longest()).search(QUESTION, scope, top_k=3)
    assert all(one.rerank_score is not None for one in found)
    both = DualRetriever(inner, DenseRetriever(world)).search(QUESTION, scope, top_k=3)
    assert {one.index for one in both} <= {"primary", "secondary", "both"}
    context = format_retrieved_context(found)
    assert SECRETS["alpha"] in context.text
    said = answer(QUESTION, scope, lambda question, given: given, retriever=inner)
    assert SECRETS["alpha"] in str(said)


def test_only_a_store_makes_a_retriever() -> None:
    with pytest.raises(InvalidArgument, match="must be a store"):
        StoreRetriever("memory")  # type: ignore[arg-type]
