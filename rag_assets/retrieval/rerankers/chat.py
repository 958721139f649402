"""A chat model as a reranker: one request shows it all candidates, and asks how well each answers the query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from rag_assets.chat.forms import DATA_RULE, data_block, read_form, schema_of
from rag_assets.chat.protocol import (
    MAX_LIMIT_S,
    MAX_TOKENS,
    ChatAnswer,
    ChatMessage,
    ChatModel,
    check_chat,
)
from rag_assets.embedding.protocol import Caller, Usage
from rag_assets.retrieval.rerankers.protocol import Scores

_BEST = 10
_MOST_CHARS = 2_000  # of a passage
_TOKENS, _TOKENS_EACH = 2_048, 32  # of the answer: thoughts, and an object for each passage
_RULE = (
    f"You judge how well passages answer a query. The first block holds the query, the second the numbered passages. "
    f"Give each passage a relevance from 0 (of something else) to {_BEST} (answers the query in full), by its number. "
    f"{DATA_RULE}"
)


class _Judged(BaseModel):
    model_config = ConfigDict(extra="forbid")

    passage: int
    relevance: float


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")

    judged: list[_Judged]


class ChatReranker:
    """Scores by a chat model's judgement from 0 to 10, as tenths. Passages are shown to it up to 2,000 characters, as
    data: what they tell it to do is not done."""

    def __init__(self, chat: ChatModel) -> None:
        """`chat`: any chat model.

        Raises:
            InvalidArgument: it is none.
        """
        self._chat = check_chat(chat)
        self._acomplete: Any = getattr(chat, "acomplete", None)
        if callable(self._acomplete):
            self.ascore = self._ascore

    @property
    def name(self) -> str:
        """See `Reranker.name`."""
        return f"chat_reranker/{self._chat.name}"

    def score(self, query: str, texts: Sequence[str], caller: Caller) -> Scores:
        """See `Reranker.score`.

        Raises:
            ChatError: the model gave no judgement that can be used.
        """
        return _scores(self._chat.complete(_messages(query, texts), **_bounds(texts, caller)), caller)

    async def _ascore(self, query: str, texts: Sequence[str], caller: Caller) -> Scores:
        return _scores(await self._acomplete(_messages(query, texts), **_bounds(texts, caller)), caller)


def _messages(query: str, texts: Sequence[str]) -> list[ChatMessage]:
    passages = (f"[{number}] {text[:_MOST_CHARS]}" for number, text in enumerate(texts, start=1))
    return [ChatMessage("system", _RULE), ChatMessage("user", f"{data_block([query])}\n\n{data_block(passages)}")]


def _bounds(texts: Sequence[str], caller: Caller) -> dict[str, Any]:
    limit_s = MAX_LIMIT_S if caller.wait_s is None else min(MAX_LIMIT_S, caller.wait_s)
    max_tokens = min(MAX_TOKENS, _TOKENS + _TOKENS_EACH * len(texts))
    return {"schema": schema_of(_Answer), "max_tokens": max_tokens, "limit_s": limit_s}


def _scores(answer: ChatAnswer, caller: Caller) -> Scores:
    judged = read_form(answer, _Answer).judged
    return Scores(
        [(one.passage - 1, one.relevance / _BEST) for one in judged],
        Usage(caller.tenant, caller.bot, 1, answer.tokens),
    )
