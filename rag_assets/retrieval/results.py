"""What a retrieval returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload
from uuid import UUID

from rag_assets.embedding.protocol import Usage


@dataclass(frozen=True)
class RetrievalResult:
    """One chunk with its citation.

    Attributes:
        score: similarity in [-1, 1], higher is closer: cosine in dense mode, the share of the best possible
            BM25 score in lexical mode, the fused score in hybrid mode.
        citation: `start` and `end` in code points of the source's text in its `version`, and, where known,
            `page`, `page_end`, `heading`, `title`, `url`, `document`; of a record and of a file inside a file also
            the outermost `file`, and its `place` in that.
        dense_score, lexical_score: of the two lists where the chunk was in them.
    """

    chunk_id: UUID
    source_id: UUID
    source_name: str
    score: float
    content: str
    token_count: int
    citation: Mapping[str, Any]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    dense_score: float | None = None
    lexical_score: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "chunk_id": str(self.chunk_id),
            "source_id": str(self.source_id),
            "source_name": self.source_name,
            "score": round(self.score, 6),
            "content": self.content,
            "citation": dict(self.citation),
            "dense_score": self.dense_score,
            "lexical_score": self.lexical_score,
            "metadata": dict(self.metadata),
        }


@dataclass(frozen=True)
class Retrieval(Sequence[RetrievalResult]):
    """Results, best first, with what each stage took.

    `degraded` says why less than asked for was searched (the query could not be embedded, say); the scope
    is never widened to make up for it. `usage` is what embedding the query consumed, None where it was not embedded.
    """

    results: tuple[RetrievalResult, ...]
    timings_ms: Mapping[str, float]
    degraded: str | None = None
    usage: Usage | None = None

    @overload
    def __getitem__(self, index: int) -> RetrievalResult: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[RetrievalResult]: ...
    def __getitem__(self, index: int | slice) -> RetrievalResult | Sequence[RetrievalResult]:
        return self.results[index]

    def __len__(self) -> int:
        return len(self.results)
