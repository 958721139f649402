"""Retrieval without a database: results made by hand, and a retriever that has nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID, uuid4

from rag_assets.retrieval.results import Retrieval, RetrievalResult
from rag_assets.retrieval.scope import RetrievalScope
from tests.support.worlds import HASH_PROFILE

SCOPE = RetrievalScope("acme", "support", uuid4(), 1, HASH_PROFILE)
TIMINGS = {"embed": 1.0, "search": 2.0, "total": 3.0}

Search = Callable[[Any, str, RetrievalScope], Retrieval]


def blocking(retriever: Any, query: str, scope: RetrievalScope = SCOPE, **more: Any) -> Retrieval:
    found: Retrieval = retriever.search(query, scope, **more)
    return found


def awaited(retriever: Any, query: str, scope: RetrievalScope = SCOPE, **more: Any) -> Retrieval:
    async def search() -> Retrieval:
        try:
            found: Retrieval = await retriever.asearch(query, scope, **more)
            return found
        finally:
            if retriever.database is not None:
                await retriever.database.aclose()

    return asyncio.run(search())


def result(number: int, content: str = "", score: float | None = None, **fields: Any) -> RetrievalResult:
    """The passage of this number, whose source is its own."""
    return RetrievalResult(
        **{
            "chunk_id": UUID(int=number),
            "source_id": UUID(int=1000 + number),
            "source_name": f"note{number}.md",
            "score": 1 / (1 + number) if score is None else score,
            "content": content or f"passage {number}",
            "token_count": 2,
            "citation": {"start": 0, "end": len(content)},
            **fields,
        }
    )


class Fixed:
    """A retriever that knows its answer, and notes what it was asked for."""

    database = None

    def __init__(self, results: Sequence[RetrievalResult], degraded: str | None = None) -> None:
        self.results = tuple(results)
        self.degraded = degraded
        self.asked: list[tuple[str, int, Mapping[str, Any] | None]] = []

    def search(
        self, query: str, scope: RetrievalScope, top_k: int = 8, filters: Mapping[str, Any] | None = None
    ) -> Retrieval:
        self.asked.append((query, top_k, filters))
        return Retrieval(self.results[:top_k], TIMINGS, self.degraded, trace=({"stage": "fixed"},))

    async def asearch(
        self, query: str, scope: RetrievalScope, top_k: int = 8, filters: Mapping[str, Any] | None = None
    ) -> Retrieval:
        return self.search(query, scope, top_k, filters)
