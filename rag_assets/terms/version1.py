"""The first version of terms: words, codes with their parts, and bigrams of scripts without blanks. What it makes of a
text never changes, because profiles were published with it."""

from __future__ import annotations

import re

# Bounds on what one text gives to `to_tsvector`: a tsvector ends at 1 MB, a sparsevec at 16,000 entries,
# and a single "word" of a megabyte is no word.
MAX_TOKENS = 12_000
MAX_TOKEN_CHARS = 64
_MEMO_CHARS = 40  # longer pieces hardly ever come again

# Scripts written without blanks between words; Postgres has no dictionary for them.
_UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Myanmar, Khmer
    "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # CJK ideographs
    "\U00020000-\U0003ffff"
)
# Marks that belong to the letter before them; `\w` leaves them out and would cut Hindi or Arabic words.
_MARKS = "\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff"
_LETTER = rf"(?:[^\W{_UNSPACED}]|[{_MARKS}])"
_TOKEN = re.compile(rf"[{_UNSPACED}]+|{_LETTER}+(?:[-_./:'’]{_LETTER}+)*")
_EDGES = ".,;:!?()[]{}<>\"'`*"
_PART = re.compile(rf"(?:[^\W\d_]|[{_MARKS}])+|\d+")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_JOINT = re.compile(r"[-_./:]")
_IS_UNSPACED = re.compile(rf"[{_UNSPACED}]")


def prepare(text: str) -> str:
    """Return `text` as blank-separated words for `to_tsvector`.

    - `SKU-1234`, `CVE-2026-2332`, `snake_case`, `camelCase`, `a/b.py` become their parts plus the whole,
      joined without punctuation, so that the part, the parts in a row and the exact code all match.
    - Chinese, Japanese, Thai and their like become character bigrams.
    - Punctuation never reaches Postgres, so `dog,cat` is two words and no operator can form.

    At most `MAX_TOKENS` words of at most `MAX_TOKEN_CHARS` characters come out.
    """
    known = _memo.get
    words = [_remember(piece) if (word := known(piece)) is None else word for piece in text.split(None, MAX_TOKENS)]
    joined = " ".join(filter(None, words[:MAX_TOKENS]))
    return joined if joined.count(" ") < MAX_TOKENS else " ".join(joined.split(" ")[:MAX_TOKENS])


# Pieces repeat: looking them up takes a fifth of the time of taking them apart again. Emptied when full.
_memo: dict[str, str] = {}
_MEMO_SIZE = 50_000


def _remember(piece: str) -> str:
    """The words of a piece of text without blanks, joined by blanks; kept for the next time."""
    words = " ".join(_words(piece.strip(_EDGES)))
    if len(piece) <= _MEMO_CHARS:
        if len(_memo) >= _MEMO_SIZE:
            _memo.clear()
        _memo[piece] = words
    return words


def _words(piece: str) -> list[str]:
    """Plain words as they are, codes and identifiers in parts and whole, unspaced scripts as bigrams."""
    if _is_plain(piece):
        return [piece[:MAX_TOKEN_CHARS]]
    words: list[str] = []
    for token in _TOKEN.findall(piece):
        if _is_plain(token):
            words.append(token[:MAX_TOKEN_CHARS])
        elif _IS_UNSPACED.match(token):
            words.extend(_bigrams(token))
        else:
            words.extend(_code_words(token))
    return words


def _is_plain(word: str) -> bool:
    """Whether the word is ASCII letters without a change of case inside."""
    return word.isascii() and word.isalpha() and (word.islower() or word.istitle() or word.isupper())


def _bigrams(run: str) -> list[str]:
    if len(run) == 1:
        return [run]
    return [run[i : i + 2] for i in range(len(run) - 1)]


def _code_words(token: str) -> list[str]:
    """The parts of an identifier, then the whole where it is one."""
    parts = [
        piece
        for section in _JOINT.split(token)
        for chunk in _PART.findall(section.replace("'", " ").replace("’", " "))
        for piece in _CAMEL.split(chunk)
    ]
    parts = [part[:MAX_TOKEN_CHARS] for part in parts]
    if len(parts) < 2 or not _is_code(token):
        return parts
    return [*parts, "".join(parts)[:MAX_TOKEN_CHARS]]


def _is_code(token: str) -> bool:
    """Whether the whole is worth a lexeme of its own: it holds a digit, `_`, or a change of case."""
    return any(c.isdigit() for c in token) or "_" in token or _CAMEL.search(token) is not None or "-" in token
