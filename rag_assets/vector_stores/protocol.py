"""Where a profile's chunks lie and are searched by their vectors: Postgres, or a copy elsewhere for development."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from rag_assets.retrieval.results import RetrievalResult
from rag_assets.retrieval.scope import RetrievalScope
from rag_assets.store.search import Space


@dataclass(frozen=True)
class StoredChunk:
    """A chunk with its vector, (d,) float32 and not zero. Citation and metadata are JSON, as results have them."""

    id: UUID
    content: str
    token_count: int
    vector: NDArray[np.float32]
    citation: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class StoredSource:
    """A source with all of its chunks, and what filters ask of it. `user_id` is whose it is, of one that is private."""

    id: UUID
    name: str
    chunks: Sequence[StoredChunk]
    source_type: str = "file"
    locale: str | None = None
    content_type: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    space: Space = "bot"
    user_id: str | None = None


class VectorStore(Protocol):
    """What every store offers. Each answer holds to the scope: another tenant's, bot's, space's or profile's finds
    nothing, and of private sources only the user's own. Safe to use from many threads."""

    @property
    def filters(self) -> frozenset[str]:
        """The filters that it knows. Another one is refused, and never left out."""
        ...

    def scope(self, tenant: str, bot: str, user_id: str | None = None) -> RetrievalScope:
        """The scope of what it holds for a bot: what was written last, with what all bots of the tenant share.

        Raises:
            UnknownBot: it holds nothing of such a bot.
        """
        ...

    def search(
        self,
        scope: RetrievalScope,
        vector: NDArray[np.float32],
        top_k: int = 8,
        filters: Mapping[str, Any] | None = None,
    ) -> list[RetrievalResult]:
        """The chunks that are nearest to a vector (d,) of the profile's model, best first, at most `top_k`. `score` is
        the cosine, in [-1, 1]; of equals the one with the smaller id comes first.

        Raises:
            ScopeError: no scope, or its profile is not the one that was stored.
            InvalidArgument: the vector is of another length, zero or not finite; a filter is unknown, or unknown here.
            UsageError: the store is closed.
            DatabaseUnavailable, DatabaseFailed: what it lies in cannot be read.
        """
        ...

    def count(self, scope: RetrievalScope) -> int:
        """How many chunks the scope finds among. It raises what `search` does."""
        ...

    def close(self) -> None:
        """Let go of files and connections. Closing twice does nothing."""
        ...


class WritableStore(VectorStore, Protocol):
    """A store that is written by whoever holds it. Postgres is not: what it serves is what the assets publish."""

    def upsert(self, scope: RetrievalScope, sources: Sequence[StoredSource]) -> None:
        """Replace what it holds of these sources, chunk and all, under the scope's tenant, bot, space and profile.

        Raises:
            ScopeError: no scope, or the profile was stored as another.
            InvalidArgument: a vector is of another length than the profile's, zero or not finite; a text is empty, or
                holds what Postgres could not hold, such as NUL. Nothing was written.
            UsageError: the store is closed.
            DatabaseUnavailable, DatabaseFailed: what it lies in cannot be written.
        """
        ...

    def delete(self, scope: RetrievalScope, source_ids: Collection[UUID]) -> int:
        """Take sources away; returns how many there were. It raises what `upsert` does."""
        ...

    def source_ids(self, scope: RetrievalScope) -> set[UUID]:
        """Which sources it holds under the scope, the private ones of all users among them."""
        ...
