"""A retriever that looks at what it found, and searches again for what is missing: in rounds, within a budget."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict

from rag_assets.chat.forms import DATA_RULE, data_block
from rag_assets.chat.protocol import ChatMessage, ChatModel, check_chat, check_limit_s
from rag_assets.retrieval.arguments import MAX_TOP_K, check_whole
from rag_assets.retrieval.asking import Heard, ask_chat, prompt_tokens
from rag_assets.retrieval.beside import Search, Searched, degraded, taken, traces
from rag_assets.retrieval.fusion import fused
from rag_assets.retrieval.protocol import Retriever, SteppedRetriever, checked, database_of, require_retriever, steps_of
from rag_assets.retrieval.queries import (
    MAX_CHARS,
    Rewritten,
    Wanted,
    check_sub_queries,
    conversation,
    fresh,
    prompt_size,
    rewritten,
    same,
)
from rag_assets.retrieval.reranked import passage_text
from rag_assets.retrieval.results import Retrieval, RetrievalResult, best_rung
from rag_assets.retrieval.rewriting import AS_IT_WAS
from rag_assets.retrieval.scope import RetrievalScope
from rag_assets.retrieval.steps import Branch, Steps, together

MAX_ROUNDS = 10
MAX_BUDGET = 1_000_000
_SHOWN = 8  # passages, and characters of each, that the model judges by
_SHOWN_CHARS = 1500
_QUERIES = 3  # of one further round
# What a further round's query counts beside those of the first: it asks for what is missing, by a model's guess, and
# must not push down what answers the question itself.
_FURTHER = 0.5
_ANSWER_TOKENS = 1024  # of one answer; below the least there is no room for one
_LEAST_TOKENS = 64
_LEAST_S = 0.05
_MISSING_CHARS = 300


class _Verdict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    sufficient: bool
    missing: str
    queries: list[str]


class AgenticRetriever(SteppedRetriever):
    """Searches for a query and what a chat model makes of it, has the model judge whether the passages answer it, and
    searches again for what is missing: until they do, or rounds, time or tokens are used up, or the model fails or has
    no new query. What was found by then is the answer.

    The model decides on texts of queries and on when to stop, and nothing else: scope, filters and `top_k` are the
    caller's. The best half of what the first round found always stays, whatever later ones find.
    """

    def __init__(
        self,
        retriever: Retriever,
        chat: ChatModel,
        *,
        max_rounds: int = 3,
        limit_s: float = 20.0,
        max_tokens: int = 12_000,
        sub_queries: int = 2,
        candidates: int = 30,
    ) -> None:
        """`max_rounds` (1 to 10) of searches; with one, nothing is judged. After `limit_s` seconds nothing but the
        query itself is waited for; `max_tokens` is what the model may read and write in all of them, by its server's
        count as far as that has one. The first round splits the query into at most `sub_queries` parts (0 to 8); each
        query finds `candidates` chunks, or `top_k`.

        Raises:
            InvalidArgument: names the argument that is out of bounds or of the wrong kind.
        """
        super().__init__(database_of(require_retriever(retriever, "retriever")))
        self._retriever, self._chat = retriever, check_chat(chat)
        self._max_rounds = check_whole(max_rounds, "max_rounds", MAX_ROUNDS)
        self._limit_s = check_limit_s(limit_s)
        self._max_tokens = check_whole(max_tokens, "max_tokens", MAX_BUDGET)
        self._sub_queries = check_sub_queries(sub_queries)
        self._candidates = check_whole(candidates, "candidates", MAX_TOP_K)

    def steps(
        self, query: str, scope: RetrievalScope, top_k: int = 8, filters: Mapping[str, Any] | None = None
    ) -> Steps[Retrieval]:
        """See `Retriever.steps`."""
        query, top_k, filters = checked(query, scope, top_k, filters)
        if not query.strip():
            return (yield from steps_of(self._retriever, query, scope, top_k, filters))
        search = Search(self._retriever, scope, max(self._candidates, top_k), filters)
        hunt = _Hunt(query, search, time.perf_counter() + self._limit_s, self._max_tokens)
        yield from self._first_round(hunt)
        while not hunt.stopped:
            if len(hunt.rounds) == self._max_rounds:
                hunt.stopped = "rounds"
                break
            verdict = yield from self._judged(hunt)
            if verdict is not None:
                yield from hunt.further(verdict.queries)
        return hunt.result(top_k, self._chat.name)

    def _first_round(self, hunt: _Hunt) -> Steps[None]:
        """The query as it was, and beside it what a model makes of it."""
        wanted = Wanted(bool(self.history), False, self._sub_queries)
        began = time.perf_counter()
        allowed = hunt.allowance(prompt_size(hunt.query, self.history, wanted)) if wanted else 0
        branches = [Branch(hunt.search.steps(hunt.query))]
        if allowed:
            branches.append(Branch(rewritten(self._chat, hunt.query, self.history, wanted, allowed, hunt.left_s)))
        first, *made = yield from together(*branches)
        first.get()
        hunt.groups.append([Searched(hunt.query, first)])
        others: list[Searched] = []
        queries: Rewritten | None = made[0].get() if made else None
        if queries is not None:
            hunt.spend(queries.tokens, queries.ms)
            hunt.standalone, hunt.failure = queries.standalone, queries.error
            hunt.seen |= {same(one) for one in queries.queries}
            others = yield from hunt.beside(queries.queries)
        hunt.note([hunt.searches[0], *others], began, queries.tokens if queries else 0)
        hunt.stopped = hunt.stopped or ("model" if hunt.failure else None)

    def _judged(self, hunt: _Hunt) -> Steps[_Verdict | None]:
        """What the model thinks of the passages; None where that ends the search."""
        messages = _messages(hunt.query, self.history, [one.query for one in hunt.searches], hunt.passages)
        allowed = hunt.allowance(prompt_tokens(messages, _Verdict))
        if not allowed:
            return None
        began = time.perf_counter()
        heard: Heard[_Verdict] = yield from ask_chat(self._chat, messages, _Verdict, allowed, hunt.left_s)
        took = 1000 * (time.perf_counter() - began)
        hunt.spend(heard.tokens, took)
        verdict, last = heard.form, hunt.rounds[-1]
        last["tokens"] += heard.tokens
        last["ms"] += took
        if verdict is None or any(len(text) > MAX_CHARS for text in verdict.queries):
            hunt.failure = heard.error or f"{self._chat.name} made a query of more than {MAX_CHARS} characters"
            hunt.stopped = "model"
            return None
        last["judged"] = {"sufficient": verdict.sufficient, "missing": verdict.missing[:_MISSING_CHARS]}
        if verdict.sufficient:
            hunt.stopped = "sufficient"
            return None
        return verdict


@dataclass
class _Hunt:
    """One search through its rounds: what was asked and found, and what is left of time (seconds) and tokens."""

    query: str
    search: Search
    deadline: float
    tokens_left: int
    groups: list[list[Searched]] = field(default_factory=list)  # each ran side by side
    rounds: list[dict[str, Any]] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    standalone: str | None = None
    stopped: str | None = None
    failure: str | None = None
    spent: int = 0
    thought_ms: float = 0.0
    first: tuple[RetrievalResult, ...] = ()
    began: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        self.seen.add(same(self.query))

    @property
    def searches(self) -> list[Searched]:
        return [one for group in self.groups for one in group]

    @property
    def left_s(self) -> float:
        return max(_LEAST_S, self.deadline - time.perf_counter())

    @property
    def is_late(self) -> bool:
        return self.deadline - time.perf_counter() < _LEAST_S

    def allowance(self, prompt: int) -> int:
        """How many tokens an answer to a prompt of so many may have; 0 where the budget is used up, which ends it."""
        room = min(_ANSWER_TOKENS, self.tokens_left - prompt)
        if self.is_late:
            self.stopped = "time"
        elif room < _LEAST_TOKENS:
            self.stopped = "tokens"
        return 0 if self.stopped else room

    def spend(self, tokens: int, ms: float) -> None:
        self.tokens_left -= tokens
        self.spent += tokens
        self.thought_ms += ms

    def further(self, queries: Sequence[str]) -> Steps[None]:
        """A round for those of the queries that were not searched for; none of them ends it."""
        new = fresh(queries, self.seen)[:_QUERIES]
        if not new:
            self.stopped = "no new query"
            return
        began = time.perf_counter()
        searches = yield from self.beside(new)
        if searches:
            self.note(searches, began, 0)

    def beside(self, queries: Sequence[str]) -> Steps[list[Searched]]:
        """What the queries found; nothing where the time is up, which ends it."""
        if queries and self.is_late:
            self.stopped = "time"
            return []
        found = yield from self.search.beside(queries, self.left_s)
        self.groups.append(found)
        return found

    def note(self, searches: Sequence[Searched], began: float, tokens: int) -> None:
        """Write down a round."""
        known = {chunk for one in self.rounds for chunk in one["chunks"]}
        chunks = {one.chunk_id for searched in searches if searched.found for one in searched.found} - known
        ms = 1000 * (time.perf_counter() - began)
        told = [one.told for one in searches]
        self.rounds.append({"searches": told, "chunks": chunks, "judged": None, "tokens": tokens, "ms": ms})
        if len(self.rounds) == 1:
            self.first = self.passages

    @property
    def passages(self) -> tuple[RetrievalResult, ...]:
        """What all rounds found so far, best first."""
        lists = [one.found.results if one.found else () for one in self.searches]
        first = len(self.rounds[0]["searches"]) if self.rounds else len(self.searches)
        weights = [1.0] * first + [_FURTHER] * (len(lists) - first)
        return fused(lists, [AS_IT_WAS if self.standalone else 1.0, *weights[1:]])

    def result(self, top_k: int, model: str) -> Retrieval:
        every = self.passages
        stay = {one.chunk_id for one in self.first[: (top_k + 1) // 2]}
        more = [one.chunk_id for one in every if one.chunk_id not in stay][: top_k - len(stay)]
        chosen = stay.union(more)
        told: dict[str, object] = {
            "stage": "agentic",
            "model": model,
            "query": self.query,
            "rounds": self._told_rounds(),
        }
        told |= {"stopped": self.stopped, "tokens": self.spent}
        told |= {"standalone": self.standalone} if self.standalone else {}
        told |= {"error": self.failure} if self.failure else {}
        took = taken(self.groups)
        return Retrieval(
            tuple(one for one in every if one.chunk_id in chosen),
            {**took.timings_ms, "agentic": self.thought_ms, "total": 1000 * (time.perf_counter() - self.began)},
            degraded(self.searches, self._poorer()),
            took.usage,
            (told, *traces(self.searches)),
            best_rung(*(one.found.rung for one in self.searches if one.found)),
        )

    def _poorer(self) -> str | None:
        """Why less was searched for than might have been."""
        if self.stopped not in ("model", "time", "tokens"):
            return None
        why = self.failure or f"no {self.stopped} left"
        return f"the search ended after round {len(self.rounds)} ({why})"

    def _told_rounds(self) -> list[dict[str, Any]]:
        return [
            {"round": number, **one, "chunks": len(one["chunks"])} for number, one in enumerate(self.rounds, start=1)
        ]


def _messages(
    query: str, history: Sequence[ChatMessage], queries: Sequence[str], passages: Sequence[RetrievalResult]
) -> list[ChatMessage]:
    rules = (
        "You judge what a search in documents has found for a question. Do not answer the question.",
        DATA_RULE,
        "`sufficient`: whether the passages hold all that a full answer needs.",
        "`missing`: what they lack, in a few words; empty where they are sufficient.",
        f"`queries`: at most {_QUERIES} short queries that would find what is missing, in the question's language and "
        "with names that the passages have told; none that was searched for; none where nothing more can be found.",
    )
    shown = [passage_text(one)[:_SHOWN_CHARS] for one in passages[:_SHOWN]]
    before = f"{conversation(history)}\n\n" if history else ""
    asked = (
        f"{before}The question:\n{data_block([query])}\n\nSearched for:\n{data_block(queries)}\n\n"
        f"The passages, best first:\n{data_block(shown)}"
    )
    return [ChatMessage("system", "\n".join(rules)), ChatMessage("user", asked)]
