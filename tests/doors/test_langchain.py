"""The door to LangChain, gone through with LangChain."""

from __future__ import annotations

import asyncio
import copy
import importlib
import json
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.load import dumps
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import ConfigurableField, RunnableLambda, RunnablePassthrough
from langchain_core.tools import create_retriever_tool

from rag_assets.doors.langchain import RagRetriever
from rag_assets.embedding.protocol import Caller
from rag_assets.errors import DatabaseUnavailable, InvalidArgument, ScopeError, UnknownBot, UsageError
from rag_assets.retrieval import HybridRetriever, LexicalRetriever, RerankedRetriever, aopen_scope, open_scope
from rag_assets.retrieval.rerankers.protocol import Scores
from rag_assets.store.database import Database
from rag_assets.store.erase import erase
from tests.support.door_world import ALPHA, QUESTION, SECRETS, WRONG_ARGUMENTS, fill, in_loop


@pytest.fixture(scope="module")
def world(new_database: Callable[[], Database], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    database = new_database()
    fill(database, tmp_path_factory.mktemp("doors"))
    yield database
    database.close()


def of_tenant(request: dict[str, Any]) -> dict[str, str]:
    return {"tenant": request["tenant"], "bot": "support"}


def texts(documents: list[Document]) -> str:
    return " ".join(document.page_content for document in documents)


class Heard(BaseCallbackHandler):
    """What callbacks are told, by their names."""

    run_inline = True  # LangChain uses a thread for the others

    def __init__(self) -> None:
        self.heard: list[tuple[str, Any, Any]] = []

    def on_retriever_start(self, serialized: Any, query: str, **known: Any) -> None:
        self.heard.append(("start", query, known["tags"]))

    def on_retriever_end(self, documents: Any, **known: Any) -> None:
        self.heard.append(("end", len(documents), known["tags"]))

    def on_retriever_error(self, error: BaseException, **known: Any) -> None:
        self.heard.append(("error", type(error), known["tags"]))


def test_documents_are_the_results_with_their_citations(world: Database) -> None:
    hybrid = HybridRetriever(world)
    found = hybrid.search(QUESTION, open_scope(world, **ALPHA), top_k=5)
    documents = RagRetriever(hybrid, ALPHA, top_k=5).invoke(QUESTION)
    assert [one.page_content for one in documents] == [one.content for one in found]
    assert [one.id for one in documents] == [str(one.chunk_id) for one in found]
    for document, result in zip(documents, found, strict=True):
        assert document.metadata["source"] == result.source_name
        assert document.metadata["chunk_id"] == document.id
        assert document.metadata["score"] == pytest.approx(result.score)
        assert (document.metadata["start"], document.metadata["end"]) == (
            result.citation["start"], result.citation["end"]
        )  # fmt: skip
        assert document.metadata["heading"] == "Codes"
        assert json.loads(json.dumps(document.metadata)) == document.metadata


def test_metadata_of_a_document_cannot_pretend_to_be_what_is_known_of_it(world: Database) -> None:
    for document in RagRetriever(HybridRetriever(world), ALPHA).invoke(QUESTION):
        assert document.metadata["author"] == "Ann"
        assert document.metadata["score"] <= 1
        assert document.metadata["source_id"] != "another"
        assert document.metadata["space"] == "bot"


def test_a_rerankers_score_is_told(world: Database) -> None:
    class Last:
        name = "last first"

        def score(self, query: str, texts: Sequence[str], caller: Caller) -> Scores:
            return Scores([(number, 0.5 + number / 100) for number in range(len(texts))])

    documents = RagRetriever(RerankedRetriever(HybridRetriever(world), Last()), ALPHA, top_k=3).invoke(QUESTION)
    scores = [document.metadata["rerank_score"] for document in documents]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)


def test_awaited_it_gives_the_same_and_needs_no_thread(world: Database) -> None:
    retriever = RagRetriever(HybridRetriever(world), ALPHA)
    expected = retriever.invoke(QUESTION)
    assert in_loop(world, lambda: retriever.ainvoke(QUESTION)) == expected
    assert in_loop(world, lambda: retriever.abatch([QUESTION, QUESTION])) == [expected, expected]
    assert retriever.batch([QUESTION, "valve 3"]) == [expected, retriever.invoke("valve 3")]


@pytest.mark.parametrize("face", ["threads", "tasks"])
def test_calls_side_by_side_for_two_tenants_never_mix(world: Database, face: str) -> None:
    retriever = RagRetriever(HybridRetriever(world), of_tenant)
    tenants = list(SECRETS) * 40
    configs = [{"configurable": {"tenant": tenant}} for tenant in tenants]
    if face == "threads":
        found = retriever.batch([QUESTION] * len(tenants), configs)
    else:
        found = in_loop(world, lambda: retriever.abatch([QUESTION] * len(tenants), configs))
    for tenant, documents in zip(tenants, found, strict=True):
        assert len(documents) == 8
        assert {secret for secret in SECRETS.values() if secret in texts(documents)} == {SECRETS[tenant]}


