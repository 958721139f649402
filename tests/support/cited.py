"""Passages made by hand, for what is done with passages."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid5

from rag_assets.retrieval import RetrievalResult

SPACE = UUID(int=7)


def passage(content: str, source: str = "a.md", **citation: Any) -> RetrievalResult:
    where = {"start": 0, "end": len(content), "document": source, **citation}
    return RetrievalResult(uuid5(SPACE, source + content), uuid5(SPACE, source), source, 0.5, content, 1, where)
