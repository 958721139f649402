"""Embedding through a cache: a text is paid for once, however often it appears or a run is killed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rag_assets.embedding.check import check_texts, checked
from rag_assets.embedding.protocol import NOBODY, Caller, Embedded, Embedder, MediaEmbedder, Usage
from rag_assets.embedding.providers.requests import plan_batches
from rag_assets.embedding.refused import (
    NothingRemembered,
    RefusedTexts,
    Suspects,
    in_doubt,
    is_of_a_text,
    is_unanswered,
)
from rag_assets.errors import EmbeddingError, TextRefused

_LOOKUP = 2000  # hashes in one cache lookup
_UNIT_TOLERANCE = 1e-3
_FORGETFUL = NothingRemembered()


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
    memory: RefusedTexts = _FORGETFUL,
    batch_bytes: int | None = None,
    probe_first: bool = False,
) -> CachedEmbedding:
    """Embed documents, asking the model only for texts that the cache does not know.

    `embedder.batch_items` texts are sent at a time, unless `batch_size` says otherwise, of at most `batch_bytes` in
    UTF-8; a longer text is alone. Each batch is in the cache before the next is sent: a run that is killed resumes and
    pays for one batch again at most. A batch that is refused, answered with what must not be stored, or not answered
    while a plain word is, is halved until the text that is to blame stands alone, and the others are embedded.
    `memory` keeps those texts, which are not sent again, or not soon. `probe_first`: where nothing is in the cache and
    there is more than one batch, a plain word has to be embedded before anything else is paid for. `on_batch` is
    called with the number of texts that are done. A cached vector that could not be this model's (dimension, NaN, not
    of unit length) is embedded anew.

    Raises:
        EmbeddingError: also a plain word is answered with what must not be stored, of which nothing is; or no answer,
            or no right to one. What came before stays in the cache.
        ProviderRefused: also where a plain word is refused too, so that no text can be to blame.
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
    work = _Work(embedder, cache, caller, memory, known, texts=missing)
    batches = work.batches(size, batch_bytes)
    if probe_first and not known and len(batches) > 1:
        work.suspects.require_works()
    for batch in batches:
        work.embed(batch)
        if on_batch is not None:
            on_batch(len(batch))
    work.suspects.settle()
    aligned = np.full((len(texts), embedder.dimensions), np.nan, dtype=np.float32)
    for row, digest in enumerate(hashes):
        if digest in known:
            aligned[row] = known[digest]
    return work.result(aligned, cache_hits, hashes)


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
    memory: RefusedTexts = _FORGETFUL,
) -> CachedEmbedding:
    """Embed files as such, reading and sending only those that the cache does not know.

    One file is one request, and in the cache before the next is sent. The vectors of files that are refused, and of
    those whose `read` returned None, are NaN; the latter are not in `refused`. `memory` keeps the former, which are not
    sent again. `on_file` is called with 1 after each.

    Raises:
        EmbeddingError, ProviderRefused: as for texts.
        ProviderUnavailable, ProviderRefused, CostCeilingReached: what came before stays in the cache.
    """
    hashes = [media_hash(file.mime_type, file.checksum) for file in files]
    known = _lookup(embedder, cache, list(dict.fromkeys(hashes)))
    cache_hits = sum(digest in known for digest in hashes)
    cache.count_hits(embedder.model_key, cache_hits)
    work = _MediaWork(embedder, cache, caller, memory, known)
    work.suspects.recall([digest for digest in dict.fromkeys(hashes) if digest not in known])
    tried: set[bytes] = set()
    for digest, file in zip(hashes, files, strict=True):
        if digest not in known and digest not in work.suspects.found and digest not in tried:
            tried.add(digest)
            work.embed_file(embedder, digest, file)
        if on_file is not None:
            on_file(1)
    work.suspects.settle()
    nothing = np.full(embedder.dimensions, np.nan, dtype=np.float32)
    vectors = np.array([known.get(digest, nothing) for digest in hashes], np.float32).reshape(-1, embedder.dimensions)
    return work.result(vectors, cache_hits, hashes)


@dataclass
class _Spent:
    """What was paid."""

    embedder: Embedder
    cache: VectorCache
    tokens: int = 0
    cost_usd: float = 0.0

    def count(self, usage: Usage) -> None:
        """Count what a request has cost."""
        self.tokens += usage.tokens
        self.cost_usd += usage.cost_usd

    def count_alone(self, usage: Usage) -> None:
        """Count what has cost something and is not kept."""
        self.cache.put(self.embedder.model_key, [], np.empty((0, self.embedder.dimensions), np.float32), usage)
        self.count(usage)


