"""Embedding through a cache: a text is paid for once, however often it appears or a run is killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rag_assets.embedding.check import checked
from rag_assets.embedding.protocol import NOBODY, Caller, Embedder, MediaEmbedder, Usage
from rag_assets.errors import EmbeddingError, ProviderRefused, TextRefused

_LOOKUP = 2000  # hashes in one cache lookup
_UNIT_TOLERANCE = 1e-3
_HOPELESS = 8


def content_hash(text: str) -> bytes:
    """SHA-256 of one text's UTF-8 bytes: never of several texts joined, which would collide."""
    # A lone surrogate has no bytes in UTF-8; such a text is refused later, by name.
    return sha256(text.encode("utf-8", "surrogatepass")).digest()


def media_hash(mime_type: str, checksum: str) -> bytes:
    """What stands for a file that is embedded as such; `checksum` is the SHA-256 of its bytes in hexadecimal.

    Each part is preceded by its length, and all by a byte that is in no UTF-8: no text hashes to the same.
    """
    parts = [part.encode() for part in ("media", mime_type, checksum)]
    return sha256(b"\xff" + b"".join(b"%d:%s" % (len(part), part) for part in parts)).digest()


class VectorCache(Protocol):
    """Vectors by model and content. Scoping to a tenant and a role is the implementation's part."""

    def get(self, model_key: str, hashes: Sequence[bytes]) -> dict[bytes, NDArray[np.float32]]:
        """The vectors that are known, each of shape (d,); unknown hashes are left out."""
        ...

    def put(self, model_key: str, hashes: Sequence[bytes], vectors: NDArray[np.float32], usage: Usage) -> None:
        """Keep vectors (n, d) of n distinct hashes and what they cost, durably by the time it returns."""
        ...

    def count_hits(self, model_key: str, hits: int) -> None:
        """Take note of texts that were found."""
        ...


@dataclass(frozen=True)
class CachedEmbedding:
    """Unit vectors (n, d) of n texts by position, and where they came from.

    `embedded` counts the texts that the model embedded now, `cache_hits` those answered from the cache; the rest of
    the n are duplicates within the call, or `refused`: their positions and the reasons. The vectors of these are
    NaN, which no table takes. `tokens` and `cost_usd` are of this call alone.
    """

    vectors: NDArray[np.float32]
    embedded: int
    cache_hits: int
    tokens: int
    cost_usd: float
    refused: Mapping[int, str]


def embed_documents_cached(
    embedder: Embedder,
    texts: Sequence[str],
    cache: VectorCache,
    caller: Caller = NOBODY,
    batch_size: int | None = None,
    on_batch: Callable[[int], None] | None = None,
) -> CachedEmbedding:
    """Embed documents, asking the model only for texts that the cache does not know.

    `embedder.batch_items` texts are sent at a time, unless `batch_size` says otherwise, and each batch is in the
    cache before the next is sent: a run that is killed resumes and pays for one batch again at most. A batch that
    is refused for one of its texts is halved until that one is found, and the others are embedded. `on_batch` is
    called with the number of texts that are done. A cached vector that could not be this model's (dimension, NaN,
    not of unit length) is embedded anew.

    Raises:
        EmbeddingError: an answer that must not be stored, of which nothing is; or no answer, or no right to one.
            What came before stays in the cache.
        ProviderRefused: also where all of the first `_HOPELESS` texts are refused, which no text can be to blame for.
        ValueError: batch_size below 1.
    """
    size = embedder.batch_items if batch_size is None else batch_size
    if size < 1:
        raise ValueError(f"batch_size must be at least 1, got {size}")
    hashes = [content_hash(text) for text in texts]
    known = _lookup(embedder, cache, list(dict.fromkeys(hashes)))
    cache_hits = sum(digest in known for digest in hashes)
    cache.count_hits(embedder.model_key, cache_hits)
    missing = {digest: text for digest, text in zip(hashes, texts, strict=True) if digest not in known}
    work = _Work(embedder, cache, caller, missing, known)
    for batch in _batches(list(missing), size):
        work.embed(batch)
        if on_batch is not None:
            on_batch(len(batch))
    aligned = np.full((len(texts), embedder.dimensions), np.nan, dtype=np.float32)
    for row, digest in enumerate(hashes):
        if digest in known:
            aligned[row] = known[digest]
    refused = {row: work.refused[digest] for row, digest in enumerate(hashes) if digest in work.refused}
    return CachedEmbedding(aligned, work.embedded, cache_hits, work.tokens, work.cost_usd, refused)


