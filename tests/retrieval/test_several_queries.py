"""Several queries to one search: the best of each stays ahead of what all of them find in passing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from rag_assets.chat.protocol import ChatAnswer, ChatMessage
from rag_assets.retrieval import AgenticRetriever, Retrieval, RewritingRetriever
from rag_assets.retrieval.results import RetrievalResult
from rag_assets.retrieval.scope import RetrievalScope
from tests.support.passages import SCOPE, TIMINGS, Search, awaited, blocking, result

QUESTION, OTHER = "who makes what drives Zeta", "Omicron made by"
PASSING = [result(number) for number in range(100, 122)]  # what every query finds, from its ninth place on


def own(start: int) -> list[RetrievalResult]:
    return [result(number) for number in range(start, start + 8)]


class ByQuery:
    """A retriever with an answer for each query."""

    database = None
    answers: Mapping[str, Sequence[RetrievalResult]] = {QUESTION: own(0), OTHER: own(10)}

    def search(
        self, query: str, scope: RetrievalScope, top_k: int = 8, filters: Mapping[str, Any] | None = None
    ) -> Retrieval:
        return Retrieval((*self.answers[query], *PASSING)[:top_k], TIMINGS)

    async def asearch(
        self, query: str, scope: RetrievalScope, top_k: int = 8, filters: Mapping[str, Any] | None = None
    ) -> Retrieval:
        return self.search(query, scope, top_k, filters)


class Model:
    """Makes the other query of the question: when it is asked for parts, or for what is missing."""

    name = "of-tests"

    def __init__(self, parts: list[str], missing: list[str]) -> None:
        self.parts, self.missing = parts, missing

    def complete(
        self,
        messages: Sequence[ChatMessage],
        *,
        schema: Mapping[str, Any] | None = None,
        max_tokens: int = 1024,
        limit_s: float = 30.0,
    ) -> ChatAnswer:
        said: dict[str, Any] = {"standalone": "", "readings": [], "parts": self.parts}
        if "sufficient" in (schema or {})["properties"]:
            said = {"sufficient": not self.missing, "missing": "", "queries": self.missing}
        return ChatAnswer(text=str(said), data=said, tokens=10)


RETRIEVERS = {
    "rewriting": RewritingRetriever(ByQuery(), Model([OTHER], []), sub_queries=2),
    "agentic, in the first round": AgenticRetriever(ByQuery(), Model([OTHER], []), sub_queries=2),
    "agentic, in a further round": AgenticRetriever(ByQuery(), Model([], [OTHER]), sub_queries=0),
}


@pytest.mark.parametrize("search", [blocking, awaited])
@pytest.mark.parametrize("name", list(RETRIEVERS))
@pytest.mark.parametrize("top_k", [4, 8, 16])
def test_what_each_query_finds_first_stands_before_what_all_find_in_passing(
    search: Search, name: str, top_k: int
) -> None:
    found = [one.chunk_id.int for one in search(RETRIEVERS[name], QUESTION, SCOPE, top_k=top_k)]
    assert found[0] == 0, "what answers the question best stays the best"
    assert 10 in found, "the best of the other query is there"
    passing = [place for place, number in enumerate(found) if number >= 100]
    assert all(place > max(found.index(0), found.index(10)) for place in passing)
    assert len(found) == top_k


@pytest.mark.parametrize("search", [blocking, awaited])
def test_a_query_for_what_is_missing_does_not_push_down_what_answers_the_question(search: Search) -> None:
    found = [one.chunk_id.int for one in search(RETRIEVERS["agentic, in a further round"], QUESTION, SCOPE)]
    assert found[:3] == [0, 1, 2]
    assert found.index(10) < 8
