"""What a profile serves in Postgres, by the protocol of the other stores: isolated by the database, and read only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rag_assets.retrieval.arguments import MAX_TOP_K, check_flag, check_whole
from rag_assets.retrieval.filters import DATES, LISTS, check_filters
from rag_assets.retrieval.results import RetrievalResult, to_result
from rag_assets.retrieval.retrievers import searching
from rag_assets.retrieval.scope import RetrievalScope, open_scope, require_scope
from rag_assets.retrieval.steps import drive
from rag_assets.store.database import Database, require_database
from rag_assets.store.exported import exported_sources
from rag_assets.store.search import SearchRequest
from rag_assets.vector_stores.local import check_vector


class PostgresStore:
    """The chunks that the assets publish. There is one way in: `rag ingest`, and none around it."""

    filters = frozenset((*LISTS, *DATES, "metadata", "where"))

    def __init__(self, database: Database, *, exact: bool = False) -> None:
        """`exact` reads every vector instead of the profile's index.

        Raises:
            InvalidArgument: names the argument that is of the wrong kind.
        """
        self._database, self._exact = require_database(database), check_flag(exact, "exact")

    def scope(self, tenant: str, bot: str, user_id: str | None = None) -> RetrievalScope:
        """See `VectorStore.scope`; it raises what `open_scope` does."""
        return open_scope(self._database, tenant, bot, user_id=user_id)

    def search(
        self,
        scope: RetrievalScope,
        vector: NDArray[np.float32],
        top_k: int = 8,
        filters: Mapping[str, Any] | None = None,
    ) -> list[RetrievalResult]:
        """See `VectorStore.search`. Each copy of a text is a result."""
        require_scope(scope)
        request = SearchRequest(
            "dense", check_vector(vector, scope.profile), "", check_whole(top_k, "top_k", MAX_TOP_K),
            filters=check_filters(filters), exact=self._exact, copies=True,
        )  # fmt: skip
        return [to_result(row) for row in drive(self._database, searching(scope, request)).rows]

    def count(self, scope: RetrievalScope) -> int:
        """See `VectorStore.count`."""
        require_scope(scope)
        statement = exported_sources(scope.knowledge_space_id, scope.profile_id)
        return sum(one.chunks for one in self._database.ask(scope.settings, [statement])[0])

    def close(self) -> None:
        """Does nothing: the database is closed by whoever opened it."""
