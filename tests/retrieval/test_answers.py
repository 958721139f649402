"""A question is answered from what its scope holds; where that cannot be searched, plainly, and it is said so."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from rag_assets.errors import DatabaseRefused, InvalidArgument, ScopeError, UnknownBot
from rag_assets.retrieval import (
    Answer,
    CachedRetriever,
    Context,
    HybridRetriever,
    LadderRetriever,
    LexicalRetriever,
    Retrieval,
    RetrievalScope,
    SteppedRetriever,
    aanswer,
    answer,
    aopen_scope,
    check_citations,
    open_scope,
)
from rag_assets.retrieval.steps import Steps
from rag_assets.store.database import Database, ensure_database
from rag_assets.store.migrate import migrate
from rag_assets.store.profiles import add_spec
from rag_assets.store.server import start_server, stop_server
from tests.support.servers import take_down
from tests.support.worlds import HASH_PROFILE, ingested

FILES = {f"note{n}.md": f"# Note {n}\n\nThe valve of pump {n} is checked weekly." for n in range(6)}
QUERY = "the valve of pump 3"
AWAY = Database("postgresql://nobody@127.0.0.1:1/none")


@pytest.fixture(scope="module")
def world(module_database: Database, tmp_path_factory: pytest.TempPathFactory) -> Database:
    ingested(module_database, tmp_path_factory.mktemp("acme"), "acme", FILES)
    return module_database


@pytest.fixture
def scope(world: Database) -> RetrievalScope:
    return open_scope(world, "acme", "support")


def quoting(question: str, context: Context) -> str:
    """A generator that cites the first line of each passage."""
    said = [f"“{one.content.splitlines()[-1]}” [{number}]" for number, one in context.passages.items()]
    return f"{question}: {' '.join(said) or 'nobody knows'}"


async def aquoting(question: str, context: Context) -> str:
    await asyncio.sleep(0)
    return quoting(question, context)


def asked(query: Any, where: Any, generate: Any, database: Database | None = None, **settings: Any) -> Answer[str]:
    async def main() -> Answer[str]:
        try:
            return await aanswer(query, where, generate, **settings)
        finally:
            if database is not None:
                await database.aclose()

    return asyncio.run(main())


def test_an_answer_comes_with_its_passages_context_and_rung(world: Database, scope: RetrievalScope) -> None:
    settings: dict[str, Any] = {"retriever": HybridRetriever(world), "top_k": 3, "max_tokens": 500}
    said = answer(QUERY, scope, quoting, **settings)
    assert said.rung == "full"
    assert said.degraded is None
    assert list(said.passages) == [1, 2, 3] == list(said.context.passages)
    assert said.passages[1].source_name == "note3.md"
    assert [one.chunk_id for one in said.retrieval] == [one.chunk_id for one in said.passages.values()]
    assert check_citations(said.text, said.context).holds
    for generate in (quoting, aquoting, lambda question, context: aquoting(question, context)):
        for where in (
            scope,
            lambda: open_scope(world, "acme", "support"),
            lambda: aopen_scope(world, "acme", "support"),
        ):
            again = asked(QUERY, where, generate, world, **settings)
            assert (again.text, again.context, again.rung) == (said.text, said.context, said.rung)


def test_without_a_store_the_generator_answers_plainly_and_it_is_said(scope: RetrievalScope) -> None:
    settings: dict[str, Any] = {"retriever": LadderRetriever(HybridRetriever(AWAY), retries=0, limit_s=0.5)}
    for said in (answer(QUERY, scope, quoting, **settings), asked(QUERY, scope, aquoting, AWAY, **settings)):
        assert said.text == f"{QUERY}: nobody knows"
        assert (said.rung, said.context, dict(said.passages)) == ("none", Context(), {})
        assert "no context" in str(said.degraded)


@pytest.mark.slow
def test_a_scope_that_cannot_be_opened_for_want_of_a_store_is_the_same() -> None:
    settings: dict[str, Any] = {"retriever": HybridRetriever(AWAY)}
    said = answer(QUERY, lambda: open_scope(AWAY, "acme", "support"), quoting, **settings)
    assert (said.rung, said.text) == ("none", f"{QUERY}: nobody knows")
    assert "no context" in str(said.degraded)


class Ours(Exception):
    pass


def test_an_error_of_the_generator_is_the_callers_own(world: Database, scope: RetrievalScope) -> None:
    for error in (Ours("mine"), InvalidArgument("mine", "mine"), KeyboardInterrupt()):

        def fail(question: str, context: Context, error: BaseException = error) -> str:
            raise error

        with pytest.raises(type(error)) as raised:
            answer(QUERY, scope, fail, retriever=HybridRetriever(world))
        assert raised.value is error
    with pytest.raises(Ours):
        asked(QUERY, scope, lambda *_: (_ for _ in ()).throw(Ours("mine")), world, retriever=HybridRetriever(world))


def test_a_mistake_is_raised_before_the_generator_is_asked(world: Database, scope: RetrievalScope) -> None:
    calls: list[object] = []

    def note(question: str, context: Context) -> str:
        calls.append(question)
        return ""

    class Refused(SteppedRetriever):
        def steps(self, *_: Any, **__: Any) -> Steps[Retrieval]:
            raise DatabaseRefused("this login may do too much")
            yield

    right: dict[str, Any] = {"query": QUERY, "scope": scope, "generate": note, "retriever": HybridRetriever(world)}
    for wrong, error in (
        ({"scope": None}, ScopeError), ({"query": 3}, InvalidArgument), ({"generate": "x"}, InvalidArgument),
        ({"retriever": None}, InvalidArgument), ({"top_k": 0}, InvalidArgument), ({"max_tokens": 0}, InvalidArgument),
        ({"filters": {"source": 1}}, InvalidArgument), ({"per_source": 0}, InvalidArgument),
        ({"tokenizer": 1}, InvalidArgument), ({"retriever": Refused(world)}, DatabaseRefused),
        ({"scope": lambda: open_scope(world, "acme", "sales")}, UnknownBot),
    ):  # fmt: skip
        arguments = {**right, **wrong}
        with pytest.raises(error):
            answer(**arguments)
        query, where, generate = (arguments.pop(name) for name in ("query", "scope", "generate"))
        with pytest.raises(error):
            asked(query, where, generate, world, **arguments)
    assert calls == []
    with pytest.raises(InvalidArgument, match="aanswer"):
        answer(QUERY, scope, aquoting, retriever=HybridRetriever(world))


@pytest.mark.slow
@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_under_load_a_restart_of_the_database_costs_rungs_and_never_a_wrong_answer(tmp_path: Path, how: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    database = Database(ensure_database(start_server(home), "rag"))
    try:
        migrate(database)
        add_spec(database, HASH_PROFILE)
        ingested(database, tmp_path / "acme", "acme", FILES)
        _storm(database, home, how)
    finally:
        database.close()
        stop_server(home)


def _storm(database: Database, home: Path, how: str) -> None:
    scope = open_scope(database, "acme", "support")
    retriever = LadderRetriever(CachedRetriever(HybridRetriever(database)), limit_s=3)
    queries = [f"the valve of pump {n}" for n in range(6)]
    kinds = {"full": HybridRetriever, "retry": HybridRetriever, "words": LexicalRetriever}
    right = {
        (rung, query): [one.chunk_id for one in kind(database).search(query, scope)]
        for rung, kind in kinds.items()
        for query in queries
    }
    stop, faults, met = threading.Event(), [], set()

    def ask() -> None:
        while not stop.is_set():
            for query in queries:
                try:
                    said = answer(query, scope, quoting, retriever=retriever)
                except Exception as error:  # none may come
                    faults.append(repr(error))
                    return
                met.add(said.rung)
                found = [one.chunk_id for one in said.retrieval]
                if found != right.get((said.rung, query), []):
                    faults.append(f"{said.rung}: {found}")

    askers = [threading.Thread(target=ask) for _ in range(4)]
    for asker in askers:
        asker.start()
    try:
        for _ in range(2):
            stop.wait(0.5)
            take_down(home, how)
            stop.wait(1.0)
            start_server(home)
        stop.wait(1.0)
    finally:
        stop.set()
        for asker in askers:
            asker.join()
    assert faults == []
    assert {"full"} <= met <= {*kinds, "none"}
    assert answer(queries[0], scope, quoting, retriever=retriever).rung == "full"