@dataclass
class _Requests:
    """What is asked of the model and kept, in one run."""

    embedder: Embedder
    cache: VectorCache
    caller: Caller
    memory: RefusedTexts
    known: dict[bytes, NDArray[np.float32]]
    embedded: int = 0
    spent: _Spent = field(init=False)
    suspects: Suspects = field(init=False)

    def __post_init__(self) -> None:
        self.spent = _Spent(self.embedder, self.cache)
        # Nothing refers to itself: until a collector came by, the texts and vectors of many parts would be there.
        self.suspects = Suspects(self.embedder, self.caller, self.memory, self.spent.count_alone)

    def result(self, vectors: NDArray[np.float32], cache_hits: int, hashes: Sequence[bytes]) -> CachedEmbedding:
        """What became of the texts or files of these hashes, whose vectors stand in the same order."""
        found = self.suspects.found
        refused = {row: found[digest] for row, digest in enumerate(hashes) if digest in found}
        return CachedEmbedding(vectors, self.embedded, cache_hits, self.spent.tokens, self.spent.cost_usd, refused)

    def _keep(self, batch: Sequence[bytes], vectors: NDArray[np.float32], usage: Usage) -> None:
        self.cache.put(self.embedder.model_key, batch, vectors, usage)
        self.known.update(zip(batch, vectors, strict=True))
        self.embedded += len(batch)
        self.spent.count(usage)
        self.suspects.something_was_embedded()


@dataclass
class _MediaWork(_Requests):
    """Embeds files one by one."""

    def embed_file(self, embedder: MediaEmbedder, digest: bytes, file: MediaFile) -> None:
        data = file.read()
        if data is None:
            return
        self.suspects.begin()
        try:
            answer = embedder.embed_media(data, file.mime_type, self.caller)
            vectors = checked(answer.vectors, 1, embedder.dimensions)
        except EmbeddingError as error:
            # An answer that must not be stored, as for a kind of file that the model does not read after all, is this
            # file's alone: its text and the other files are embedded. What no file is to blame for is raised.
            if not is_of_a_text(error):
                raise
            if is_unanswered(error):
                self.suspects.doubt(error)
            self.suspects.add(digest, error)
        else:
            self._keep([digest], vectors, answer.usage)


@dataclass
class _Work(_Requests):
    """Embeds batches of distinct `texts`."""

    texts: Mapping[bytes, str] = field(default_factory=dict)

    def batches(self, size: int, batch_bytes: int | None) -> list[list[bytes]]:
        """What is sent, in batches of so many texts and bytes."""
        sent = self._sendable()
        sizes = [len(self.texts[digest].encode("utf-8")) for digest in sent]
        planned = plan_batches(sizes, size, sys.maxsize if batch_bytes is None else batch_bytes)
        return [sent[one.start : one.stop] for one in planned]

    def _sendable(self) -> list[bytes]:
        """The texts that are sent: neither refused before, nor such as no model can embed."""
        self.suspects.recall(list(self.texts))
        for digest, text in self.texts.items():
            try:
                check_texts([text])
            except TextRefused as error:
                self.suspects.add(digest, error)
        return [digest for digest in self.texts if digest not in self.suspects.found]

    def embed(self, batch: list[bytes]) -> None:
        """Embed a batch, and see to those of it that cannot be."""
        self.suspects.begin()
        self._embed(batch, self.caller)

    def _embed(self, batch: list[bytes], caller: Caller) -> None:
        try:
            answer = self._asked(batch, caller)
        except EmbeddingError as error:
            if not is_of_a_text(error):
                raise
            failure = error
        else:
            self._keep(batch, answer.vectors, answer.usage)
            return
        self.suspects.doubt(failure)
        if len(batch) == 1:
            self.suspects.add(batch[0], failure)
            return
        parts = in_doubt(caller) if is_unanswered(failure) else caller
        middle = len(batch) // 2
        self._embed(batch[:middle], parts)
        self._embed(batch[middle:], parts)

    def _asked(self, batch: list[bytes], caller: Caller) -> Embedded:
        began = time.monotonic()
        answer = self.embedder.embed_documents([self.texts[digest] for digest in batch], caller)
        usage = replace(answer.usage, seconds=time.monotonic() - began)
        return Embedded(checked(answer.vectors, len(batch), self.embedder.dimensions), usage)


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
