"""One search as it is told to whoever listens: plain values, no text of a source."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from rag_assets.store.database import Database
from rag_assets.store.statements import Scope


@dataclass(frozen=True)
class Asked:
    """Who asks what, as it is known before the search.

    Attributes:
        tenant, bot, profile: None where the search was asked for without a scope.
        retriever: the kind of the outermost one, such as `hybrid`.
        scope: the settings of a transaction under the scope of who asks.
    """

    query_id: UUID
    asked_at: datetime
    query: str
    tenant: str | None
    bot: str | None
    profile: str | None
    retriever: str
    mode: str | None
    top_k: int
    filters: Mapping[str, Any]
    database: Database | None
    scope: Scope


@dataclass(frozen=True)
class Hit:
    """One result."""

    source_id: UUID
    chunk_id: UUID
    score: float
    space: str
    by_meaning: bool
    by_words: bool


@dataclass(frozen=True)
class Told:
    """What became of a search.

    Attributes:
        timings_ms: by stage; `total` is always there.
        top_similarity: the best similarity by meaning, in [-1, 1]; None where nothing was found by meaning.
        caches: hits and misses by cache, where there were caches.
        tokens: of the query, as the embedding model counts them; None where it was not embedded.
        error: the type of the error that the search ended with.
    """

    timings_ms: Mapping[str, float]
    hits: tuple[Hit, ...] = ()
    rung: str | None = None
    degraded: bool = False
    top_similarity: float | None = None
    caches: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    tokens: int | None = None
    error: str | None = None


def new_query_id() -> UUID:
    """An id that sorts by time (a UUID of version 7: 48 bits of milliseconds, 74 of chance)."""
    millis = time.time_ns() // 1_000_000
    chance = int.from_bytes(os.urandom(10), "big")
    high, low = chance >> 68, chance & ((1 << 62) - 1)
    return UUID(int=(millis & ((1 << 48) - 1)) << 80 | 0x7 << 76 | high << 64 | 0b10 << 62 | low)
