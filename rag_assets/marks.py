"""Runs of combining marks: putting them in order takes a time that grows with the square of their number."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

MOST = 30  # more are in no language: the stream-safe text format, Unicode Standard Annex 15, section 13


def bounded(text: str) -> str:
    """Return `text` with at most `MOST` combining marks in a row, so that it can be normalised in linear time."""
    return text if text.isascii() else _runs().sub(r"\1", text)


@cache
def _runs() -> re.Pattern[str]:
    marks = "".join(one for code in range(0x300, 0x1F000) if _is_mark(one := chr(code)))
    return re.compile(f"([{marks}]{{{MOST}}})[{marks}]+")


def _is_mark(one: str) -> bool:
    """Also where only its decomposition is made of marks."""
    if unicodedata.category(one)[0] not in "ML":
        return False
    return all(unicodedata.combining(part) for part in unicodedata.normalize("NFKD", one))
