"""What every embedder offers: one object per profile embeds its documents and its queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Embedded:
    """The answer for a batch of n texts: unit vectors (n, d) by position, and what they cost.

    `tokens` counts what the model read; `cost_usd` is 0 for a local model.
    """

    vectors: NDArray[np.float32]
    tokens: int
    cost_usd: float


class Embedder(Protocol):
    """Makes unit vectors of `dimensions` float32 values.

    Both methods raise `EmbeddingError` for a blank text, before any work is done, and for an answer
    that must not be stored: a wrong count or dimension, NaN, infinity, a zero vector.
    """

    @property
    def model_key(self) -> str:
        """Equal to `EmbeddingProfile.model_key`: two embedders share it if they make the same vectors."""
        ...

    @property
    def dimensions(self) -> int: ...

    def embed_documents(self, texts: Sequence[str]) -> Embedded:
        """Embed texts to be searched; vectors (n, d) in the order of the texts."""
        ...

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Embed one search text; shape (d,)."""
        ...
