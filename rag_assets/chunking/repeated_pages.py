"""Web pages that say the same: which add nothing to another, and which blocks stand on many of them.

Nothing that is said once is lost by it: a page is dropped only for another that looks like it and holds every one of
its words, and a block that many pages repeat stays on the first of them.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from rag_assets.chunking import ChunkingSpec, chunk_document
from rag_assets.documents.model import Chunk, Document
from rag_assets.documents.page_signature import PageSignature

_WORD = re.compile(r"\w+")
_BANDS = 16  # of 4 permutations: pages that share half of their shingles nearly always meet in one
_ALIKE = 0.8  # of the shingles, by the estimate of MinHash
_FEWEST_PAGES, _SHARE_OF_PAGES = 5, 0.3  # a block on so many pages is boilerplate


@dataclass(frozen=True)
class Page:
    """A page among others, with the version it stands for."""

    id: UUID
    checksum: str
    signature: PageSignature


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
