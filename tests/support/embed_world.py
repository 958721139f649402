"""What tests of embedding through the product share: fresh embedders, and a look at what was stored."""

from __future__ import annotations

import json
import pickle
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import psycopg
import pytest
from numpy.typing import NDArray

from rag_assets.embedding import registry
from rag_assets.embedding.providers.google import GoogleEmbedder
from rag_assets.embedding.providers.openai import OpenAICompatibleEmbedder

GOOGLE_PREFIX = "title: none | text: "  # what gemini-embedding-2 is sent in front of a document


@contextmanager
def fresh_embedders(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Embedders that are made inside and closed at the end: they keep the address that they were made with."""
    with monkeypatch.context() as patch:
        patch.setattr(registry, "_loaded", {})
        yield
        for embedder in registry._loaded.values():
            if isinstance(embedder, GoogleEmbedder | OpenAICompatibleEmbedder):
                embedder.close()


def rows(url: str, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """Of a query as superuser, whom no policy holds back."""
    with psycopg.connect(url) as connection:
        return connection.execute(statement, values).fetchall()


def served(url: str) -> tuple[list[str], NDArray[np.float64]]:
    """The contents of all chunks, sorted, and their vectors (n, d)."""
    found = sorted(rows(url, "SELECT content, embedding::text FROM rag.knowledge_chunks"))
    return [row[0] for row in found], np.array([json.loads(row[1]) for row in found])


def embedded_items(url: str) -> int:
    """How many items were counted as embedded."""
    return int(rows(url, "SELECT coalesce(sum(items), 0) FROM rag.embedding_usage")[0][0])


def cached(url: str) -> int:
    return int(rows(url, "SELECT count(*) FROM rag.embedding_cache")[0][0])


def statuses(url: str) -> dict[str, int]:
    """How many sources are in each state."""
    return dict(rows(url, "SELECT status, count(*) FROM rag.knowledge_sources GROUP BY 1"))


def everything_said(error: BaseException) -> str:
    """An error and all errors behind it: texts, arguments, attributes, and what a pickle would carry away."""
    said, seen = "", set()
    pending: list[BaseException | None] = [error]
    while pending:
        current = pending.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        said += f"{current!s} {current!r} {current.args} {vars(current)} {pickle.dumps(current)!r}"
        pending += [current.__cause__, current.__context__]
    return said + "".join(traceback.format_exception(error))
