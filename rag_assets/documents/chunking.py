"""Documents to chunks: as large as allowed, cut where the text itself is divided."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from typing import Literal

from pydantic import BaseModel, ConfigDict, model_validator

from rag_assets.documents.model import Chunk, Document
from rag_assets.documents.outline import Outline
from rag_assets.errors import InvalidProfile

MIN_SIZE = 20  # characters
MAX_SIZE = 20_000

_NONSPACE = re.compile(r"\S")
_WORD_START = re.compile(r"\s\S")
_TOKEN = re.compile(r"\w+|[^\w\s]")

# Tried in this order; each entry is a list of alternatives, and how many of their characters stay in front.
_SEPARATORS = (
    (("\n\n",), 0),
    ((".\n", "!\n", "?\n"), 1),
    (("\n",), 0),
    ((". ", "! ", "? "), 1),
    ((" ", "\t"), 0),
)
_WIDE_SEPARATORS = (
    *_SEPARATORS[:3],
    ((". ", "! ", "? ", "。", "！", "？", "؟ ", "। "), 1),
    ((" ", "\t", "\u3000", "\u00a0"), 0),
    (("、", "，", "；", "："), 1),
)
_GRAPHEME_REACH = 32  # characters; longer sequences of combining marks are not real text


class ChunkingSpec(BaseModel):
    """How documents are divided. Sizes are in characters (code points).

    Raises InvalidProfile for a size or overlap that could not work.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    strategy: Literal["recursive"] = "recursive"
    size: int
    overlap: int

    @model_validator(mode="after")
    def _check(self) -> ChunkingSpec:
        if not MIN_SIZE <= self.size <= MAX_SIZE:
            raise InvalidProfile(f"chunk size {self.size} is not between {MIN_SIZE} and {MAX_SIZE:,} characters")
        if not 0 <= self.overlap < self.size:
            raise InvalidProfile(
                f"chunk overlap {self.overlap} must be at least 0 and less than the chunk size {self.size}"
            )
        return self


def chunk_document(document: Document, spec: ChunkingSpec) -> list[Chunk]:
    """Divide a document into chunks of at most `spec.size` characters.

    `document.text[c.start:c.end] == c.content` for every chunk. Starts and ends strictly increase, no chunk
    is blank or begins or ends with white space, and every character that is not white space is in a chunk: in
    exactly one where the overlap is 0. A chunk begins at most `spec.overlap` characters before the end of the
    last one, and at a heading without any overlap.
    """
    text, outline = document.text, Outline(document.blocks)
    chunks = []
    for index, (start, end) in enumerate(_spans(text, outline, spec.size, spec.overlap)):
        content = text[start:end]
        chunks.append(
            Chunk(
                index=index,
                content=content,
                start=start,
                end=end,
                token_count=count_tokens(content),
                page=outline.page(start),
                page_end=outline.page(end - 1),
                heading_path=outline.headings(start),
            )
        )
    return chunks


def _spans(text: str, outline: Outline, size: int, overlap: int) -> Iterator[tuple[int, int]]:
    first = _NONSPACE.search(text)
    if first is None:
        return
    separators = _SEPARATORS if text.isascii() else _WIDE_SEPARATORS
    limit = len(text.rstrip())
    # `fresh` is the first character that no chunk has yet; every chunk takes in at least that one.
    start = fresh = first.start()
    while limit - start > size:
        cut = _cut(text, outline, separators, (start, fresh, start + size))
        end = start + len(text[start:cut].rstrip())
        yield start, end
        fresh = _next_nonspace(text, cut)
        start = fresh if fresh in outline.sections else _step_back(text, start, end, fresh, overlap)
    yield start, limit


def _next_nonspace(text: str, position: int) -> int:
    found = _NONSPACE.search(text, position)
    return found.start() if found else len(text)


_Separators = tuple[tuple[tuple[str, ...], int], ...]


def _cut(text: str, outline: Outline, separators: _Separators, bounds: tuple[int, int, int]) -> int:
    """Return where the chunk that starts at `bounds[0]` ends: after `fresh`, and at `high` at the latest."""
    start, fresh, high = bounds
    middle = max((start + high) // 2, fresh + 1)
    for low, top in ((middle, high), (fresh + 1, middle)):
        for offsets in outline.divisions:
            position = bisect_right(offsets, top) - 1
            if position >= 0 and offsets[position] >= low:
                return offsets[position]
        for alternatives, kept in separators:
            found = max(text.rfind(mark, low - kept, top + len(mark) - kept) + kept for mark in alternatives)
            if found >= low:
                return found
    return _between_graphemes(text, fresh, high)


def _between_graphemes(text: str, fresh: int, high: int) -> int:
    """Return the last offset up to `high` that does not part a base character from its marks."""
    for position in range(high, max(fresh, high - _GRAPHEME_REACH), -1):
        if not _joins(text, position, fresh):
            return position
    return high


def _joins(text: str, position: int, known: int) -> bool:
    """Tell whether the characters around `position` are shown as one; `known` is where two surely are not."""
    before, after = text[position - 1], text[position]
    if after < "\u0300":
        return False
    if before == "\u200d" or after == "\u200d" or unicodedata.category(after) in ("Mn", "Me", "Mc"):
        return True
    if "\U0001f3fb" <= after <= "\U0001f3ff" or "\U000e0020" <= after <= "\U000e007f":
        return True
    if not (_is_flag_half(before) and _is_flag_half(after)):
        return False
    run = position
    while run > known and _is_flag_half(text[run - 1]):
        run -= 1
    return (position - run) % 2 == 1


def _is_flag_half(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _step_back(text: str, start: int, end: int, fresh: int, overlap: int) -> int:
    """Return the next chunk's start: up to `overlap` characters before `fresh`, at a word if it can be."""
    low = max(fresh - overlap, start + 1)
    if low >= end:
        return fresh
    word = _WORD_START.search(text, low - 1, end)
    if word:
        return word.start() + 1
    # The last word is longer than the overlap. Half a word helps nobody, unless it is cut anyway.
    if fresh > end and text[low - 1].isascii() and text[low].isascii():
        return fresh
    for position in range(low, min(end, low + _GRAPHEME_REACH)):
        if not _joins(text, position, start):
            return position
    return fresh


def _kind(character: str) -> str:
    if not _TOKEN.match(character):
        return " "
    return "a" if re.match(r"\w", character) else "."


_ASCII_KINDS = bytes(ord(_kind(chr(code))) if code < 128 else 0 for code in range(256))


def count_tokens(text: str) -> int:
    """Return the number of words and punctuation marks: matches of `\\w+|[^\\w\\s]`."""
    if not text.isascii():
        return len(_TOKEN.findall(text))
    # The same count 5 times faster: where does a word follow something else, and how many marks are there.
    kinds = text.encode("ascii").translate(_ASCII_KINDS)
    return kinds.count(b" a") + kinds.count(b".a") + kinds.count(b".") + kinds.startswith(b"a")
