"""The one statement that retrieval sends: a call of rag.search under a scope."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from rag_assets.store.database import Connection, set_scope
from rag_assets.store.sql import query

Mode = Literal["dense", "lexical", "hybrid"]
Fusion = Literal["minmax", "rrf"]


@dataclass(frozen=True)
class SearchRequest:
    """What rag.search is asked.

    Attributes:
        vector: (d,) float32 of the profile's model; None in lexical mode.
        text: the query as `lexical_text` prepared it; "" in dense mode.
        candidates: how many of each list hybrid fuses, at most 1000.
        exact: read every vector instead of the index.
    """

    mode: Mode
    vector: NDArray[np.float32] | None
    text: str
    top_k: int = 8
    candidates: int = 100
    dense_weight: float = 0.5
    fusion: Fusion = "minmax"
    filters: Mapping[str, Any] = field(default_factory=dict)
    exact: bool = False


@dataclass(frozen=True)
class SearchRow:
    """One chunk as rag.search returns it; scores are similarities, higher is closer."""

    chunk_id: UUID
    source_id: UUID
    source_name: str
    source_metadata: dict[str, Any]
    canonical_url: str | None
    content: str
    token_count: int
    citation: dict[str, Any]
    metadata: dict[str, Any]
    score: float
    dense_score: float | None
    lexical_score: float | None


def run_search(connection: Connection, scope: Mapping[str, str | None], request: SearchRequest) -> list[SearchRow]:
    """Search under `scope` in one transaction and one round trip; best first.

    The scope's settings end with the transaction. A scope that names no profile of its own tenant and
    space finds nothing.
    """
    with connection.pipeline(), connection.transaction():
        set_scope(connection, scope)
        cursor = connection.cursor(row_factory=class_row(SearchRow))
        cursor.execute(
            query("search"),
            {
                "mode": request.mode,
                "vector": request.vector,
                "text": request.text,
                "top_k": request.top_k,
                "candidates": request.candidates,
                "dense_weight": request.dense_weight,
                "fusion": request.fusion,
                "filters": Jsonb(dict(request.filters)),
                "exact": request.exact,
            },
        )
    return cursor.fetchall()
