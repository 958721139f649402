"""What the stores for development share: they check all that comes in, and keep to the scope themselves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rag_assets.embedding.profiles import EmbeddingProfile
from rag_assets.errors import InvalidArgument, ScopeError, UnknownBot, UsageError, shown
from rag_assets.keys import check_key
from rag_assets.retrieval.arguments import MAX_TOP_K, check_text, check_whole
from rag_assets.retrieval.filters import check_filters
from rag_assets.retrieval.results import RetrievalResult
from rag_assets.retrieval.scope import RetrievalScope, require_scope
from rag_assets.vector_stores.protocol import StoredChunk, StoredSource


@dataclass(frozen=True)
class Part:
    """The part of a store that a scope reaches, and nothing else of it."""

    tenant: str
    bot: str
    space: UUID
    profile_id: int

    @property
    def key(self) -> str:
        """It as one text; keys of tenants and bots hold no `/`."""
        return f"{self.tenant}/{self.bot}/{self.space}/{self.profile_id}"


@dataclass(frozen=True)
class Held:
    """What a part of a store holds: the profile and where its vectors were made, with the floors of its scores; and
    whether all bots of the tenant share it."""

    part: Part
    profile: EmbeddingProfile
    origin: str | None
    floors: dict[str, float]
    is_shared: bool

    def scope(self, user_id: str | None) -> RetrievalScope:
        """The scope that reaches it."""
        part = self.part
        return RetrievalScope(
            part.tenant, part.bot, part.space, part.profile_id, self.profile, user_id, self.origin, floors=self.floors
        )


class LocalStore(ABC):
    """A store without a database that would isolate tenants: what is checked here is all that there is."""

    filters: frozenset[str] = frozenset()
    _is_closed = False

    def scope(self, tenant: str, bot: str, user_id: str | None = None) -> RetrievalScope:
        """See `VectorStore.scope`."""
        check_key(tenant, "tenant")
        check_key(bot, "bot")
        self._require_open()
        held = [one for one in self._all_held() if (one.part.tenant, one.part.bot) == (tenant, bot)]
        own, shared = ([one for one in held if one.is_shared is wanted] for wanted in (False, True))
        if not held:
            raise UnknownBot(f"the store holds nothing of a bot {bot!r} of tenant {tenant!r}: load it first")
        scope = (own or shared)[-1].scope(user_id)
        return replace(scope, shared=shared[-1].scope(user_id)) if own and shared else scope

    def search(
        self,
        scope: RetrievalScope,
        vector: NDArray[np.float32],
        top_k: int = 8,
        filters: Mapping[str, Any] | None = None,
    ) -> list[RetrievalResult]:
        """See `VectorStore.search`."""
        part, is_held = self._reached(scope)
        asked = check_vector(vector, scope.profile)
        top_k, filters = check_whole(top_k, "top_k", MAX_TOP_K), self._known(filters)
        return self._nearest(part, asked, top_k, scope.user_id, filters) if is_held else []

    def count(self, scope: RetrievalScope) -> int:
        """See `VectorStore.count`."""
        part, is_held = self._reached(scope)
        return self._count(part, scope.user_id) if is_held else 0

    def source_ids(self, scope: RetrievalScope) -> set[UUID]:
        """See `WritableStore.source_ids`."""
        part, is_held = self._reached(scope)
        return self._source_ids(part) if is_held else set()

    def upsert(self, scope: RetrievalScope, sources: Sequence[StoredSource]) -> None:
        """See `WritableStore.upsert`."""
        part, _ = self._reached(scope)
        checked = [_checked_source(source, scope.profile) for source in sources]
        if len({source.id for source in checked}) < len(checked):
            raise InvalidArgument("sources: one of them is given twice", "sources")
        held = Held(
            part, scope.profile, scope.origin, dict(scope.floors),
            any(source.space == "tenant" for source in checked),
        )  # fmt: skip
        if checked:
            self._write(held, checked)

    def delete(self, scope: RetrievalScope, source_ids: Collection[UUID]) -> int:
        """See `WritableStore.delete`."""
        part, is_held = self._reached(scope)
        return self._delete(part, set(source_ids)) if is_held and source_ids else 0

    def close(self) -> None:
        """See `VectorStore.close`."""
        self._is_closed = True

    def _reached(self, scope: object) -> tuple[Part, bool]:
        """The part that a scope reaches, and whether anything was ever written there.

        Raises:
            ScopeError: no scope, or one with another profile: two models could meet in one search.
        """
        scope = require_scope(scope)
        self._require_open()
        part = Part(scope.tenant_id, scope.bot_id, scope.knowledge_space_id, scope.profile_id)
        held = self._held(part)
        if held is not None and held.profile != scope.profile:
            raise ScopeError(
                f"the store holds the profile {held.profile.name!r} there, and the scope carries another, "
                f"{scope.profile.name!r}: two models could meet in one search",
                "scope",
            )
        return part, held is not None

    def _known(self, filters: object) -> Mapping[str, Any]:
        given = check_filters(filters)
        unknown = sorted(set(given) - self.filters)
        if unknown:
            raise InvalidArgument(
                f"filters: {type(self).__name__} does not know {unknown[0]!r}, and nothing is searched without it. "
                f"It knows {', '.join(sorted(self.filters))}",
                "filters",
            )
        return given

    def _require_open(self) -> None:
        if self._is_closed:
            raise UsageError(f"this {type(self).__name__} is closed")

    @abstractmethod
    def _held(self, part: Part) -> Held | None:
        """What is known of a part; None where nothing was ever written."""

    @abstractmethod
    def _all_held(self) -> list[Held]:
        """All parts, those last that were written last."""

    @abstractmethod
    def _nearest(
        self, part: Part, vector: NDArray[np.float32], top_k: int, user_id: str | None, filters: Mapping[str, Any]
    ) -> list[RetrievalResult]:
        """The nearest chunks that the user may see and the filters let through."""

    @abstractmethod
    def _count(self, part: Part, user_id: str | None) -> int:
        """How many chunks the user may see."""

    @abstractmethod
    def _source_ids(self, part: Part) -> set[UUID]:
        """All sources of a part."""

    @abstractmethod
    def _write(self, held: Held, sources: Sequence[StoredSource]) -> None:
        """Replace these sources, and note what the part holds."""

    @abstractmethod
    def _delete(self, part: Part, source_ids: set[UUID]) -> int:
        """Take sources away."""


@lru_cache(maxsize=1000)
def profile_of(text: str) -> EmbeddingProfile:
    """A profile from its JSON, which every search compares."""
    return EmbeddingProfile.model_validate_json(text)


def check_vector(value: ArrayLike, profile: EmbeddingProfile, name: str = "vector") -> NDArray[np.float32]:
    """A vector (d,) of the profile's dimensions, at unit length, float32.

    Raises:
        InvalidArgument: it is of another shape, zero or not finite.
    """
    try:
        vector = np.asarray(value, dtype=np.float32)
    except (TypeError, ValueError):
        raise InvalidArgument(f"{name} must be numbers, got {shown(value)}", name) from None
    if vector.shape != (profile.dimensions,):
        raise InvalidArgument(
            f"{name} must have the {profile.dimensions} dimensions of profile {profile.name!r}, got one of shape "
            f"{vector.shape}",
            name,
        )
    length = float(np.linalg.norm(vector.astype(np.float64)))
    if not np.isfinite(length) or length == 0:
        raise InvalidArgument(f"{name} must be finite and not zero", name)
    return (vector / length).astype(np.float32)


def _checked_source(source: StoredSource, profile: EmbeddingProfile) -> StoredSource:
    check_text(source.name, "name")
    if (source.space == "user") != (source.user_id is not None):
        raise InvalidArgument(f"source {source.name!r}: what is private has a user, and nothing else has", "user_id")
    return replace(source, chunks=[_checked_chunk(chunk, profile) for chunk in source.chunks])


def _checked_chunk(chunk: StoredChunk, profile: EmbeddingProfile) -> StoredChunk:
    if not check_text(chunk.content, "content"):
        raise InvalidArgument("content must not be empty", "content")
    return replace(chunk, vector=check_vector(chunk.vector, profile))


def to_found(source: StoredSource, chunk: StoredChunk, score: float) -> RetrievalResult:
    """A chunk of a source as callers get it."""
    score = max(-1.0, min(1.0, score))
    return RetrievalResult(
        chunk.id, source.id, source.name, score, chunk.content, chunk.token_count, chunk.citation, chunk.metadata,
        dense_score=score, space=source.space,
    )  # fmt: skip
