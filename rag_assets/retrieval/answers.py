"""An answer to a question: searched for, put into a context, and said by a generator that is the caller's own."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from rag_assets.chunking.tokenizers import DEFAULT_TOKENIZER
from rag_assets.errors import DatabaseRefused, InvalidArgument, RagError, UsageError, shown
from rag_assets.retrieval.context import Context, Tokenizer, format_retrieved_context
from rag_assets.retrieval.protocol import Retriever, require_retriever
from rag_assets.retrieval.results import Retrieval, RetrievalResult, Rung
from rag_assets.retrieval.scope import RetrievalScope

_Text = TypeVar("_Text")
Generator = Callable[[str, Context], _Text | Awaitable[_Text]]
Opened = RetrievalScope | Callable[[], RetrievalScope]
AsyncOpened = Opened | Callable[[], Awaitable[RetrievalScope]]


@dataclass(frozen=True)
class Answer(Generic[_Text]):
    """What the generator said, as it said it, and what it was given to say it from."""

    text: _Text
    context: Context
    retrieval: Retrieval

    @property
    def passages(self) -> Mapping[int, RetrievalResult]:
        """The passages of the context, by the number that they are cited by."""
        return self.context.passages

    @property
    def rung(self) -> Rung:
        """How far the search came: see `Retrieval`."""
        return self.retrieval.rung

    @property
    def degraded(self) -> str | None:
        """Why the generator was given less than was asked for."""
        return self.retrieval.degraded


def answer(
    query: str,
    scope: Opened,
    generate: Callable[[str, Context], _Text],
    *,
    retriever: Retriever,
    top_k: int = 8,
    filters: Mapping[str, Any] | None = None,
    max_tokens: int = 2000,
    tokenizer: Tokenizer = DEFAULT_TOKENIZER,
    per_source: int | None = None,
) -> Answer[_Text]:
    """Search, make a context (see `format_retrieved_context`), and ask `generate(query, context)`, once.

    `scope` is a scope, or a function that opens one: what fails there is a search that failed. Where the store cannot
    be searched, the generator is asked with an empty context; `rung` is `none` then, and `degraded` says why.

    Raises:
        InvalidArgument, ScopeError: names the argument that is out of bounds or of the wrong kind.
        UsageError, DatabaseRefused: the scope cannot be opened for this tenant and bot, or with this login.
        Exception: whatever the generator raises.
    """
    forming = _Forming(query, generate, retriever, max_tokens, tokenizer, per_source)
    try:
        opened = scope() if callable(scope) else scope
        found = retriever.search(query, opened, top_k, filters)
    except RagError as error:
        found = _nothing(error)
    context = forming.context(found)
    said = generate(query, context)
    if inspect.isawaitable(said):
        _close(said)
        raise InvalidArgument("generate is awaited: ask it with aanswer", "generate")
    return Answer(said, context, found)


async def aanswer(
    query: str,
    scope: AsyncOpened,
    generate: Generator[_Text],
    *,
    retriever: Retriever,
    top_k: int = 8,
    filters: Mapping[str, Any] | None = None,
    max_tokens: int = 2000,
    tokenizer: Tokenizer = DEFAULT_TOKENIZER,
    per_source: int | None = None,
) -> Answer[_Text]:
    """As `answer`, for tasks. `generate`, and what opens a scope, may be awaited; one that is not has a thread."""
    forming = _Forming(query, generate, retriever, max_tokens, tokenizer, per_source)
    try:
        opened = await _called(scope) if callable(scope) else scope
        found = await retriever.asearch(query, opened, top_k, filters)
    except RagError as error:
        found = _nothing(error)
    context = await asyncio.to_thread(forming.context, found)  # the first one reads the tokenizer's file
    return Answer(cast("_Text", await _called(generate, query, context)), context, found)


class _Forming:
    """What makes the context; whatever is wrong with its settings is known before anything is asked."""

    def __init__(
        self,
        query: object,
        generate: object,
        retriever: object,
        max_tokens: int,
        tokenizer: Tokenizer,
        per_source: int | None,
    ) -> None:
        if not isinstance(query, str):
            raise InvalidArgument(f"query must be a string, got {shown(query)}", "query")
        if not callable(generate):
            raise InvalidArgument(
                f"generate must be a function of query and context, got {shown(generate)}", "generate"
            )
        require_retriever(retriever, "retriever")
        self._settings: dict[str, Any] = {"tokenizer": tokenizer, "per_source": per_source}
        self._max_tokens = max_tokens
        self.context(())

    def context(self, found: Retrieval | tuple[()]) -> Context:
        return format_retrieved_context(found, self._max_tokens, **self._settings)


def _nothing(error: RagError) -> Retrieval:
    """A search that failed, unless that is the caller's mistake."""
    if isinstance(error, UsageError | DatabaseRefused):
        raise error
    timings = {"embed": 0.0, "search": 0.0, "total": 0.0}
    return Retrieval((), timings, degraded=f"no context: {error}", rung="none")


async def _called(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns, in this loop if it is a coroutine's, and else in a thread."""
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None)):  # noqa: B004
        return await function(*arguments)
    said = await asyncio.to_thread(function, *arguments)
    return await said if inspect.isawaitable(said) else said


def _close(said: object) -> None:
    """A coroutine that nobody awaits would complain."""
    if inspect.iscoroutine(said):
        said.close()
