"""Signed feature hashing of words and word pairs: an embedder with no model, the same in every process.

It knows no synonyms, and is meant for tests and for trying a pipeline at any dimension.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rag_assets.embedding.check import check_texts, checked
from rag_assets.embedding.profiles import EmbeddingProfile
from rag_assets.embedding.protocol import Embedded, Embedder

_WORD = re.compile(r"\w+")


class HashEmbedder:
    """Counts of hashed features, each added or subtracted, at unit length.

    n words give n + (n - 1) features. That is an odd number of steps of one, so they cannot all
    cancel: no text has a zero vector. A text without a word is a feature of its own.
    """

    def __init__(self, profile: EmbeddingProfile) -> None:
        self.model_key = profile.model_key
        self.dimensions = profile.dimensions
        self._document_prefix = profile.task_instruction.get("document", "")
        self._query_prefix = profile.task_instruction.get("query", "")

    def embed_documents(self, texts: Sequence[str]) -> Embedded:
        """See `Embedder.embed_documents`; a token is a word."""
        check_texts(texts)
        words = [_words(self._document_prefix + text) for text in texts]
        vectors = self._vectors(words)
        return Embedded(vectors, sum(map(len, words)), 0.0)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """See `Embedder.embed_query`."""
        check_texts([text])
        return self._vectors([_words(self._query_prefix + text)])[0]

    def _vectors(self, texts: Sequence[list[str]]) -> NDArray[np.float32]:
        counts = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, words in zip(counts, texts, strict=True):
            for feature in [*words, *(f"{left} {right}" for left, right in pairwise(words))]:
                number = _hash(feature)
                row[(number >> 1) % self.dimensions] += 1 if number & 1 else -1
        return checked(counts, len(texts), self.dimensions)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower()) or [text.strip()]


@lru_cache(maxsize=65536)
def _hash(feature: str) -> int:
    # Not hash(): Python salts it anew in every process.
    return int.from_bytes(blake2b(feature.encode("utf-8"), digest_size=8).digest(), "big")


def build(profile: EmbeddingProfile) -> Embedder:
    """The embedder of a profile whose provider is `hash`."""
    return HashEmbedder(profile)
