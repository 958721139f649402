"""The walk that all chunkers but the default one share: measure a window, cut it, step back, go on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from rag_assets.chunking.graphemes import between_graphemes, joins
from rag_assets.chunking.recursive import NONSPACE, next_nonspace, step_back, stripped_end

Span = tuple[int, int]


class Ruler(Protocol):
    """Measures a text in a chunker's unit. Offsets are code points; every method takes near-constant time."""

    def reach(self, start: int) -> int:
        """The largest offset at which a chunk that begins at `start` may end."""

    def earliest(self, end: int) -> int:
        """The smallest offset at which a chunk that ends at `end` may begin."""

    def back(self, offset: int) -> int:
        """The smallest offset from which a chunk may repeat what is in front of `offset`."""

    def measure(self, start: int, end: int) -> int:
        """How much lies between two offsets."""

    def excess(self, content: str) -> int:
        """By how much a chunk's content, measured for itself, is too large; 0 if it fits."""

    def less(self, offset: int, amount: int) -> int:
        """The offset that lies `amount` in front of `offset`, and always in front of it."""


class Characters:
    """Measures in code points."""

    def __init__(self, size: int, overlap: int) -> None:
        self._size = size
        self._overlap = overlap

    def reach(self, start: int) -> int:
        return start + self._size

    def earliest(self, end: int) -> int:
        return end - self._size

    def back(self, offset: int) -> int:
        return offset - self._overlap

    def measure(self, start: int, end: int) -> int:
        return end - start

    def excess(self, content: str) -> int:
        return max(0, len(content) - self._size)

    def less(self, offset: int, amount: int) -> int:
        return offset - max(amount, 1)


class Cutter(Protocol):
    """Where chunks end and begin."""

    def cut(self, start: int, fresh: int, high: int) -> int:
        """Return where the chunk that begins at `start` ends: after `fresh`, and at `high` at the latest."""

    def restart(self, start: int, end: int, fresh: int) -> int:
        """Return where the chunk after `start` to `end` begins: after `start`, and at `fresh` at the latest."""


def window_spans(text: str, ruler: Ruler, cutter: Cutter) -> Iterator[Span]:
    """Yield the spans of all chunks. `fresh` is the first character that no chunk has yet."""
    first = NONSPACE.search(text)
    if first is None:
        return
    limit = len(text.rstrip())
    start = fresh = first.start()
    while fresh < limit:
        high = min(max(ruler.reach(start), fresh + 1), limit)
        cut = cutter.cut(start, fresh, high)
        while excess := ruler.excess(text[start:cut].rstrip()):
            # A part of a text can be more tokens than it was within the whole: give way from the end, then from
            # what is repeated. One character fits any size, so this ends.
            high = ruler.less(cut, excess)
            if high <= fresh and start < fresh:
                start = fresh
                high = min(max(ruler.reach(start), fresh + 1), limit)
            elif high <= fresh:
                high = (fresh + cut) // 2
            if high <= fresh:
                break
            cut = cutter.cut(start, fresh, high)
        end = stripped_end(text, start, cut)
        yield start, end
        fresh = next_nonspace(text, cut)
        if fresh < limit:
            start = cutter.restart(start, end, fresh)


class CharacterCutter:
    """Cuts wherever the size is reached, whatever is there, between two characters."""

    def __init__(self, text: str, ruler: Ruler) -> None:
        self._text = text
        self._ruler = ruler

    def cut(self, start: int, fresh: int, high: int) -> int:
        return between_graphemes(self._text, fresh, high)

    def restart(self, start: int, end: int, fresh: int) -> int:
        begin = max(self._ruler.back(fresh), start + 1)
        while begin < fresh and (self._text[begin].isspace() or joins(self._text, begin, start)):
            begin += 1
        return begin


class WordCutter:
    """Cuts where the size is reached, or at the end of a word a little before."""

    def __init__(self, text: str, ruler: Ruler) -> None:
        self._text = text
        self._ruler = ruler

    def cut(self, start: int, fresh: int, high: int) -> int:
        if high >= len(self._text) or self._text[high].isspace():
            return high
        low = max(fresh + 1, high - (high - start) // 4)
        space = max(self._text.rfind(mark, low, high) for mark in " \n\t")
        return space if space >= 0 else between_graphemes(self._text, fresh, high)

    def restart(self, start: int, end: int, fresh: int) -> int:
        return step_back(self._text, start, end, fresh, max(self._ruler.back(fresh), start + 1))
