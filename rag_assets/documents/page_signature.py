"""What a web page says, in short: enough to tell which pages look alike and which blocks they share."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from rag_assets.documents.model import Block, Document

_WORD = re.compile(r"\w+")
_SHINGLE = 5  # words
PERMUTATIONS = 64
_FEWEST_WORDS = 20  # below that, two pages look alike by chance
_REPEATABLE = ("paragraph", "list")

_random = np.random.default_rng(7)  # the same in every process: signatures are kept and compared later
_FACTORS = _random.integers(1, 2**63, PERMUTATIONS, dtype=np.uint64) | np.uint64(1)
_OFFSETS = _random.integers(0, 2**63, PERMUTATIONS, dtype=np.uint64)
_POWERS = np.array([pow(1_000_003, power, 2**64) for power in range(_SHINGLE)], dtype=np.uint64)


@dataclass(frozen=True)
class PageSignature:
    """A page in short: MinHash (64,) uint64 of its shingles of 5 words (Broder, 1997), and a hash of each block, 0
    where a block is not one that boilerplate is made of."""

    minhash: NDArray[np.uint64]
    blocks: tuple[int, ...]


def is_page(content_type: str | None) -> bool:
    """Whether a document of this type is a web page."""
    return content_type in ("text/html", "application/xhtml+xml")


def signature_of(document: Document) -> PageSignature | None:
    """The signature of a page; None of what is no page, or too short to be told from others."""
    if not is_page(document.content_type):
        return None
    words = _WORD.findall(document.text.lower())
    if len(words) < _FEWEST_WORDS:
        return None
    shingles = shingles_of(words)
    minhash = np.full(PERMUTATIONS, np.iinfo(np.uint64).max, dtype=np.uint64)
    for part in np.array_split(shingles, len(shingles) // 4096 + 1):  # 2 MB at a time
        mixed = part[:, None] * _FACTORS + _OFFSETS
        mixed ^= mixed >> np.uint64(32)
        minhash = np.minimum(minhash, (mixed * _FACTORS).min(axis=0))
    return PageSignature(minhash, tuple(_block_hash(document, block) for block in document.blocks))


def shingles_of(words: Sequence[str]) -> NDArray[np.uint64]:
    """The hashes (n,) of all runs of 5 words, each once and sorted; of fewer words that of all."""
    length = min(len(words), _SHINGLE)
    if not length:
        return np.empty(0, dtype=np.uint64)
    hashes = np.array([zlib.crc32(word.encode()) for word in words], dtype=np.uint64)
    windows = np.lib.stride_tricks.sliding_window_view(hashes, length)
    return np.unique((windows * _POWERS[:length]).sum(axis=1, dtype=np.uint64))


def _block_hash(document: Document, block: Block) -> int:
    if block.kind not in _REPEATABLE:
        return 0
    words = " ".join(document.text[block.start : block.end].lower().split())
    return int.from_bytes(blake2b(words.encode(), digest_size=8).digest(), "big", signed=True)
