"""Embedding through a cache: a text is paid for once, however often it appears or a run is killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rag_assets.embedding.check import check_texts, checked
from rag_assets.embedding.protocol import Embedder

_LOOKUP = 2000  # hashes in one cache lookup
_UNIT_TOLERANCE = 1e-3


def content_hash(text: str) -> bytes:
    """SHA-256 of one text's UTF-8 bytes: never of several texts joined, which would collide."""
    return sha256(text.encode("utf-8")).digest()


class VectorCache(Protocol):
    """Vectors by model and content. Scoping to a tenant is the implementation's part."""

    def get(self, model_key: str, hashes: Sequence[bytes]) -> dict[bytes, NDArray[np.float32]]:
        """The vectors that are known, each of shape (d,); unknown hashes are left out."""
        ...

    def put(self, model_key: str, hashes: Sequence[bytes], vectors: NDArray[np.float32]) -> None:
        """Keep vectors (n, d) of n distinct hashes, durably by the time it returns."""
        ...


class MemoryCache:
    """A cache that lives as long as the object: for library use without a database."""

    def __init__(self) -> None:
        self._vectors: dict[tuple[str, bytes], NDArray[np.float32]] = {}

    def __len__(self) -> int:
        return len(self._vectors)

    def get(self, model_key: str, hashes: Sequence[bytes]) -> dict[bytes, NDArray[np.float32]]:
        """See `VectorCache.get`."""
        keys = ((model_key, digest) for digest in hashes)
        return {key[1]: self._vectors[key] for key in keys if key in self._vectors}

    def put(self, model_key: str, hashes: Sequence[bytes], vectors: NDArray[np.float32]) -> None:
        """See `VectorCache.put`."""
        for digest, vector in zip(hashes, vectors, strict=True):
            self._vectors[model_key, digest] = vector.copy()


@dataclass(frozen=True)
class CachedEmbedding:
    """Unit vectors (n, d) of n texts by position, and where they came from.

    `embedded` counts the texts sent to the model, `cache_hits` those answered from the cache; the
    rest of the n are duplicates within the call. `tokens` and `cost_usd` are of this call alone.
    """

    vectors: NDArray[np.float32]
    embedded: int
    cache_hits: int
    tokens: int
    cost_usd: float


def embed_documents_cached(
    embedder: Embedder,
    texts: Sequence[str],
    cache: VectorCache,
    batch_size: int = 1024,
    on_batch: Callable[[int], None] | None = None,
) -> CachedEmbedding:
    """Embed documents, asking the model only for texts that the cache does not know.

    Each batch is in the cache before the next is sent, so a run that is killed resumes without paying
    twice. `on_batch` is called after each batch with its number of texts. A cached vector that could
    not be this model's (dimension, NaN, not of unit length) is embedded anew.

    Raises:
        EmbeddingError: a blank text, before anything is sent; or an answer that must not be stored,
            of which nothing is. Batches before it stay in the cache.
        ValueError: batch_size below 1.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}")
    check_texts(texts)
    hashes = [content_hash(text) for text in texts]
    known = _lookup(embedder, cache, list(dict.fromkeys(hashes)))
    cache_hits = sum(digest in known for digest in hashes)
    missing = {digest: text for digest, text in zip(hashes, texts, strict=True) if digest not in known}
    tokens, cost = 0, 0.0
    for batch in _batches(list(missing), batch_size):
        answer = embedder.embed_documents([missing[digest] for digest in batch])
        vectors = checked(answer.vectors, len(batch), embedder.dimensions)
        cache.put(embedder.model_key, batch, vectors)
        known.update(zip(batch, vectors, strict=True))
        tokens, cost = tokens + answer.tokens, cost + answer.cost_usd
        if on_batch is not None:
            on_batch(len(batch))
    aligned = np.empty((len(texts), embedder.dimensions), dtype=np.float32)
    for row, digest in enumerate(hashes):
        aligned[row] = known[digest]
    return CachedEmbedding(aligned, len(missing), cache_hits, tokens, cost)


def _lookup(embedder: Embedder, cache: VectorCache, hashes: list[bytes]) -> dict[bytes, NDArray[np.float32]]:
    found: dict[bytes, NDArray[np.float32]] = {}
    for batch in _batches(hashes, _LOOKUP):
        answer = cache.get(embedder.model_key, batch)
        for digest in batch:
            vector = answer.get(digest)
            if vector is not None and _is_usable(vector, embedder.dimensions):
                found[digest] = vector
    return found


def _is_usable(vector: NDArray[np.float32], dimensions: int) -> bool:
    # The comparison is false for NaN and infinity too.
    return vector.shape == (dimensions,) and bool(abs(np.linalg.norm(vector) - 1) < _UNIT_TOLERANCE)


def _batches(hashes: list[bytes], size: int) -> Iterator[list[bytes]]:
    for start in range(0, len(hashes), size):
        yield hashes[start : start + size]
