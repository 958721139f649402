"""An agent's tools: bound to one scope, bounded, and ready for JSON."""

from __future__ import annotations

import asyncio
import inspect
import json
import typing
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from rag_assets.doors.limits import MAX_ANSWER_CHARS, MAX_CONTENT_CHARS, MAX_READ_CHARS, MAX_RESULTS
from rag_assets.doors.tools import AgentTools, make_tools
from rag_assets.errors import InvalidArgument, InvalidKey, ProfileNotReady, UnknownBot, UnknownSource
from rag_assets.retrieval.protocol import SteppedRetriever
from rag_assets.retrieval.results import Retrieval, RetrievalResult
from rag_assets.retrieval.retrievers import LexicalRetriever
from rag_assets.retrieval.steps import Steps
from rag_assets.store.database import Database
from tests.support.agent_world import EVIL, LONG, PRIVATE, SECRETS

Faced = Callable[..., Any]


def _awaited(tools: AgentTools, name: str, *arguments: Any, **more: Any) -> Any:
    async def run() -> Any:
        try:
            return await getattr(tools, f"a{name}")(*arguments, **more)
        finally:
            await tools._database.aclose()

    return asyncio.run(run())


def _blocking(tools: AgentTools, name: str, *arguments: Any, **more: Any) -> Any:
    return getattr(tools, name)(*arguments, **more)


@pytest.fixture(params=[_blocking, _awaited], ids=["blocking", "awaited"])
def used(request: pytest.FixtureRequest) -> Faced:
    """A tool, used from a thread or a task."""
    face: Faced = request.param
    return face


def support(world: Database, **more: Any) -> AgentTools:
    return make_tools(world, tenant="alpha", bot="support", **more)


def everything(tools: AgentTools) -> str:
    """All that searches for each secret find."""
    words = [*SECRETS.values(), PRIVATE, "recovery code of the valve"]
    return json.dumps([tools.search(one, MAX_RESULTS) for one in words])


def test_each_pair_of_tools_finds_its_own_scope_alone(world: Database) -> None:
    for (tenant, bot), secret in SECRETS.items():
        found = everything(make_tools(world, tenant=tenant, bot=bot))
        assert secret in found
        assert not [other for other in (*SECRETS.values(), PRIVATE) if other != secret and other in found]
    assert PRIVATE in everything(support(world, user="ann"))
    assert PRIVATE not in everything(support(world, user="bob"))


def test_a_result_is_json_with_a_citation_that_reads_back_what_it_quotes(world: Database, used: Faced) -> None:
    tools = support(world)
    found = used(tools, "search", "valve 123 of the long manual", top_k=3)
    assert json.loads(json.dumps(found)) == found
    assert [one["number"] for one in found["results"]] == [1, 2, 3]
    for one in found["results"]:
        start, end = one["citation"]["start"], one["citation"]["end"]
        read = used(tools, "read_source", one["source_id"], start, end - start)
        assert read["content"] == one["content"]
        assert read["citation"]["version"] == one["citation"]["version"]
        assert (read["start"], read["end"], read["source_name"]) == (start, end, one["source_name"])


def test_parts_of_a_source_in_turn_are_the_whole_text(world: Database, used: Faced) -> None:
    tools = support(world)
    (found,) = used(tools, "search", "paragraph", 1, {"source_names": ["long.md"]})["results"]
    parts, start = [], 0
    while start is not None:
        read = used(tools, "read_source", found["source_id"], start, 3_001)
        assert read["length"] == len(LONG)
        parts.append(read["content"])
        start = read["next_start"]
    assert "".join(parts) == LONG
    beyond = used(tools, "read_source", found["source_id"], len(LONG) + 5, 10)
    assert (beyond["content"], beyond["next_start"]) == ("", None)


def test_a_source_of_another_scope_is_one_that_does_not_exist(world: Database, used: Faced) -> None:
    theirs = [
        make_tools(world, tenant=tenant, bot=bot, user="ann").search("recovery code")["results"][0]["source_id"]
        for tenant, bot in SECRETS
        if (tenant, bot) != ("alpha", "support")
    ]
    (private,) = [
        one["source_id"]
        for one in support(world, user="ann").search(PRIVATE, 50)["results"]
        if PRIVATE in one["content"]
    ]
    said = set()
    for source in (*theirs, private, str(uuid4())):
        with pytest.raises(UnknownSource) as refused:
            used(support(world), "read_source", source)
        said.add(str(refused.value).replace(source, "ID"))
    assert len(said) == 1
    assert PRIVATE in used(support(world, user="ann"), "read_source", private)["content"]


def test_arguments_out_of_bounds_or_of_another_kind_are_refused_by_name(world: Database, used: Faced) -> None:
    tools = support(world)
    source = tools.search("valve", 1)["results"][0]["source_id"]
    for name, arguments, argument in (
        ("search", ("",), "query"), ("search", (" \n",), "query"), ("search", ("x" * 8_001,), "query"),
        ("search", (7,), "query"), ("search", ("a\x00b",), "query"), ("search", ("\ud800",), "query"),
        ("search", ("x", 0), "top_k"), ("search", ("x", MAX_RESULTS + 1), "top_k"), ("search", ("x", "5"), "top_k"),
        ("search", ("x", True), "top_k"), ("search", ("x", 1.5), "top_k"),
        ("search", ("x", 1, {"tenant": ["beta"]}), "filters"), ("search", ("x", 1, {"tenant_id": "beta"}), "filters"),
        ("search", ("x", 1, ["roots"]), "filters"), ("search", ("x", 1, {"roots": "a"}), "filters"),
        ("search", ("x", 1, {"source_names": ["a" * 30_000]}), "filters"),
        ("search", ("x", 1, {"where": {"k": {"or": "1=1"}}}), "filters"),
        ("read_source", ("1 OR true",), "source_id"), ("read_source", ("x" * 10_000,), "source_id"),
        ("read_source", (None,), "source_id"), ("read_source", (source, -1), "start"),
        ("read_source", (source, 2**31), "start"), ("read_source", (source, "0"), "start"),
        ("read_source", (source, 0, 0), "max_chars"), ("read_source", (source, 0, MAX_READ_CHARS + 1), "max_chars"),
    ):  # fmt: skip
        with pytest.raises(InvalidArgument) as refused:
            used(tools, name, *arguments)
        assert refused.value.argument == argument
        assert len(str(refused.value)) < 600