def test_a_chain_hands_the_tenant_of_its_request_down(world: Database) -> None:
    retriever = RagRetriever(HybridRetriever(world), of_tenant, top_k=2)
    prompt = ChatPromptTemplate.from_template("From:\n{context}\n\n{question}")
    seen: list[str] = []
    chain = (
        {"context": retriever | RunnableLambda(texts), "question": RunnablePassthrough()}
        | prompt
        | RunnableLambda(lambda value: seen.append(value.to_string()) or value)
        | GenericFakeChatModel(messages=iter([AIMessage("It is known.")]))
        | StrOutputParser()
    )
    assert chain.invoke(QUESTION, {"configurable": {"tenant": "beta"}}) == "It is known."
    assert SECRETS["beta"] in seen[0]
    assert SECRETS["alpha"] not in seen[0]


def test_only_a_function_of_the_application_is_told_what_a_config_says(world: Database) -> None:
    config = {"configurable": {"tenant": "beta", "bot": "support", "scope": open_scope(world, "beta", "support")}}
    for scope in (ALPHA, open_scope(world, **ALPHA), lambda request: ALPHA):
        retriever = RagRetriever(HybridRetriever(world), scope)
        for bound in (retriever, retriever.with_config(config)):
            assert SECRETS["beta"] not in texts(bound.invoke("tenant=beta " + QUESTION, config))
    with pytest.raises(InvalidArgument, match="invoke takes top_k and filters"):
        RagRetriever(HybridRetriever(world), ALPHA).invoke(QUESTION, scope=open_scope(world, "beta", "support"))


def test_a_request_that_says_too_little_is_refused_and_not_answered_wider(world: Database) -> None:
    retriever = RagRetriever(HybridRetriever(world), of_tenant)
    with pytest.raises(ScopeError, match="KeyError"):
        retriever.invoke(QUESTION)
    with pytest.raises(ScopeError, match="got NoneType"):
        RagRetriever(HybridRetriever(world), lambda request: None).invoke(QUESTION)  # type: ignore[arg-type, return-value]
    with pytest.raises(ScopeError, match="got coroutine"):
        in_loop(world, lambda: RagRetriever(HybridRetriever(world), _opened(world)).ainvoke(QUESTION))


def _opened(world: Database) -> Any:
    pending = aopen_scope(world, "alpha", "support")
    pending.close()  # it is looked at, and never awaited
    return lambda request: pending


def test_filters_of_a_call_narrow_and_never_lift_those_of_the_retriever(world: Database) -> None:
    fixed = RagRetriever(HybridRetriever(world), ALPHA, filters={"source_names": ["note3.md"]})
    assert {one.metadata["source"] for one in fixed.invoke(QUESTION)} == {"note3.md"}
    assert fixed.invoke(QUESTION, filters={"metadata": {"author": "Bob"}}) == []
    with pytest.raises(InvalidArgument, match="set by this retriever"):
        fixed.invoke(QUESTION, filters={"source_names": ["note4.md"]})
    free = RagRetriever(HybridRetriever(world), ALPHA).bind(top_k=2, filters={"source_names": ["note4.md"]})
    assert [one.metadata["source"] for one in free.invoke(QUESTION)] == ["note4.md"]
    assert len(RagRetriever(HybridRetriever(world), ALPHA).invoke(QUESTION, top_k=2)) == 2


def test_callbacks_and_tags_hear_of_a_search_and_of_its_error(world: Database) -> None:
    heard = Heard()
    retriever = RagRetriever(HybridRetriever(world), ALPHA, tags=["kb"], top_k=3)
    retriever.with_config(tags=["mine"]).invoke(QUESTION, {"callbacks": [heard]})
    in_loop(world, lambda: retriever.ainvoke(QUESTION, {"callbacks": [heard]}))
    assert [(what, value) for what, value, _ in heard.heard] == [("start", QUESTION), ("end", 3)] * 2
    assert set(heard.heard[0][2]) == {"kb", "mine"}
    with pytest.raises(UnknownBot):
        RagRetriever(HybridRetriever(world), {"tenant": "alpha", "bot": "none"}).invoke(
            QUESTION, {"callbacks": [heard]}
        )
    assert heard.heard[-1][:2] == ("error", UnknownBot)


def test_it_is_a_tool_of_an_agent(world: Database) -> None:
    tool = create_retriever_tool(
        RagRetriever(HybridRetriever(world), ALPHA, top_k=2), "handbook", "Looks up the handbook.",
        response_format="content_and_artifact",
    )  # fmt: skip
    assert set(tool.args) == {"query"}
    call = {"name": "handbook", "args": {"query": QUESTION, "tenant": "beta"}, "id": "1", "type": "tool_call"}
    message = tool.invoke(call)
    assert SECRETS["alpha"] in message.content
    assert SECRETS["beta"] not in message.content
    assert [type(one) for one in message.artifact] == [Document, Document]
    assert in_loop(world, lambda: tool.ainvoke(call)).content == message.content


