"""Better queries for a search, by a chat model: one that stands for itself after a conversation, readings, parts."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

from rag_assets.chat.forms import DATA_RULE, data_block
from rag_assets.chat.protocol import ChatMessage, ChatModel
from rag_assets.retrieval.arguments import check_whole, clean_query
from rag_assets.retrieval.asking import ask_chat, prompt_tokens
from rag_assets.retrieval.steps import Steps

MAX_CHARS = 1000  # of a rewritten query: what is longer is an answer
_READINGS = 2
_TURN_CHARS = 2000


def check_sub_queries(value: object) -> int:
    """`value` if it is a whole number from 0 to 8.

    Raises:
        InvalidArgument: it is none.
    """
    return 0 if value == 0 and not isinstance(value, bool) else check_whole(value, "sub_queries", 8)


class _Queries(BaseModel):
    model_config = ConfigDict(extra="forbid")
    standalone: str
    readings: list[str]
    parts: list[str]


@dataclass(frozen=True)
class Wanted:
    """What is to be made of a query: one that stands for itself where turns went before, other readings of it where it
    is ambiguous, and its parts, at most so many."""

    compress: bool
    clarify: bool
    sub_queries: int

    def __bool__(self) -> bool:
        return self.compress or self.clarify or self.sub_queries > 0


@dataclass(frozen=True)
class Rewritten:
    """Queries beside the one that was asked, without that one. `standalone` says it with what the turns before have
    told; `told` is what the trace says; `error` why there are none."""

    standalone: str | None
    others: tuple[str, ...]
    tokens: int
    ms: float
    error: str | None
    told: Mapping[str, Any]

    @property
    def queries(self) -> tuple[str, ...]:
        return (*((self.standalone,) if self.standalone else ()), *self.others)


def prompt_size(query: str, history: Sequence[ChatMessage], wanted: Wanted) -> int:
    """An estimate of the tokens that a model reads for this."""
    return prompt_tokens(_messages(query, history, wanted), _Queries)


def rewritten(
    chat: ChatModel, query: str, history: Sequence[ChatMessage], wanted: Wanted, max_tokens: int, limit_s: float
) -> Steps[Rewritten]:
    """What a model makes of a query; nothing where it fails, is late, or says what is no query."""
    started = time.perf_counter()
    heard = yield from ask_chat(chat, _messages(query, history, wanted), _Queries, max_tokens, limit_s)
    said, error = heard.form, heard.error
    if said is not None and any(len(text) > MAX_CHARS for text in (said.standalone, *said.readings, *said.parts)):
        said, error = None, f"{chat.name} made a query of more than {MAX_CHARS} characters"
    seen = {same(query)}
    standalone = next(iter(fresh([said.standalone] if said and wanted.compress else [], seen)), None)
    readings = fresh(said.readings if said and wanted.clarify else [], seen)[:_READINGS]
    parts = fresh(said.parts if said else [], seen)[: wanted.sub_queries]
    ms = 1000 * (time.perf_counter() - started)
    told: dict[str, Any] = {"model": chat.name, "query": query, "tokens": heard.tokens, "ms": ms}
    given: dict[str, Any] = {
        "standalone": standalone,
        "readings": list(readings),
        "sub_queries": list(parts),
        "error": error,
    }
    told |= {name: value for name, value in given.items() if value}
    return Rewritten(standalone, (*readings, *parts), heard.tokens, ms, error, told)


def fresh(texts: Iterable[str], seen: set[str]) -> tuple[str, ...]:
    """Those of the texts that are queries and were not seen, on one line each; they are seen then."""
    found = []
    for text in texts:
        query = " ".join(clean_query(text).split())
        if query and same(query) not in seen:
            seen.add(same(query))
            found.append(query)
    return tuple(found)


def same(query: str) -> str:
    """Equal for queries that differ in nothing that a search would tell apart."""
    return " ".join(query.casefold().split())


def conversation(history: Sequence[ChatMessage]) -> str:
    """The turns before, as data."""
    return "The conversation before, oldest turn first:\n" + data_block(
        f"{turn.role}: {turn.text[:_TURN_CHARS]}" for turn in history
    )


def _messages(query: str, history: Sequence[ChatMessage], wanted: Wanted) -> list[ChatMessage]:
    rules = [
        "You prepare queries for a search in documents. Do not answer the question. Keep the question's language, and "
        "its names, numbers and identifiers letter by letter.",
        DATA_RULE,
        "`standalone`: the question in one sentence that is understood without the conversation before."
        if wanted.compress
        else "`standalone`: leave it empty.",
        f"`readings`: where the question can mean different things, at most {_READINGS} others of them, each a full "
        "question; else none."
        if wanted.clarify
        else "`readings`: none.",
        f"`parts`: where the question asks for several things, or for one that must be found by way of another, at "
        f"most {wanted.sub_queries} simpler questions, each understood without the others; else none."
        if wanted.sub_queries
        else "`parts`: none.",
    ]
    before = f"{conversation(history)}\n\n" if history else ""
    return [
        ChatMessage("system", "\n".join(rules)),
        ChatMessage("user", f"{before}The question:\n{data_block([query])}"),
    ]
