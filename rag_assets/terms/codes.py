"""Codes and identifiers: their parts, and the whole."""

from __future__ import annotations

import re

# Bounds on what one text gives to `to_tsvector`: a tsvector ends at 1 MB, a sparsevec at 16,000 entries,
# and a single "word" of a megabyte is no word.
MAX_TOKENS = 12_000
MAX_TOKEN_CHARS = 64

# Scripts written without blanks between words; Postgres has no dictionary for them.
UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Myanmar, Khmer
    "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # CJK ideographs
    "\U00020000-\U0003ffff"
)
# Marks that belong to the letter before them; `\w` leaves them out and would cut Hindi or Arabic words.
MARKS = "\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff"

_PART = re.compile(rf"(?:[^\W\d_]|[{MARKS}])+|\d+")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_JOINT = re.compile(r"[-_./:]")


def is_plain(word: str) -> bool:
    """Whether the word is ASCII letters without a change of case inside."""
    return word.isascii() and word.isalpha() and (word.islower() or word.istitle() or word.isupper())


def bigrams(run: str) -> list[str]:
    """Each two characters that stand side by side; a single one as it is."""
    if len(run) == 1:
        return [run]
    return [run[i : i + 2] for i in range(len(run) - 1)]


def code_words(token: str) -> list[str]:
    """The parts of an identifier, then the whole where it is one."""
    parts = [
        piece
        for section in _JOINT.split(token)
        for chunk in _PART.findall(section.replace("'", " ").replace("’", " "))
        for piece in _CAMEL.split(chunk)
    ]
    parts = [part[:MAX_TOKEN_CHARS] for part in parts]
    if len(parts) < 2 or not is_code(token):
        return parts
    return [*parts, "".join(parts)[:MAX_TOKEN_CHARS]]


def is_code(token: str) -> bool:
    """Whether the whole is worth a term of its own: it holds a digit, `_`, or a change of case."""
    return any(map(str.isdigit, token)) or "_" in token or "-" in token or _CAMEL.search(token) is not None
