"""What is made of words that come again."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

_Word = TypeVar("_Word", bound=Hashable)
_Made = TypeVar("_Made")


class Memo(dict[_Word, _Made]):
    """`memo[word]` is `make(word)`, which is called for words that were not asked for lately.

    At most about `size` words are kept: those of the last half of them, and of the half before. A look into a dict
    costs a quarter of one into `functools.lru_cache`, which sets its order right each time. Threads may share one.
    """

    def __init__(self, make: Callable[[_Word], _Made], size: int) -> None:
        super().__init__()
        self._make, self._half = make, size // 2
        self._before: dict[_Word, _Made] = {}

    def __missing__(self, word: _Word) -> _Made:
        before = self._before
        made = before[word] if word in before else self._make(word)
        if len(self) >= self._half:
            self._before = dict(self)
            self.clear()
        self[word] = made
        return made
