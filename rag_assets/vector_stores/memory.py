"""Chunks in memory, searched exactly: for tests, notebooks and comparisons."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from rag_assets.retrieval.results import RetrievalResult
from rag_assets.vector_stores.local import Held, LocalStore, Part, to_found
from rag_assets.vector_stores.matching import MATCHED, lets_through
from rag_assets.vector_stores.protocol import StoredChunk, StoredSource


@dataclass(frozen=True)
class _Table:
    """A part as it is searched. It never changes: whoever writes makes another one, and readers keep theirs."""

    held: Held
    sources: Sequence[StoredSource]
    has_private: bool
    chunks: Sequence[StoredChunk]  # by id
    owners: NDArray[np.intp]  # for each chunk, which of `sources` it is of
    vectors: NDArray[np.float32]  # (n, d)


class MemoryStore(LocalStore):
    """Holds everything in this process, and reads every vector at each search."""

    filters = MATCHED

    def __init__(self) -> None:
        self._tables: dict[Part, _Table] = {}
        self._writing = threading.Lock()

    def close(self) -> None:
        """See `VectorStore.close`; what it held is gone."""
        super().close()
        self._tables = {}

    def _held(self, part: Part) -> Held | None:
        table = self._tables.get(part)
        return table.held if table else None

    def _all_held(self) -> list[Held]:
        return [table.held for table in list(self._tables.values())]

    def _nearest(
        self, part: Part, vector: NDArray[np.float32], top_k: int, user_id: str | None, filters: Mapping[str, Any]
    ) -> list[RetrievalResult]:
        table = self._table(part)
        # Not by BLAS, whose sums of equal rows may differ by where these lie: equals have to stay equal.
        scores = np.einsum("nd,d->n", table.vectors, vector)
        if filters or table.has_private:
            allowed = np.array([lets_through(source, user_id, filters) for source in table.sources], dtype=bool)
            rows = np.flatnonzero(allowed[table.owners])
        else:
            rows = np.arange(len(scores))
        best = rows[np.argsort(-scores[rows], kind="stable")[:top_k]]
        return [to_found(table.sources[table.owners[row]], table.chunks[row], float(scores[row])) for row in best]

    def _count(self, part: Part, user_id: str | None) -> int:
        return sum(len(one.chunks) for one in self._table(part).sources if lets_through(one, user_id, {}))

    def _source_ids(self, part: Part) -> set[UUID]:
        return {source.id for source in self._table(part).sources}

    def _write(self, held: Held, sources: Sequence[StoredSource]) -> None:
        with self._writing:
            before = self._tables.get(held.part)
            new = {source.id for source in sources}
            kept = [source for source in before.sources if source.id not in new] if before else []
            self._put(_table(held, [*kept, *sources]))

    def _delete(self, part: Part, source_ids: set[UUID]) -> int:
        with self._writing:
            table = self._table(part)
            kept = [source for source in table.sources if source.id not in source_ids]
            self._put(_table(table.held, kept))
            return len(table.sources) - len(kept)

    def _table(self, part: Part) -> _Table:
        table = self._tables.get(part)
        if table is None:  # closed at this moment: nothing else takes a part away
            self._require_open()
        assert table is not None
        return table

    def _put(self, table: _Table) -> None:
        others = {part: other for part, other in self._tables.items() if part != table.held.part}
        self._tables = {**others, table.held.part: table}  # at once, and as the last one


def _table(held: Held, sources: Sequence[StoredSource]) -> _Table:
    pairs = [(chunk, number) for number, source in enumerate(sources) for chunk in source.chunks]
    pairs.sort(key=lambda pair: pair[0].id)
    vectors = [chunk.vector for chunk, _ in pairs]
    dimensions = held.profile.dimensions
    return _Table(
        held,
        sources,
        any(source.user_id is not None for source in sources),
        [chunk for chunk, _ in pairs],
        np.array([number for _, number in pairs], dtype=np.intp),
        np.stack(vectors) if vectors else np.empty((0, dimensions), dtype=np.float32),
    )