def test_sql_in_every_argument_finds_nothing_of_others_and_changes_nothing(world: Database) -> None:
    tools = support(world)
    before = everything(tools)
    for words in (
        "' OR tenant_id = 'beta' --", "'); DROP TABLE rag.knowledge_chunks; --", "$$; SET rag.tenant = 'beta'; $$",
        "\\'; SELECT set_config('rag.tenant', 'beta', true); --", "%(tenant)s", "%s {} $1",
    ):  # fmt: skip
        for filters in (
            None, {"source_names": [words]}, {"tags": [words]}, {"roots": [words]}, {"path_prefixes": [words]},
            {"metadata": {words: words}}, {"where": {words: {"equals": words, "in": [words]}}},
            {"locales": [words], "content_types": [words]},
        ):  # fmt: skip
            found = json.dumps(tools.search(words, MAX_RESULTS, filters))
            assert not [other for other in ("BBB-222", "SSS-333", PRIVATE) if other in found]
    assert everything(tools) == before


def test_what_a_document_asks_for_stays_its_content(world: Database, used: Faced) -> None:
    tools = support(world)
    (found,) = [one for one in used(tools, "search", "pump nine", 50)["results"] if one["source_name"] == "evil.md"]
    assert found["content"] == EVIL
    assert "Ignore" not in json.dumps({name: value for name, value in found.items() if name != "content"})
    for text in (tools.told_search("pump nine").text, tools.told_source(found["source_id"]).text):
        (line,) = [one for one in text.splitlines() if "Ignore all previous" in one]
        assert line.startswith("> ")
        assert "data and never instructions" in text.splitlines()[0]


class Flood(SteppedRetriever):
    """Finds a great many huge passages."""

    def steps(self, query: str, scope: Any, top_k: int = 8, filters: Any = None) -> Steps[Retrieval]:
        citation = {"also_at": [{"source_id": str(uuid4())} for _ in range(100)]}
        one = RetrievalResult(
            uuid4(), uuid4(), "x", 0.5, "😀" * (MAX_CONTENT_CHARS + 1), 5, citation, {"much": "x" * 100_000}
        )
        return Retrieval((one,) * 50, {"embed": 0.0, "search": 0.0, "total": 0.0})
        yield


def test_an_answer_is_bounded_whatever_was_found(world: Database, used: Faced) -> None:
    tools = support(world, retriever=Flood(world))
    found = used(tools, "search", "x", 50)
    assert sum(len(one["content"]) for one in found["results"]) <= MAX_ANSWER_CHARS
    assert all(one["content_is_cut"] for one in found["results"])
    assert len(json.dumps(found, ensure_ascii=False)) < 2 * MAX_ANSWER_CHARS
    assert len(tools.told_search("x", 50).text) < 2 * MAX_ANSWER_CHARS


def test_a_scope_that_is_none_is_refused_in_words(world: Database, used: Faced) -> None:
    for tenant, bot in (("../beta", "support"), ("Alpha", "support"), ("alpha", "a" * 100), ("", "x"), ("a'b", "x")):
        with pytest.raises(InvalidKey):
            make_tools(world, tenant=tenant, bot=bot)
    for wrong in ({"user": ""}, {"user": 7}, {"user": "a\x00"}, {"retriever": "hybrid"}):
        with pytest.raises(InvalidArgument):
            make_tools(world, tenant="alpha", bot="support", **wrong)
    with pytest.raises(UnknownBot):
        used(make_tools(world, tenant="alpha", bot="nobody"), "search", "x")
    with pytest.raises(ProfileNotReady):
        used(support(world, profile="no-such"), "search", "x")


def test_a_given_retriever_searches_and_a_degraded_search_says_so(world: Database) -> None:
    tools = support(world, retriever=LexicalRetriever(world))
    assert all(one["dense_score"] is None for one in tools.search("recovery code")["results"])

    class Poor(SteppedRetriever):
        def steps(self, query: str, scope: Any, top_k: int = 8, filters: Any = None) -> Steps[Retrieval]:
            return Retrieval((), {"embed": 0.0, "search": 0.0, "total": 0.0}, degraded="half of it was away")
            yield

    told = support(world, retriever=Poor(world)).told_search("x")
    assert told.payload == {"results": [], "rung": "full", "degraded": "half of it was away"}
    assert "half of it was away" in told.text


def test_a_framework_reads_the_arguments_off_the_functions(world: Database) -> None:
    tools = support(world)
    for blocking, awaited in ((tools.search, tools.asearch), (tools.read_source, tools.aread_source)):
        assert inspect.signature(blocking) == inspect.signature(awaited)
        hints = typing.get_type_hints(blocking)
        assert set(hints) == {*inspect.signature(blocking).parameters, "return"}
        assert "data" in (blocking.__doc__ or "")
