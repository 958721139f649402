"""The door to LlamaIndex, gone through with LlamaIndex."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import importlib
import json
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.base.base_selector import BaseSelector, SelectorResult, SingleSelection
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import RouterRetriever
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle
from llama_index.core.tools import RetrieverTool

from rag_assets.doors.llamaindex import RagRetriever
from rag_assets.embedding.protocol import Caller
from rag_assets.errors import DatabaseUnavailable, ScopeError, UnknownBot, UsageError
from rag_assets.retrieval import HybridRetriever, LexicalRetriever, RerankedRetriever, open_scope
from rag_assets.retrieval.rerankers.protocol import Scores
from rag_assets.store.database import Database
from rag_assets.store.erase import erase
from tests.support.door_world import ALPHA, QUESTION, SECRETS, WRONG_ARGUMENTS, fill, in_loop

TENANT: contextvars.ContextVar[str] = contextvars.ContextVar("tenant")


@pytest.fixture(scope="module")
def world(new_database: Callable[[], Database], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    database = new_database()
    fill(database, tmp_path_factory.mktemp("doors"))
    yield database
    database.close()


def of_request() -> dict[str, str]:
    return {"tenant": TENANT.get(), "bot": "support"}


def texts(nodes: list[NodeWithScore]) -> str:
    return " ".join(node.get_content() for node in nodes)


class Reversed:
    """A reranker that likes the last best."""

    name = "reversed"

    def score(self, query: str, texts: Sequence[str], caller: Caller) -> Scores:
        return Scores([(number, 0.5 + number / 100) for number in range(len(texts))])


class Second(BaseSelector):  # type: ignore[misc]
    """Always chooses the second of what it may choose from."""

    def _get_prompts(self) -> dict[str, Any]:
        return {}

    def _update_prompts(self, prompts: dict[str, Any]) -> None:
        raise AssertionError("it has none")

    def _select(self, choices: Sequence[Any], query: QueryBundle) -> SelectorResult:
        return SelectorResult(selections=[SingleSelection(index=1, reason="it is the second")])

    async def _aselect(self, choices: Sequence[Any], query: QueryBundle) -> SelectorResult:
        return self._select(choices, query)


def test_nodes_are_the_results_with_their_places_and_sources(world: Database) -> None:
    hybrid = HybridRetriever(world)
    found = hybrid.search(QUESTION, open_scope(world, **ALPHA), top_k=5)
    nodes = RagRetriever(hybrid, ALPHA, top_k=5).retrieve(QUESTION)
    assert [one.node_id for one in nodes] == [str(one.chunk_id) for one in found]
    assert [one.score for one in nodes] == [pytest.approx(one.score) for one in found]
    for node, result in zip(nodes, found, strict=True):
        assert node.text == result.content
        assert (node.node.start_char_idx, node.node.end_char_idx) == (
            result.citation["start"], result.citation["end"]
        )  # fmt: skip
        assert node.node.ref_doc_id == str(result.source_id)
        assert json.loads(json.dumps(node.metadata)) == node.metadata


def test_metadata_of_a_document_cannot_pretend_to_be_what_is_known_of_it(world: Database) -> None:
    for node in RagRetriever(HybridRetriever(world), ALPHA).retrieve(QUESTION):
        assert node.metadata["author"] == "Ann"
        assert node.metadata["score"] <= 1
        assert node.metadata["source_id"] == node.node.ref_doc_id
        assert node.metadata["space"] == "bot"


def test_a_model_is_shown_where_a_text_is_from_and_nothing_is_embedded_but_the_text(world: Database) -> None:
    node = RagRetriever(HybridRetriever(world), ALPHA).retrieve(QUESTION)[0].node
    shown = node.get_content(MetadataMode.LLM)
    assert "source: note" in shown
    assert "heading: Codes" in shown
    assert str(node.node_id) not in shown
    assert "Ann" not in shown
    assert node.get_content(MetadataMode.EMBED) == node.get_content()


def test_awaited_it_gives_the_same_and_needs_no_thread(world: Database) -> None:
    retriever = RagRetriever(HybridRetriever(world), ALPHA)
    expected = retriever.retrieve(QUESTION)
    assert in_loop(world, lambda: retriever.aretrieve(QUESTION)) == expected
    assert in_loop(world, lambda: retriever.aretrieve(QueryBundle(QUESTION))) == expected


def test_the_scores_of_reranked_results_are_those_that_ordered_them(world: Database) -> None:
    nodes = RagRetriever(RerankedRetriever(HybridRetriever(world), Reversed()), ALPHA, top_k=3).retrieve(QUESTION)
    assert [node.score for node in nodes] == [node.metadata["rerank_score"] for node in nodes]
    assert [node.score for node in nodes] == sorted((node.score for node in nodes), reverse=True)
    assert nodes[0].metadata["score"] != nodes[0].score


@pytest.mark.parametrize("face", ["threads", "tasks"])
def test_calls_side_by_side_for_two_tenants_never_mix(world: Database, face: str) -> None:
    retriever = RagRetriever(HybridRetriever(world), of_request)
    tenants = list(SECRETS) * 40

    def blocking(tenant: str) -> list[NodeWithScore]:
        TENANT.set(tenant)
        return retriever.retrieve(QUESTION)  # type: ignore[no-any-return]

    async def awaited(tenant: str) -> list[NodeWithScore]:
        TENANT.set(tenant)
        return await retriever.aretrieve(QUESTION)  # type: ignore[no-any-return]

    async def all_of_them() -> list[list[NodeWithScore]]:
        return await asyncio.gather(*(asyncio.create_task(awaited(tenant)) for tenant in tenants))

    if face == "threads":
        with ThreadPoolExecutor(8) as threads:
            found = list(threads.map(blocking, tenants))
    else:
        found = in_loop(world, all_of_them)
    for tenant, nodes in zip(tenants, found, strict=True):
        assert len(nodes) == 8
        assert {secret for secret in SECRETS.values() if secret in texts(nodes)} == {SECRETS[tenant]}


def test_a_query_engine_answers_from_it(world: Database) -> None:
    retriever = RagRetriever(HybridRetriever(world), ALPHA, top_k=2)
    engine = RetrieverQueryEngine.from_args(retriever, llm=MockLLM())
    response = engine.query(QUESTION)
    assert SECRETS["alpha"] in str(response)  # this model repeats its prompt
    assert "file_path" not in str(response)
    assert [one.node_id for one in response.source_nodes] == [one.node_id for one in retriever.retrieve(QUESTION)]


def test_it_works_with_postprocessors_and_inside_other_retrievers(world: Database) -> None:
    alpha, beta = (RagRetriever(HybridRetriever(world), {**ALPHA, "tenant": tenant}) for tenant in SECRETS)
    nodes = alpha.retrieve(QUESTION)
    cutoff = nodes[3].score
    kept = SimilarityPostprocessor(similarity_cutoff=cutoff).postprocess_nodes(nodes)
    assert kept == [node for node in nodes if node.score >= cutoff]
    tools = [
        RetrieverTool.from_defaults(alpha, name="alpha", description="of alpha"),
        RetrieverTool.from_defaults(beta, name="beta", description="of beta"),
    ]
    router = RouterRetriever(selector=Second(), retriever_tools=tools, llm=MockLLM())
    assert SECRETS["beta"] in texts(router.retrieve(QUESTION))
    assert SECRETS["alpha"] not in texts(router.retrieve(QUESTION))


def test_an_embedding_of_somebody_else_in_a_bundle_changes_nothing(world: Database) -> None:
    retriever = RagRetriever(HybridRetriever(world), ALPHA)
    bundle = QueryBundle(QUESTION, custom_embedding_strs=["other words"], embedding=[0.5] * 1536)
    assert retriever.retrieve(bundle) == retriever.retrieve(QUESTION)


def test_filters_of_the_retriever_hold(world: Database) -> None:
    nodes = RagRetriever(HybridRetriever(world), ALPHA, filters={"source_names": ["note3.md"]}).retrieve(QUESTION)
    assert {node.metadata["source"] for node in nodes} == {"note3.md"}


def test_callbacks_hear_of_a_search(world: Database) -> None:
    heard = LlamaDebugHandler(print_trace_on_end=False)
    retriever = RagRetriever(HybridRetriever(world), ALPHA, top_k=3, callback_manager=CallbackManager([heard]))
    retriever.retrieve(QUESTION)
    ((start, end),) = heard.get_event_pairs(CBEventType.RETRIEVE)
    assert start.payload == {"query_str": QUESTION}
    assert len(end.payload["nodes"]) == 3


@pytest.mark.parametrize(
    ("error", "arguments"),
    [
        *WRONG_ARGUMENTS,
        (TypeError, {"similarity_top_k": 3}),
    ],
)
def test_wrong_arguments_are_refused_when_it_is_made(
    world: Database, error: type[Exception], arguments: dict[str, Any]
) -> None:
    with pytest.raises(error):
        RagRetriever(**{"retriever": HybridRetriever(world), "scope": ALPHA, **arguments})


def test_without_a_request_nothing_is_searched(world: Database) -> None:
    retriever = RagRetriever(HybridRetriever(world), of_request)
    with pytest.raises(ScopeError, match="LookupError"):
        contextvars.Context().run(retriever.retrieve, QUESTION)
    with pytest.raises(UnknownBot):
        RagRetriever(HybridRetriever(world), {**ALPHA, "bot": "none"}).retrieve(QUESTION)


def test_a_database_that_is_down_is_a_typed_error() -> None:
    down = Database("postgresql://nobody:hidden@127.0.0.1:1/none")
    retriever = RagRetriever(HybridRetriever(down), ALPHA)
    with pytest.raises(DatabaseUnavailable) as failed:
        retriever.retrieve(QUESTION)
    assert "hidden" not in f"{failed.value} {retriever!r} {retriever}"
    with pytest.raises(DatabaseUnavailable):
        in_loop(down, lambda: retriever.aretrieve(QUESTION))
    down.close()


def test_a_scope_whose_tenant_was_erased_finds_nothing(database: Database, tmp_path: Path) -> None:
    fill(database, tmp_path)
    kept = RagRetriever(LexicalRetriever(database), open_scope(database, **ALPHA))
    assert kept.retrieve(QUESTION)
    erase(database, "alpha")
    assert kept.retrieve(QUESTION) == []
    with pytest.raises(UnknownBot):
        RagRetriever(LexicalRetriever(database), ALPHA).retrieve(QUESTION)


def test_copies_share_the_connections_and_pickles_are_refused(world: Database) -> None:
    retriever = RagRetriever(HybridRetriever(world), ALPHA)
    for copied in (copy.copy(retriever), copy.deepcopy(retriever)):
        assert copied is not retriever
        assert copied.retrieve(QUESTION) == retriever.retrieve(QUESTION)
    with pytest.raises(UsageError, match="cannot be pickled"):
        pickle.dumps(retriever)


def test_where_llamaindex_is_missing_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llama_index.core.base.base_retriever", None)
    monkeypatch.delitem(sys.modules, "rag_assets.doors.llamaindex")
    with pytest.raises(ImportError, match="pip install llama-index-core"):
        importlib.import_module("rag_assets.doors.llamaindex")
