"""Chunks as large as allowed, cut where the text itself is divided: the default."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

from rag_assets.chunking.graphemes import GRAPHEME_REACH, between_graphemes, joins
from rag_assets.chunking.outline import Outline

NONSPACE = re.compile(r"\S")
_WORD_START = re.compile(r"\s\S")
_LINE_ENDS = (".\n", "!\n", "?\n")
_STOPS = (". ", "! ", "? ", "。", "！", "？", "؟ ", "। ")
_SPACES = (" ", "\t", "\u3000", "\u00a0")
_COMMAS = ("、", "，", "；", "：")

Divisions = Sequence[Sequence[int]]


def recursive_spans(text: str, outline: Outline, size: int, overlap: int) -> Iterator[tuple[int, int]]:
    """Yield the spans of chunks of at most `size` characters."""
    first = NONSPACE.search(text)
    if first is None:
        return
    marks, divisions, sections = Marks.of(text), outline.divisions, outline.sections
    limit = len(text.rstrip())
    # `fresh` is the first character that no chunk has yet; every chunk takes in at least that one.
    start = fresh = first.start()
    while limit - start > size:
        # What nearly every turn needs stands here itself: a call takes as long as the work.
        high = start + size
        middle = (start + high) // 2
        cut = _last_division(text, divisions, marks, middle, high) if middle > fresh else -1
        if cut < 0:
            cut = best_cut(text, divisions, marks, start, fresh, high)
        end = stripped_end(text, start, cut) if text[cut - 1].isspace() else cut
        yield start, end
        fresh = cut if not text[cut].isspace() else next_nonspace(text, cut)
        if fresh in sections:
            start = fresh
        else:
            low = fresh - overlap
            start = step_back(text, start, end, fresh, low if low > start else start + 1)
    yield start, limit


def stripped_end(text: str, start: int, cut: int) -> int:
    """Return the end of what is left of `text[start:cut]` without the white space at its end."""
    if not text[cut - 1].isspace():
        return cut
    return start + len(text[start:cut].rstrip())


def next_nonspace(text: str, position: int) -> int:
    """Return the offset of the first character from `position` on that is no white space; the length if none is."""
    # Nearly every cut is in front of a single space or of none; asking for those first saves a search.
    if position + 1 < len(text):
        if not text[position].isspace():
            return position
        if not text[position + 1].isspace():
            return position + 1
    found = NONSPACE.search(text, position)
    return found.start() if found else len(text)


class Marks(NamedTuple):
    """The separators that a text may hold, best first; empty lines and line feeds are looked for in any."""

    stops: tuple[str, ...]
    spaces: tuple[str, ...]
    commas: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str) -> Marks:
        # Asked once, so that no cut looks for what is nowhere. One character is found 50 times as fast as two.
        if text.isascii():
            return _ASCII_MARKS["!" in text, "?" in text, "\t" in text]
        return cls(
            tuple([stop for stop in _STOPS if stop[0] in text]),
            _SPACES,
            tuple([comma for comma in _COMMAS if comma in text]),
        )


_ASCII_MARKS = {
    (exclaims, asks, tabs): Marks(
        (". ", *(["! "] if exclaims else []), *(["? "] if asks else [])), (" ", "\t") if tabs else (" ",)
    )
    for exclaims, asks, tabs in product((False, True), repeat=3)
}


def best_cut(text: str, divisions: Divisions, marks: Marks, start: int, fresh: int, high: int) -> int:
    """Return where the chunk that begins at `start` ends: after `fresh`, and at `high` at the latest.

    In the second half of the window if there is any division, else in the first: at a page or block, an empty
    line, the end of a line, of a sentence, of a word, and last between any two characters.
    """
    middle = (start + high) // 2
    if middle <= fresh:
        middle = fresh + 1
    cut = _last_division(text, divisions, marks, middle, high)
    if cut < 0:
        cut = _last_division(text, divisions, marks, fresh + 1, middle)
    return cut if cut >= 0 else between_graphemes(text, fresh, high)


def _last_division(text: str, divisions: Divisions, marks: Marks, low: int, top: int) -> int:
    """Return the best offset from `low` to `top`, both included, or a negative number."""
    for offsets in divisions:
        position = bisect_right(offsets, top) - 1
        if position >= 0 and offsets[position] >= low:
            return offsets[position]
    # One look for a line feed tells whether three kinds of division are worth a look of their own.
    line = text.rfind("\n", low, top + 1)
    if line >= 0:
        return _last_line(text, low, top, line)
    stop = _last_mark(text, marks.stops, low - 1, top)
    if stop >= 0:
        return stop + 1
    space = _last_mark(text, marks.spaces, low, top + 1)
    if space >= 0 or not marks.commas:
        return space
    comma = _last_mark(text, marks.commas, low - 1, top)
    return comma + 1 if comma >= 0 else comma


def _last_line(text: str, low: int, top: int, line: int) -> int:
    empty = text.rfind("\n\n", low, top + 2)
    if empty >= 0:
        return empty
    if text[line - 1] in ".!?":
        return line
    sentence = _last_mark(text, _LINE_ENDS, low - 1, top)
    return sentence + 1 if sentence >= 0 else line


def _last_mark(text: str, marks: tuple[str, ...], low: int, top: int) -> int:
    """Return where the last of any of these begins, from `low` to before `top`; a negative number if none does."""
    found = -1
    for mark in marks:
        # A mark in front of the one that is found already does not matter: most of these look at a few characters.
        at = text.rfind(mark, found if found >= 0 else low, top + len(mark) - 1)
        if at > found:
            found = at
    return found


def step_back(text: str, start: int, end: int, fresh: int, low: int) -> int:
    """Return the next chunk's start: from `low` on, behind `start`, at a word if it can be, `fresh` at the latest."""
    if low >= end:
        return fresh
    word = _WORD_START.search(text, low - 1, end)
    if word:
        return word.start() + 1
    # The last word is longer than the overlap. Half a word helps nobody, unless it is cut anyway.
    if fresh > end and text[low - 1].isascii() and text[low].isascii():
        return fresh
    for position in range(low, min(end, low + GRAPHEME_REACH)):
        if not joins(text, position, start):
            return position
    return fresh