@pytest.mark.parametrize(
    ("error", "arguments"),
    [
        *WRONG_ARGUMENTS,
        (TypeError, {"filter": {"source_names": ["a"]}}),
    ],
)
def test_wrong_arguments_are_refused_when_it_is_made(
    world: Database, error: type[Exception], arguments: dict[str, Any]
) -> None:
    with pytest.raises(error):
        RagRetriever(**{"retriever": HybridRetriever(world), "scope": ALPHA, **arguments})


def test_a_retriever_without_a_database_needs_one_to_open_scopes_with(world: Database) -> None:
    class Faces:
        """A retriever of somebody else, with no more than the two faces."""

        search = HybridRetriever(world).search
        asearch = HybridRetriever(world).asearch

    with pytest.raises(InvalidArgument, match="name it as database"):
        RagRetriever(Faces(), ALPHA)
    with pytest.raises(InvalidArgument, match="name it as database"):
        RagRetriever(Faces(), lambda request: ALPHA).invoke(QUESTION)
    expected = RagRetriever(HybridRetriever(world), ALPHA).invoke(QUESTION)
    assert RagRetriever(Faces(), ALPHA, database=world).invoke(QUESTION) == expected
    assert RagRetriever(Faces(), open_scope(world, **ALPHA)).invoke(QUESTION) == expected


def test_a_database_that_is_down_is_a_typed_error() -> None:
    down = Database("postgresql://nobody:hidden@127.0.0.1:1/none")
    retriever = RagRetriever(HybridRetriever(down), ALPHA)
    heard = Heard()
    with pytest.raises(DatabaseUnavailable) as failed:
        retriever.invoke(QUESTION, {"callbacks": [heard]})
    with pytest.raises(DatabaseUnavailable):
        in_loop(down, lambda: retriever.ainvoke(QUESTION))
    assert heard.heard[-1][:2] == ("error", DatabaseUnavailable)
    assert "hidden" not in str(failed.value)
    down.close()


def test_a_scope_whose_tenant_was_erased_finds_nothing(database: Database, tmp_path: Path) -> None:
    fill(database, tmp_path)
    kept = RagRetriever(LexicalRetriever(database), open_scope(database, **ALPHA))
    opened = RagRetriever(LexicalRetriever(database), ALPHA)
    assert kept.invoke(QUESTION)
    erase(database, "alpha")
    assert kept.invoke(QUESTION) == []
    with pytest.raises(UnknownBot):
        opened.invoke(QUESTION)


def test_nothing_secret_is_shown_or_written_down() -> None:
    database = Database("postgresql://somebody:hidden@127.0.0.1:1/none")
    retriever = RagRetriever(HybridRetriever(database), {**ALPHA, "user_id": "ann-private"}, tags=["kb"])
    shown = (repr(retriever), str(retriever), dumps(retriever), dumps(retriever | RunnableLambda(texts)),
             repr(retriever.with_config(tags=["x"])), str(retriever.model_dump()))  # fmt: skip
    for text in shown:
        assert "hidden" not in text
        assert "ann-private" not in text
        assert "127.0.0.1" not in text
    database.close()


def test_copies_share_the_connections_and_pickles_are_refused(world: Database) -> None:
    retriever = RagRetriever(HybridRetriever(world), ALPHA, tags=["kb"])
    for copied in (copy.copy(retriever), copy.deepcopy(retriever), copy.deepcopy([retriever])[0]):
        assert copied is not retriever
        assert copied.retriever is retriever.retriever
        assert copied.invoke(QUESTION) == retriever.invoke(QUESTION)
    with pytest.raises(UsageError, match="cannot be pickled"):
        pickle.dumps(retriever)


def test_an_application_may_open_fields_to_its_config(world: Database) -> None:
    retriever = RagRetriever(HybridRetriever(world), ALPHA).configurable_fields(top_k=ConfigurableField(id="k"))
    assert len(retriever.invoke(QUESTION, {"configurable": {"k": 2}})) == 2
    with pytest.raises(InvalidArgument):
        retriever.invoke(QUESTION, {"configurable": {"k": 0}})


def test_searching_in_many_loops_one_after_another_works(world: Database) -> None:
    retriever = RagRetriever(HybridRetriever(world), ALPHA)

    async def many() -> list[list[Document]]:
        return await asyncio.gather(*(retriever.ainvoke(f"valve {number}") for number in range(20)))

    assert in_loop(world, many) == in_loop(world, many)


def test_where_langchain_is_missing_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langchain_core.retrievers", None)
    monkeypatch.delitem(sys.modules, "rag_assets.doors.langchain")
    with pytest.raises(ImportError, match="pip install langchain-core"):
        importlib.import_module("rag_assets.doors.langchain")
