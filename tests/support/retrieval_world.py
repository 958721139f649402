"""What tests of retrievers around others share: one that notes what it is asked, and both faces of a search."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rag_assets.retrieval.protocol import Retriever, SteppedRetriever, database_of, steps_of
from rag_assets.retrieval.results import Retrieval
from rag_assets.retrieval.scope import RetrievalScope
from rag_assets.retrieval.steps import Steps


@dataclass
class Notes:
    """What retrievers were asked; copies of one retriever share them."""

    asked: list[tuple[str, RetrievalScope, int, Any]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def queries(self) -> set[str]:
        return {query for query, *_ in self.asked}


class Watched(SteppedRetriever):
    """Another retriever, with notes; `before` may raise instead."""

    def __init__(self, inner: Retriever, before: Callable[[str], None] = lambda query: None) -> None:
        super().__init__(database_of(inner))
        self.inner, self.before, self.notes = inner, before, Notes()

    def steps(
        self, query: str, scope: RetrievalScope, top_k: int = 8, filters: Mapping[str, Any] | None = None
    ) -> Steps[Retrieval]:
        with self.notes.lock:
            self.notes.asked.append((query, scope, top_k, filters))
        self.before(query)
        return (yield from steps_of(self.inner, query, scope, top_k, filters))


def blocking(retriever: Retriever, *arguments: Any) -> Retrieval:
    """The result of a search in this thread."""
    return retriever.search(*arguments)


def awaited(retriever: Retriever, *arguments: Any) -> Retrieval:
    """The result of a search in an event loop of its own, which leaves no connection behind."""

    async def search() -> Retrieval:
        try:
            return await retriever.asearch(*arguments)
        finally:
            database = database_of(retriever)
            if database is not None:
                await database.aclose()

    return asyncio.run(search())


Face = Callable[..., Retrieval]
