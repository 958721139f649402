"""What a result is to other frameworks: a flat mapping of what is known of it, as JSON has it."""

from __future__ import annotations

from typing import Any

from rag_assets.retrieval.results import Retrieval, RetrievalResult

# Of the citation, by these names; its `document` and `place` tell where in a container the text lies.
_CITED = ("start", "end", "page", "page_end", "heading", "title", "url", "document", "file", "place")
_SHOWN = ("source", "title", "heading", "page", "url")  # what says to a model where a text is from


def described(result: RetrievalResult, found: Retrieval) -> dict[str, Any]:
    """The source's own metadata, and over it what is known of the chunk: no metadata of a document can pretend to be
    that. What is not known is left out. Numbers of pages begin at 1; `start` and `end` are code points of the source.
    """
    known: dict[str, Any] = {
        "source": result.source_name,
        "source_id": str(result.source_id),
        "chunk_id": str(result.chunk_id),
        "score": result.score,
        "dense_score": result.dense_score,
        "lexical_score": result.lexical_score,
        "rerank_score": result.rerank_score,
        "space": result.space,
        "index": result.index,
        "also_at": result.citation.get("also_at"),
        "source_version": result.citation.get("version"),
        "path": [dict(one) for one in result.path] or None,
        "degraded": found.degraded,
        **{name: result.citation.get(name) for name in _CITED},
    }
    own = {name: value for name, value in result.metadata.items() if name not in known}
    return {**own, **{name: value for name, value in known.items() if value is not None}}


def hidden_from_models(metadata: dict[str, Any]) -> list[str]:
    """The keys of a result's metadata that say nothing to a model: ids, scores, offsets, and the source's own."""
    return [name for name in metadata if name not in _SHOWN]
