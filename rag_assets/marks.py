"""Runs of combining marks: putting them in order takes a time that grows with the square of their number."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import NamedTuple

MOST = 30  # more are in no language: the stream-safe text format, Unicode Standard Annex 15, section 13
_FIRST, _END = 0x300, 0x1F000
_PLANE_END = 0x10000
_BEYOND = re.compile(f"[{chr(_PLANE_END)}-{chr(_END - 1)}]")


def bounded(text: str) -> str:
    """Return `text` with at most `MOST` combining marks in a row, so that it can be normalised in linear time."""
    if text.isascii():
        return text
    marks = _marks(_END if _BEYOND.search(text) else _PLANE_END)
    # A run of so many holds one character of each `MOST`, and most texts have no mark there: no need to look at all.
    return marks.run.sub(r"\1", text) if marks.one.search(text[::MOST]) else text


class _Marks(NamedTuple):
    one: re.Pattern[str]
    run: re.Pattern[str]  # longer than is kept


@cache
def _marks(end: int) -> _Marks:
    """Of marks below a code point. A set of characters with one beyond the first plane is no bitmap but a list, which
    `re` walks for every character of a text: 40 times slower."""
    marks = "".join(one for code in range(_FIRST, end) if _is_mark(one := chr(code)))
    return _Marks(re.compile(f"[{marks}]"), re.compile(f"([{marks}]{{{MOST}}})[{marks}]+"))


def _is_mark(one: str) -> bool:
    """Also where only its decomposition is made of marks."""
    if unicodedata.category(one)[0] not in "ML":
        return False
    return all(unicodedata.combining(part) for part in unicodedata.normalize("NFKD", one))
