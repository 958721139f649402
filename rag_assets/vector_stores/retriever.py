"""A retriever over a store, so that everything that goes through a retriever works over each."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from rag_assets.embedding.origins import check_origin
from rag_assets.embedding.protocol import Caller
from rag_assets.errors import InvalidArgument, shown
from rag_assets.retrieval.protocol import SteppedRetriever, checked
from rag_assets.retrieval.results import Retrieval
from rag_assets.retrieval.scope import RetrievalScope
from rag_assets.retrieval.spaces import in_each_space
from rag_assets.retrieval.steps import Steps, call, embed
from rag_assets.vector_stores.protocol import VectorStore


class StoreRetriever(SteppedRetriever):
    """By the similarity of vectors, in any store. Made once; its scopes are those of the store, or of the database
    that the store was loaded from."""

    def __init__(self, store: VectorStore) -> None:
        """
        Raises:
            InvalidArgument: it is no store.
        """
        if not all(callable(getattr(store, name, None)) for name in ("search", "scope", "count")):
            raise InvalidArgument(f"store must be a store, got {shown(store)}", "store")
        super().__init__(None, "dense")
        self.store = store

    def steps(
        self, query: str, scope: RetrievalScope, top_k: int = 8, filters: Mapping[str, Any] | None = None
    ) -> Steps[Retrieval]:
        """See `Retriever.steps`."""
        query, top_k, filters = checked(query, scope, top_k, filters)
        return (yield from in_each_space(scope, lambda one: self._in_space(query, one, top_k, filters), top_k))

    def _in_space(self, query: str, scope: RetrievalScope, top_k: int, filters: Mapping[str, Any]) -> Steps[Retrieval]:
        if not query.strip():
            return Retrieval((), {"embed": 0.0, "search": 0.0, "total": 0.0}, degraded="the query is empty")
        started = time.perf_counter()
        whose = f"profile {scope.profile.name!r} of {scope.tenant_id}/{scope.bot_id}"
        check_origin(whose, scope.origin, scope.profile.origin)
        embedded = yield from embed(scope.profile, query, Caller(scope.tenant_id, scope.bot_id))
        searched = time.perf_counter()
        found = yield from call(lambda: self.store.search(scope, embedded.vectors[0], top_k, filters))
        ended = time.perf_counter()
        timings = {
            "embed": 1000 * (searched - started),
            "search": 1000 * (ended - searched),
            "total": 1000 * (ended - started),
        }
        return Retrieval(tuple(found), timings, usage=embedded.usage)
