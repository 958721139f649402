"""A cache of vectors without a database."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rag_assets.embedding.protocol import Usage


class MemoryCache:
    """A `VectorCache` that lives as long as the object."""

    def __init__(self) -> None:
        self._vectors: dict[tuple[str, bytes], NDArray[np.float32]] = {}
        self.hits = 0

    def __len__(self) -> int:
        return len(self._vectors)

    def get(self, model_key: str, hashes: Sequence[bytes]) -> dict[bytes, NDArray[np.float32]]:
        """See `VectorCache.get`."""
        keys = ((model_key, digest) for digest in hashes)
        return {key[1]: self._vectors[key] for key in keys if key in self._vectors}

    def put(self, model_key: str, hashes: Sequence[bytes], vectors: NDArray[np.float32], usage: Usage) -> None:
        """See `VectorCache.put`."""
        for digest, vector in zip(hashes, vectors, strict=True):
            self._vectors[model_key, digest] = vector.copy()

    def count_hits(self, model_key: str, hits: int) -> None:
        """See `VectorCache.count_hits`."""
        self.hits += hits