@dataclass(frozen=True)
class MediaFile:
    """A file to embed as such. `checksum` is the SHA-256 of its bytes in hexadecimal; `read` returns these bytes, or
    None where they are not to be had."""

    mime_type: str
    checksum: str
    read: Callable[[], bytes | None]


def embed_media_cached(
    embedder: MediaEmbedder,
    files: Sequence[MediaFile],
    cache: VectorCache,
    caller: Caller = NOBODY,
    on_file: Callable[[int], None] | None = None,
) -> CachedEmbedding:
    """Embed files as such, reading and sending only those that the cache does not know.

    One file is one request, and in the cache before the next is sent. The vectors of files that are refused, and of
    those whose `read` returned None, are NaN; the latter are not in `refused`. `on_file` is called with 1 after each.

    Raises:
        ProviderUnavailable, ProviderRefused, CostCeilingReached: what came before stays in the cache.
    """
    hashes = [media_hash(file.mime_type, file.checksum) for file in files]
    known = _lookup(embedder, cache, list(dict.fromkeys(hashes)))
    cache_hits = sum(digest in known for digest in hashes)
    cache.count_hits(embedder.model_key, cache_hits)
    work = _MediaWork(embedder, cache, caller, known)
    for digest, file in zip(hashes, files, strict=True):
        if digest not in known and digest not in work.refused:
            work.embed(digest, file)
        if on_file is not None:
            on_file(1)
    nothing = np.full(embedder.dimensions, np.nan, dtype=np.float32)
    vectors = np.array([known.get(digest, nothing) for digest in hashes], np.float32).reshape(-1, embedder.dimensions)
    refused = {row: work.refused[digest] for row, digest in enumerate(hashes) if digest in work.refused}
    return CachedEmbedding(vectors, work.embedded, cache_hits, work.tokens, work.cost_usd, refused)


@dataclass
class _MediaWork:
    """Embeds files one by one, and keeps what it gets."""

    embedder: MediaEmbedder
    cache: VectorCache
    caller: Caller
    known: dict[bytes, NDArray[np.float32]]
    refused: dict[bytes, str] = field(default_factory=dict)
    embedded: int = 0
    tokens: int = 0
    cost_usd: float = 0.0

    def embed(self, digest: bytes, file: MediaFile) -> None:
        data = file.read()
        if data is None:
            return
        try:
            answer = self.embedder.embed_media(data, file.mime_type, self.caller)
        except EmbeddingError as error:
            # An answer that must not be stored, as for a kind of file that the model does not read after all, is this
            # file's alone: its text and the other files are embedded. What no file is to blame for is raised.
            if type(error) not in (EmbeddingError, TextRefused):
                raise
            self.refused[digest] = str(error)
            return
        vectors = checked(answer.vectors, 1, self.embedder.dimensions)
        self.cache.put(self.embedder.model_key, [digest], vectors, answer.usage)
        self.known[digest] = vectors[0]
        self.embedded += 1
        self.tokens += answer.usage.tokens
        self.cost_usd += answer.usage.cost_usd


@dataclass
class _Work:
    """Embeds batches of distinct texts, and keeps what it gets."""

    embedder: Embedder
    cache: VectorCache
    caller: Caller
    texts: Mapping[bytes, str]
    known: dict[bytes, NDArray[np.float32]]
    refused: dict[bytes, str] = field(default_factory=dict)
    embedded: int = 0
    tokens: int = 0
    cost_usd: float = 0.0

    def embed(self, batch: list[bytes]) -> None:
        try:
            answer = self.embedder.embed_documents([self.texts[digest] for digest in batch], self.caller)
        except TextRefused as error:
            if len(batch) > 1:
                middle = len(batch) // 2
                self.embed(batch[:middle])
                self.embed(batch[middle:])
                return
            self._refuse(batch[0], str(error))
            return
        vectors = checked(answer.vectors, len(batch), self.embedder.dimensions)
        self.cache.put(self.embedder.model_key, batch, vectors, answer.usage)
        self.known.update(zip(batch, vectors, strict=True))
        self.embedded += len(batch)
        self.tokens += answer.usage.tokens
        self.cost_usd += answer.usage.cost_usd

    def _refuse(self, digest: bytes, reason: str) -> None:
        self.refused[digest] = reason
        if len(self.refused) >= _HOPELESS and not self.embedded:
            raise ProviderRefused(f"each of the first {_HOPELESS} texts is refused, so no text is to blame: {reason}")


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
