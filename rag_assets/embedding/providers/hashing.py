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
from rag_assets.embedding.protocol import NOBODY, Caller, Embedded, Embedder, Usage

_WORD = re.compile(r"\w+")


class HashEmbedder:
    """Counts of hashed features, each added or subtracted, at unit length.

    n words give n + (n - 1) features. That is an odd number of steps of one, so they cannot all
    cancel: no text has a zero vector. A text without a word is a feature of its own.
    """

    instant = True

    def __init__(self, profile: EmbeddingProfile) -> None:
        self.model_key = profile.model_key
        self.batch_items = profile.model_info.batch_items
        self.dimensions = profile.dimensions
        self._document_prefix = profile.task_instruction.get("document", "")
        self._query_prefix = profile.task_instruction.get("query", "")

    def embed_documents(self, texts: Sequence[str], caller: Caller = NOBODY) -> Embedded:
        """See `Embedder.embed_documents`; a token is a word."""
        check_texts(texts)
        words = [words_of(self._document_prefix + text) for text in texts]
        usage = Usage(caller.tenant, caller.bot, len(texts), sum(map(len, words)))
        return Embedded(self._vectors(words), usage)

    def embed_query(self, text: str, caller: Caller = NOBODY) -> Embedded:
        """See `Embedder.embed_query`."""
        check_texts([text])
        words = words_of(self._query_prefix + text)
        return Embedded(self._vectors([words]), Usage(caller.tenant, caller.bot, 1, len(words)))

    def _vectors(self, texts: Sequence[list[str]]) -> NDArray[np.float32]:
        counts = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, words in zip(counts, texts, strict=True):
            for feature in [*words, *(f"{left} {right}" for left, right in pairwise(words))]:
                number = _hash(feature)
                row[(number >> 1) % self.dimensions] += 1 if number & 1 else -1
        return checked(counts, len(texts), self.dimensions)


def words_of(text: str) -> list[str]:
    """The tokens of a text, at least one."""
    return _WORD.findall(text.lower()) or [text.strip()]


@lru_cache(maxsize=65536)
def _hash(feature: str) -> int:
    # Not hash(): Python salts it anew in every process.
    return int.from_bytes(blake2b(feature.encode("utf-8"), digest_size=8).digest(), "big")


def build(profile: EmbeddingProfile) -> Embedder:
    """The embedder of a profile whose provider is `hash`."""
    return HashEmbedder(profile)
