"""What a retrieval returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, overload
from uuid import UUID

from rag_assets.documents.names import ORIGIN
from rag_assets.embedding.protocol import Usage
from rag_assets.retrieval.places import telling_names
from rag_assets.sources.secrets import without_secrets
from rag_assets.store.search import SearchRow, Space

Rung = Literal["full", "retry", "words", "none", "no_reliable_source"]


@dataclass(frozen=True)
class RetrievalResult:
    """One chunk with its citation.

    Attributes:
        score: similarity in [-1, 1], higher is closer: cosine in dense mode, the share of the best possible
            BM25 score in lexical mode, the fused score in hybrid mode.
        citation: `start` and `end` in code points of the source's text in its `version`, and, where known,
            `page`, `page_end`, `heading`, `title`, `url`, `document`; of a record and of a file inside a file also
            the outermost `file`, and its `place` in that. Where the same text lies at other places too that this scope
            may see, `also_at` lists them, at most 100, each with `source_id`, `source_name` and these keys.
        dense_score, lexical_score: of the two lists where the chunk was in them.
        space: what the source is shared with: the `bot`, all bots of the `tenant`, or only the `user` who asks.
        index: of a dual retriever the one that found it, `primary`, `secondary` or `both`.
        rerank_score: what a reranker thinks of it, in [0, 1].
        path: of a graph retriever the triples that led to it, from the query's subject on, each with `subject`,
            `predicate`, `object`, `confidence` and `chunk_id`.
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
    space: Space = "bot"
    index: str | None = None
    rerank_score: float | None = None
    path: tuple[Mapping[str, Any], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready. `index`, `rerank_score` and `path` are there where a retriever gave them."""
        given = {"index": self.index, "rerank_score": self.rerank_score, "path": [dict(one) for one in self.path]}
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
            "space": self.space,
            **{name: value for name, value in given.items() if value not in (None, [])},
        }


@dataclass(frozen=True)
class Retrieval(Sequence[RetrievalResult]):
    """Results, best first, with what each stage took.

    `degraded` says why less than asked for was searched (the query could not be embedded, say); the scope
    is never widened to make up for it. `rung` says how: searched in `full`, or at a second try (`retry`); by `words`
    alone; not at all (`none`), so that nothing is known of the sources; or with nothing found that a floor lets through
    (`no_reliable_source`). `usage` is what embedding the query consumed, None where it was not embedded.
    `timings_ms` has `embed`, `search` and what further stages take: of what ran side by side the longest, of what ran
    one after another the sum; `total` is wall time. `trace` has what each stage did, in order and JSON-ready: `stage`
    names it, and the rest is the stage's own (a reranker's best score and how many it dropped; the rounds of an
    agentic search). `query_id` names this search in spans, logs and the query log, and in what the application
    reports of its answer; None where a retriever was asked within another one.
    """

    results: tuple[RetrievalResult, ...]
    timings_ms: Mapping[str, float]
    degraded: str | None = None
    usage: Usage | None = None
    trace: tuple[Mapping[str, Any], ...] = ()
    rung: Rung = "full"
    query_id: UUID | None = None

    @overload
    def __getitem__(self, index: int) -> RetrievalResult: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[RetrievalResult]: ...
    def __getitem__(self, index: int | slice) -> RetrievalResult | Sequence[RetrievalResult]:
        return self.results[index]

    def __len__(self) -> int:
        return len(self.results)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "query_id": str(self.query_id) if self.query_id else None,
            "rung": self.rung,
            "timings_ms": {stage: round(ms, 3) for stage, ms in self.timings_ms.items()},
            "results": [result.to_dict() for result in self],
            "degraded": self.degraded,
            "trace": [dict(step) for step in self.trace],
        }


def joined(*reasons: str | None) -> str | None:
    """What several stages say in `degraded`, as one text; None where none says anything."""
    return "; ".join(reason for reason in reasons if reason) or None


def best_rung(*rungs: Rung) -> Rung:
    """Of what several searches answer together: they are by words alone only where all of them are."""
    return min(rungs, key=get_args(Rung).index, default="none")


def to_result(row: SearchRow) -> RetrievalResult:
    """A row of the database as callers get it."""
    citation = citation_of(row.citation, row.canonical_url, row.source_metadata)
    if row.also_at:
        citation["also_at"] = _others(row)
    described = {name: value for name, value in row.source_metadata.items() if name != ORIGIN}
    told: dict[str, Any] = {"name": row.source_name, "citation": citation, "metadata": {**described, **row.metadata}}
    told = without_secrets(told, row.source_uri, *(one["uri"] for one in row.also_at))
    return RetrievalResult(
        chunk_id=row.chunk_id,
        source_id=row.source_id,
        source_name=told["name"],
        score=row.score,
        content=row.content,
        token_count=row.token_count,
        citation=told["citation"],
        metadata=told["metadata"],
        dense_score=row.dense_score,
        lexical_score=row.lexical_score,
        space=row.space,
    )


def _others(row: SearchRow) -> list[dict[str, Any]]:
    """Citations of the other places, whose `document` tells them apart from each other and from the first."""
    places = [(row.source_metadata, row.source_uri), *((one["metadata"], one["uri"]) for one in row.also_at)]
    names = telling_names([(str(metadata.get("doc_id", "")), uri) for metadata, uri in places])[1:]
    return [
        {
            "source_id": place["source_id"],
            "source_name": place["source_name"],
            **citation_of(place["citation"], place["url"], place["metadata"]),
            "document": name,
        }
        for place, name in zip(row.also_at, names, strict=True)
    ]


def citation_of(stored: Mapping[str, Any], url: str | None, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """A stored citation with what is known of its source: the address, where it came from, and its own id."""
    citation = {**stored, **metadata.get(ORIGIN, {})}
    if url:
        citation["url"] = url
    if "doc_id" in metadata:
        citation["document"] = metadata["doc_id"]
    return citation
