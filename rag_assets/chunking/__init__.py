"""Documents to chunks: passages with exact offsets, cut by one of several strategies."""

from __future__ import annotations

from rag_assets.chunking.chunks import chunk_document
from rag_assets.chunking.spec import STRATEGIES, ChunkingSpec
from rag_assets.documents.words import count_tokens

__all__ = ["STRATEGIES", "ChunkingSpec", "chunk_document", "count_tokens"]
