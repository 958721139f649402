"""The first version of terms: words, codes with their parts, and bigrams of scripts without blanks. What it makes of a
text never changes, because profiles were published with it."""

from __future__ import annotations

import re

from rag_assets.terms.codes import MARKS, MAX_TOKEN_CHARS, MAX_TOKENS, UNSPACED, bigrams, code_words, is_plain
from rag_assets.terms.memo import Memo

_MEMO_CHARS = 40  # longer pieces hardly ever come again

_LETTER = rf"(?:[^\W{UNSPACED}]|[{MARKS}])"
_TOKEN = re.compile(rf"[{UNSPACED}]+|{_LETTER}+(?:[-_./:'’]{_LETTER}+)*")
_EDGES = ".,;:!?()[]{}<>\"'`*"
_IS_UNSPACED = re.compile(rf"[{UNSPACED}]")


def prepare(text: str) -> str:
    """Return `text` as blank-separated words for `to_tsvector`.

    - `SKU-1234`, `CVE-2026-2332`, `snake_case`, `camelCase`, `a/b.py` become their parts plus the whole,
      joined without punctuation, so that the part, the parts in a row and the exact code all match.
    - Chinese, Japanese, Thai and their like become character bigrams.
    - Punctuation never reaches Postgres, so `dog,cat` is two words and no operator can form.

    At most `MAX_TOKENS` words of at most `MAX_TOKEN_CHARS` characters come out.
    """
    pieces = text.split(None, MAX_TOKENS)
    words = [_MEMO[piece] if len(piece) <= _MEMO_CHARS else _piece_words(piece) for piece in pieces]
    joined = " ".join(filter(None, words[:MAX_TOKENS]))
    return joined if joined.count(" ") < MAX_TOKENS else " ".join(joined.split(" ")[:MAX_TOKENS])


def _piece_words(piece: str) -> str:
    """The words of a piece of text without blanks, joined by blanks."""
    return " ".join(_words(piece.strip(_EDGES)))


# Pieces repeat: looking them up takes a fifth of the time of taking them apart again.
_MEMO: Memo[str, str] = Memo(_piece_words, 50_000)


def _words(piece: str) -> list[str]:
    """Plain words as they are, codes and identifiers in parts and whole, unspaced scripts as bigrams."""
    if is_plain(piece):
        return [piece[:MAX_TOKEN_CHARS]]
    words: list[str] = []
    for token in _TOKEN.findall(piece):
        if is_plain(token):
            words.append(token[:MAX_TOKEN_CHARS])
        elif _IS_UNSPACED.match(token):
            words.extend(bigrams(token))
        else:
            words.extend(code_words(token))
    return words
