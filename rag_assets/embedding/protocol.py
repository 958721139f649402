"""What every embedder offers: one object per profile embeds its documents and its queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Gate(Protocol):
    """What a request has to pass before it is sent: rate limits and a cost ceiling."""

    def acquire(self, items: int, tokens: int) -> None:
        """Wait until a request of so many items and (estimated) tokens may be sent; call it before each, also
        before the repetition of one.

        Raises:
            CostCeilingReached: it could cost more than the profile may.
            ProviderUnavailable: the wait would be longer than a run should wait.
        """
        ...

    def throttled(self, seconds: float) -> None:
        """The provider asked for a pause: no worker that uses this key and model sends anything for so long."""
        ...


class OpenGate:
    """No limits: for local models, and for use without a database."""

    def acquire(self, items: int, tokens: int) -> None:
        """See `Gate.acquire`."""

    def throttled(self, seconds: float) -> None:
        """See `Gate.throttled`."""


_OPEN = OpenGate()


@dataclass(frozen=True)
class Caller:
    """On whose behalf something is embedded. It never changes a vector: it tags usage, and holds the gate."""

    tenant: str = ""
    bot: str = ""
    gate: Gate = _OPEN


NOBODY = Caller()


@dataclass(frozen=True)
class Usage:
    """What a call consumed. `items` are the vectors that were paid for, `tokens` what the model read, `cost_usd` 0
    for a local model."""

    tenant: str
    bot: str
    items: int
    tokens: int
    cost_usd: float = 0.0


@dataclass(frozen=True)
class Embedded:
    """The answer for n texts: unit vectors (n, d) float32 by position, and what they cost."""

    vectors: NDArray[np.float32]
    usage: Usage


class Embedder(Protocol):
    """Makes unit vectors of `dimensions` float32 values.

    Both methods raise `TextRefused` for a blank text, before any work is done; `EmbeddingError` for an answer that
    must not be stored (a wrong count or dimension, NaN, infinity, a zero vector); and its other subclasses as
    `rag_assets.errors` describes them. After an error nothing of the call may be stored.
    """

    @property
    def model_key(self) -> str:
        """Equal to `EmbeddingProfile.model_key`: two embedders share it if they make the same vectors."""
        ...

    @property
    def dimensions(self) -> int: ...

    @property
    def batch_items(self) -> int:
        """How many texts to pass in one call: each call's vectors are kept before the next is made."""
        ...

    def embed_documents(self, texts: Sequence[str], caller: Caller = NOBODY) -> Embedded:
        """Embed texts to be searched; vectors (n, d) in the order of the texts."""
        ...

    def embed_query(self, text: str, caller: Caller = NOBODY) -> Embedded:
        """Embed one search text; vectors (1, d). Meant for an answer that somebody waits for: it does not queue."""
        ...


class MediaEmbedder(Embedder, Protocol):
    """An embedder whose profile may be `multimodal`."""

    def embed_media(self, data: bytes, mime_type: str, caller: Caller = NOBODY) -> Embedded:
        """Embed one file as such; vectors (1, d) in the space of the texts. Raises `TextRefused` for one that is
        damaged, too large, or of a kind that the model does not read."""
        ...
