"""Measures a text in a tokenizer's tokens."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

from rag_assets.chunking.tokenizers import TokenCounter

_MAX_CHARACTERS = 40_000  # some tokenizers make one token of any unknown word, however long


class Tokens:
    """A ruler over a text that was tokenised once, as a whole; what a chunk is by itself, it counts anew."""

    def __init__(self, text: str, counter: TokenCounter, size: int, overlap: int) -> None:
        self._length = len(text)
        self._counter = counter
        self._size = size
        self._overlap = overlap
        self._starts = array("q", counter.starts(text))

    def reach(self, start: int) -> int:
        return min(self._offset(self._index(start) + self._size), start + _MAX_CHARACTERS)

    def earliest(self, end: int) -> int:
        return max(self._offset(self._before(end) - self._size), end - _MAX_CHARACTERS)

    def back(self, offset: int) -> int:
        return self._offset(self._before(offset) - self._overlap) if self._overlap else offset

    def measure(self, start: int, end: int) -> int:
        return self._before(end) - self._index(start)

    def excess(self, content: str) -> int:
        return max(0, self._counter.count(content) - self._size)

    def less(self, offset: int, amount: int) -> int:
        return min(self._offset(self._before(offset) - amount), offset - 1)

    def _index(self, offset: int) -> int:
        """The token that holds the character at `offset`: the first of those that begin with it."""
        position = max(bisect_right(self._starts, offset) - 1, 0)
        return bisect_left(self._starts, self._starts[position]) if self._starts else 0

    def _before(self, offset: int) -> int:
        """How many tokens begin in front of `offset`."""
        return bisect_left(self._starts, offset)

    def _offset(self, index: int) -> int:
        if index < 0:
            return 0
        return self._starts[index] if index < len(self._starts) else self._length
