"""Texts longer than a model reads: cut into windows that it does, whose vectors are averaged by their length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rag_assets.embedding.check import checked
from rag_assets.embedding.profiles import EmbeddingProfile
from rag_assets.embedding.providers.families import Prefixes
from rag_assets.errors import InvalidProfile
from rag_assets.printing import counted

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer


@dataclass(frozen=True)
class Window:
    """A part of a text that a model reads to its end, and what it weighs in the text's vector.

    `size` is in tokens with their prefix where the model's tokenizer is known, else in bytes of the text.
    """

    text: str
    size: int


def mean_of_windows(vectors: ArrayLike, texts: Sequence[Sequence[Window]], dimensions: int) -> NDArray[np.float32]:
    """One unit vector (n, d) for each of n texts, from the vectors of all their windows, one after the other.

    A text of one window keeps that vector; others get sum(size_i * v_i) / |sum(size_i * v_i)| over unit vectors v_i.

    Raises:
        EmbeddingError: a window's vector is missing or must not be stored, or those of a text cancel out.
    """
    windows = checked(vectors, sum(map(len, texts)), dimensions)
    means = np.empty((len(texts), dimensions), dtype=np.float32)
    start = 0
    for row, parts in enumerate(texts):
        own = windows[start : start + len(parts)]
        weights = np.array([part.size for part in parts], dtype=np.float32)
        means[row] = own[0] if len(parts) == 1 else weights @ own / weights.sum()
        start += len(parts)
    return checked(means, len(texts), dimensions)


def byte_windows(text: str, limit: int) -> list[Window]:
    """Cut a text into windows of at most `limit` (>= 8) bytes of UTF-8, at white space where there is some.

    A tokenizer that covers every byte, as those of the hosted models do, makes no more tokens than bytes: such a
    window fits a limit of so many tokens without a look at the model's vocabulary.
    """
    data = text.encode("utf-8")
    windows, start = [], 0
    while start < len(data):
        parts = -(-(len(data) - start) // limit)
        end = min(len(data), start + -(-(len(data) - start) // parts))
        if end < len(data):
            end = _cut_before(data, start, end)
        windows.append(Window(data[start:end].decode("utf-8"), end - start))
        start = end
    return _without_blanks(windows) or [Window(text, len(data))]


def _cut_before(data: bytes, start: int, end: int) -> int:
    # White space in the second half of the window, else between any two characters.
    space = max(data.rfind(byte, start + (end - start) // 2, end) for byte in (b" ", b"\n"))
    if space > start:
        return space + 1
    while data[end] & 0xC0 == 0x80:  # a byte that continues a character
        end -= 1
    return end


def _without_blanks(windows: list[Window]) -> list[Window]:
    return [window for window in windows if window.text.strip()]


class TokenWindows:
    """Cuts texts into windows of at most `limit` tokens of a tokenizer, special tokens and prefix included.

    `limit` None: the model reads any text to its end, and each is one window. The tokenizer must neither truncate nor
    pad; it is only read, so threads may share it.
    """

    def __init__(self, tokenizer: Tokenizer, limit: int | None) -> None:
        self._tokenizer = tokenizer
        self._limit = limit

    def count(self, text: str) -> int:
        """Tokens that the model reads for a text, special tokens included."""
        return len(self._tokenizer.encode(text))

    def room(self, prefix: str) -> int | None:
        """Tokens of a text that fit into a window beside the special tokens and a prefix."""
        return None if self._limit is None else self._limit - self.count(prefix)

    def cut(self, text: str, prefix: str) -> list[Window]:
        """The windows of a text, without the prefix, in its order. Nothing of the text is left out of them.

        Raises:
            ValueError: the prefix leaves no room.
        """
        tokens = self.count(prefix + text)
        room = self.room(prefix)
        if room is None or self._limit is None or tokens <= self._limit:
            return [Window(text, tokens)]
        if room < 1:
            raise ValueError(
                f"a prefix of {counted(self.count(prefix), 'token')} leaves no room in a window of {self._limit}"
            )
        return self._cut(text, prefix, room)

    def _cut(self, text: str, prefix: str, room: int) -> list[Window]:
        windows: list[Window] = []
        for part in _parts(text, self._tokenizer.encode(text, add_special_tokens=False), room):
            tokens = self.count(prefix + part)
            # A part can have more tokens alone than it had in its text, where it begins or ends within a word.
            if self._limit is not None and tokens > self._limit and room > 1:
                windows += self._cut(part, prefix, room * 3 // 4)
            else:
                windows.append(Window(part, tokens))
        return windows


def check_room(profile: EmbeddingProfile, windows: TokenWindows, prefixes: Prefixes) -> None:
    """See that beside a profile's prefixes there is room for texts.

    Raises:
        InvalidProfile: there is none.
    """
    for prefix in (prefixes.query, prefixes.document):
        room = windows.room(prefix)
        if room is not None and room < 1:
            raise InvalidProfile(f"profile {profile.name!r}: a prefix fills the whole window of {profile.model}")


def _parts(text: str, encoding: Encoding, room: int) -> list[str]:
    """The text in parts of nearly equal length and of at most `room` tokens, cut between words if that is possible."""
    begins, total = [begin for begin, _ in encoding.offsets], len(encoding)
    parts, start, begin = [], 0, 0
    while start < total:
        rest = total - start
        end = _word_start(text, begins, start, start + -(-rest // -(-rest // room)))
        while end < total and begins[end] <= begin:  # several tokens of one character
            end += 1
        stop = begins[end] if end < total else len(text)
        parts.append(text[begin:stop])
        start, begin = end, stop
    return parts


def _word_start(text: str, begins: Sequence[int], start: int, end: int) -> int:
    """The last token of (start, end] that begins a word; `end` where there is none in the second half."""
    for cut in range(end, start + (end - start) // 2, -1):
        # By the text and not by the tokenizer's own word numbers: for some tokenizers a whole text is one word.
        if cut == len(begins) or text[begins[cut]].isspace() or text[begins[cut] - 1 : begins[cut]].isspace():
            return cut
    return end
