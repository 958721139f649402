"""Web pages that say the same: which add nothing to another, and which blocks stand on many of them.

Nothing that is said once is lost by it: a page is dropped only for another that looks like it and holds every one of
its words, and a block that many pages repeat stays on the first of them.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from rag_assets.chunking import ChunkingSpec, chunk_document
from rag_assets.documents.model import Block, Chunk, Document

_WORD = re.compile(r"\w+")
_SHINGLE = 5  # words
_PERMUTATIONS, _BANDS = 64, 16  # 4 rows a band: pages that share half of their shingles nearly always meet in one
_FEWEST_WORDS = 20  # below that, two pages look alike by chance
_ALIKE = 0.8  # of the shingles, by the estimate of MinHash
_FEWEST_PAGES, _SHARE_OF_PAGES = 5, 0.3  # a block on so many pages is boilerplate
_REPEATABLE = ("paragraph", "list")

_random = np.random.default_rng(7)  # the same in every process: signatures are kept and compared later
_FACTORS = _random.integers(1, 2**63, _PERMUTATIONS, dtype=np.uint64) | np.uint64(1)
_OFFSETS = _random.integers(0, 2**63, _PERMUTATIONS, dtype=np.uint64)
_POWERS = np.array([pow(1_000_003, power, 2**64) for power in range(_SHINGLE)], dtype=np.uint64)


@dataclass(frozen=True)
class PageSignature:
    """A page in short: MinHash (64,) uint64 of its shingles of 5 words (Broder, 1997), and a hash of each block, 0
    where a block is not one that boilerplate is made of."""

    minhash: NDArray[np.uint64]
    blocks: tuple[int, ...]


@dataclass(frozen=True)
class Page:
    """A page among others, with the version it stands for."""

    id: UUID
    checksum: str
    signature: PageSignature


def is_page(document: Document) -> bool:
    """Whether the document is a web page."""
    return document.content_type in ("text/html", "application/xhtml+xml")


def signature_of(document: Document) -> PageSignature | None:
    """The signature of a page; None where it is too short to be told from others."""
    words = _WORD.findall(document.text.lower())
    if len(words) < _FEWEST_WORDS:
        return None
    hashes = np.array([zlib.crc32(word.encode()) for word in words], dtype=np.uint64)
    windows = np.lib.stride_tricks.sliding_window_view(hashes, _SHINGLE)
    shingles = np.unique((windows * _POWERS).sum(axis=1, dtype=np.uint64))
    minhash = np.full(_PERMUTATIONS, np.iinfo(np.uint64).max, dtype=np.uint64)
    for part in np.array_split(shingles, len(shingles) // 4096 + 1):  # 2 MB at a time
        mixed = part[:, None] * _FACTORS + _OFFSETS
        mixed ^= mixed >> np.uint64(32)
        minhash = np.minimum(minhash, (mixed * _FACTORS).min(axis=0))
    return PageSignature(minhash, tuple(_block_hash(document, block) for block in document.blocks))


def _block_hash(document: Document, block: Block) -> int:
    if block.kind not in _REPEATABLE:
        return 0
    words = " ".join(document.text[block.start : block.end].lower().split())
    return int.from_bytes(blake2b(words.encode(), digest_size=8).digest(), "big", signed=True)


def candidates(pages: Sequence[Page]) -> Iterator[tuple[Page, Page]]:
    """Pairs of a page and an earlier one that it looks like, the most alike first for each page."""
    buckets: dict[tuple[int, bytes], list[int]] = defaultdict(list)
    for number, page in enumerate(pages):
        bands = page.signature.minhash.reshape(_BANDS, -1)
        keys = [(band, rows.tobytes()) for band, rows in enumerate(bands)]
        met = Counter(earlier for key in keys for earlier in buckets[key])
        for earlier, _ in met.most_common():
            if (page.signature.minhash == pages[earlier].signature.minhash).mean() >= _ALIKE:
                yield page, pages[earlier]
        for key in keys:
            buckets[key].append(number)


def adds_nothing(text: str, original: str) -> bool:
    """Whether every word of `text`, numbers among them, is in `original` too."""
    return set(_WORD.findall(text.lower())) <= set(_WORD.findall(original.lower()))


def duplicates(pages: Sequence[Page], texts: Mapping[UUID, str]) -> dict[UUID, Page]:
    """Id of each page that adds nothing to an earlier one -> that one, which is itself no duplicate.

    `texts` holds the texts of all pages that `candidates` named.
    """
    found: dict[UUID, Page] = {}
    for page, earlier in candidates(pages):
        if page.id not in found and earlier.id not in found and adds_nothing(texts[page.id], texts[earlier.id]):
            found[page.id] = earlier
    return found


def repeated_blocks(pages: Sequence[Page]) -> dict[int, UUID]:
    """Hash of each block that stands on many pages -> the first page with it, which keeps it."""
    counts: Counter[int] = Counter()
    first: dict[int, UUID] = {}
    for page in pages:
        for block in set(page.signature.blocks) - {0}:
            counts[block] += 1
            first.setdefault(block, page.id)
    least = max(_FEWEST_PAGES, _SHARE_OF_PAGES * len(pages))
    return {block: first[block] for block, count in counts.items() if count >= least}


def distinct_parts(document: Document, page: Page, repeated: Mapping[int, UUID]) -> list[tuple[int, int]]:
    """The spans of a page that are no repeated blocks; the whole text where nothing else would be left."""
    parts: list[tuple[int, int]] = []
    start = 0
    for block, digest in zip(document.blocks, page.signature.blocks, strict=True):
        if repeated.get(digest, page.id) != page.id:
            parts.append((start, block.start))
            start = block.end
    parts.append((start, len(document.text)))
    parts = [(begin, end) for begin, end in parts if document.text[begin:end].strip()]
    return parts or [(0, len(document.text))]


def chunk_parts(document: Document, spec: ChunkingSpec, parts: Sequence[tuple[int, int]]) -> list[Chunk]:
    """The chunks of some parts of a document, with offsets into the whole; none reaches over two parts."""
    if list(parts) == [(0, len(document.text))]:
        return chunk_document(document, spec)
    chunks: list[Chunk] = []
    for start, end in parts:
        blocks = tuple(
            replace(block, start=max(block.start, start) - start, end=min(block.end, end) - start)
            for block in document.blocks
            if block.end > start and block.start < end
        )
        part = replace(document, text=document.text[start:end], blocks=blocks)
        for chunk in chunk_document(part, spec):
            chunks.append(replace(chunk, index=len(chunks), start=chunk.start + start, end=chunk.end + start))
    return chunks
