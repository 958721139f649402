"""What a profile serves, read under a scope to be copied elsewhere: whole sources, with the vectors of their chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from psycopg.rows import class_row, kwargs_row

from rag_assets.store.database import as_array
from rag_assets.store.search import SearchRow
from rag_assets.store.sql import query
from rag_assets.store.statements import Statement


@dataclass(frozen=True)
class ExportedSource:
    """A source that the scope may see, and the number of its chunks."""

    source_id: UUID
    chunks: int


@dataclass(frozen=True)
class ExportedChunk:
    """A chunk as a search returns it, without a score; its vector (d,) float32; and what filters ask of its source.
    `user_id` is set where the source is private."""

    row: SearchRow
    vector: NDArray[np.float32]
    source_type: str
    locale: str | None
    content_type: str | None
    user_id: str | None


def exported_sources(space: UUID, profile_id: int) -> Statement:
    """All that the profile serves and the scope may see, as `ExportedSource`s."""
    values = {"space": space, "profile": profile_id}
    return Statement(query("exported_sources"), values, class_row(ExportedSource))


def exported_chunks(space: UUID, profile_id: int, sources: Sequence[UUID]) -> Statement:
    """All chunks of these sources, source by source, as `ExportedChunk`s."""
    values = {"space": space, "profile": profile_id, "sources": list(sources)}
    return Statement(query("exported_chunks"), values, kwargs_row(_exported))


def _exported(
    embedding: Any, source_type: str, locale: str | None, content_type: str | None, user_id: str | None, **columns: Any
) -> ExportedChunk:
    row = SearchRow(score=0.0, dense_score=None, lexical_score=None, also_at=[], **columns)
    return ExportedChunk(row, as_array(embedding), source_type, locale, content_type, user_id)
