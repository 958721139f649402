"""Queries that nobody has to label: sentences cut out of passages, which are to find what is left of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

_MARKS = ".!?…؟۔।॥։"  # where white space follows; those of the next line end a sentence anywhere
_UNSPACED_MARKS = "。！？｡．"
_SENTENCE = re.compile(rf"(?:[^\n{_MARKS}{_UNSPACED_MARKS}]|[{_MARKS}](?!\s))+[{_MARKS}{_UNSPACED_MARKS}]*")
_PIECE = re.compile(r"\S(?:.{0,198}\S)?(?!\S)|\S{200}", re.DOTALL)
_SHORTEST = 12  # characters; less says nothing
_LEFT = 0.1  # of a sentence, in the easy case
_CODE = frozenset("{}[]()<>=_\\/|*#@`$^~+&")
_CODE_SHARE = 0.04  # prose has some 1 % of these signs, source code 6 % and more


@dataclass(frozen=True)
class SelfQuery:
    """A sentence of the passage at `place`, and the passage without it (`hard`), and with the last tenth of it
    (`easy`): a question shares few words with its answer, or some."""

    place: int
    text: str
    hard: str
    easy: str


def self_queries(texts: Sequence[str], limit: int) -> list[SelfQuery]:
    """One for each text that has at least two sentences, at most `limit`; the same ones for the same texts."""
    found: list[SelfQuery] = []
    for place, text in enumerate(texts):
        if len(found) == limit:
            break
        spans = sentences(text)
        if len(spans) > 1:
            start, end = spans[_number(text) % len(spans)]
            left = end - int((end - start) * _LEFT)
            found.append(SelfQuery(place, text[start:end], text[:start] + text[end:], text[:start] + text[left:]))
    return found


def sentences(text: str) -> list[tuple[int, int]]:
    """Where sentences of some length stand; a very long one counts as several."""
    return [
        (sentence.start() + piece.start(), sentence.start() + piece.end())
        for sentence in _SENTENCE.finditer(text)
        for piece in _PIECE.finditer(sentence.group())
        if piece.end() - piece.start() >= _SHORTEST
    ]


def is_prose(text: str) -> bool:
    """Whether a text is sentences. Lines of source code are no questions: they share names with the rest of it that
    nobody asks by."""
    return sum(map(text.count, _CODE)) < _CODE_SHARE * len(text)


def _number(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).digest())
