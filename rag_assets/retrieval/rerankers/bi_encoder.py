"""Another profile's model over the candidates: a small index finds them, a better model says which are best.

The model embeds the query and the candidates when they are there; nothing is built for it or kept.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rag_assets.embedding.profiles import BUILTIN_PROFILES, EmbeddingProfile, make_profile
from rag_assets.embedding.protocol import Caller, Embedder
from rag_assets.embedding.registry import embedder_for
from rag_assets.errors import DatabaseRefused, InvalidArgument, TimeLimitReached, shown
from rag_assets.retrieval.rerankers.protocol import Scores
from rag_assets.retrieval.taken import usage_in_turn
from rag_assets.store.database import Database
from rag_assets.store.profiles import get_spec

_LOCAL = "sentence-transformers"
_PASS = 16  # texts that a model on this machine embeds before the time is looked at


class BiEncoderReranker:
    """Scores by the cosine of query and passage, in the vectors of one model; below 0 it counts as 0."""

    def __init__(
        self, profile: EmbeddingProfile | Mapping[str, Any] | str, *, database: Database | None = None
    ) -> None:
        """`profile`: a profile, the fields of one (`provider`, `model`, `dimensions` and, where needed, `options` and
        `task_instruction`), or the name of a built-in one, or of one in the catalogue of `database`. It need not be
        built for any bot.

        Raises:
            InvalidArgument: it is none of these.
            InvalidProfile: such a profile could never be.
            UnknownProfile: there is none of that name.
            DatabaseUnavailable: the catalogue cannot be read.
        """
        self._profile = _profile(profile, database)

    @property
    def name(self) -> str:
        """See `Reranker.name`."""
        return f"bi_encoder/{self._profile.provider}/{self._profile.model}"

    def score(self, query: str, texts: Sequence[str], caller: Caller) -> Scores:
        """See `Reranker.score`. A blank text gets no score.

        Raises:
            EmbeddingError: query or passages cannot be embedded.
        """
        deadline = None if caller.wait_s is None else time.monotonic() + caller.wait_s
        embedder = embedder_for(self._profile)
        asked = embedder.embed_query(query, _hurried(caller, deadline))
        usages = [asked.usage]
        indices = [index for index, text in enumerate(texts) if text.strip()]
        pairs: list[tuple[object, object]] = []
        size = _size(self._profile, embedder)
        for start in range(0, len(indices), size):
            part = indices[start : start + size]
            found = embedder.embed_documents([texts[index] for index in part], _hurried(caller, deadline))
            usages.append(found.usage)
            cosines = np.clip(found.vectors @ asked.vectors[0], 0, 1)
            pairs.extend(zip(part, cosines.tolist(), strict=True))
        return Scores(pairs, usage_in_turn(usages))


def _profile(given: object, database: Database | None) -> EmbeddingProfile:
    if isinstance(given, EmbeddingProfile):
        return given
    if isinstance(given, Mapping):
        return make_profile(**{"name": "reranker", **given})
    if isinstance(given, str) and given in BUILTIN_PROFILES:
        return BUILTIN_PROFILES[given]
    if isinstance(given, str) and database is not None:
        return _catalogued(database, given)
    built_in = ", ".join(BUILTIN_PROFILES)
    raise InvalidArgument(
        f"profile must be an EmbeddingProfile, its fields, or one of {built_in} (others by name need the database), "
        f"got {shown(given)}",
        "profile",
    )


def _catalogued(database: Database, name: str) -> EmbeddingProfile:
    try:
        with database.work() as connection:
            return get_spec(connection, name)
    except DatabaseRefused as refusal:  # a login that may only search
        raise InvalidArgument(
            f"profile {name!r} cannot be looked up in the catalogue by this login ({refusal}); give its fields: "
            "provider, model, dimensions",
            "profile",
        ) from refusal


def _size(profile: EmbeddingProfile, embedder: Embedder) -> int:
    return _PASS if profile.provider == _LOCAL else embedder.batch_items


def _hurried(caller: Caller, deadline: float | None) -> Caller:
    """The same caller, with the time that is left."""
    if deadline is None:
        return caller
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeLimitReached("the passages were not embedded in time")
    return replace(caller, wait_s=left, tries=2)
