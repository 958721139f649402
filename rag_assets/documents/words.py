"""How much a text is, in words and punctuation marks: the same measure whatever cut it."""

from __future__ import annotations

import codecs
import re

_TOKEN = re.compile(r"\w+|[^\w\s]")
_FEW = 0.1  # of all characters; the replacement below is called for each run of those that are not ASCII


def _kind(character: str) -> str:
    if character.isalnum() or character == "_":
        return "a"
    return " " if character.isspace() else "."


def _kinds(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_kind, error.object[error.start : error.end])), error.end


_HANDLER = "rag_assets.kinds"
codecs.register_error(_HANDLER, _kinds)
_IS_WORD = bytes(code < 128 and _kind(chr(code)) == "a" for code in range(256))
_NO_MARKS = bytes(code for code in range(128) if _kind(chr(code)) != ".")


def count_tokens(text: str) -> int:
    """Return the number of words and punctuation marks: matches of `\\w+|[^\\w\\s]`."""
    if not text.isascii() and len(text.encode("utf-8", "surrogatepass")) > (1 + _FEW) * len(text):
        return len(_TOKEN.findall(text))
    # The same count 8 times faster: of words there are as many as characters in them, less those that follow another.
    kinds = text.encode("ascii", _HANDLER)
    in_words = int.from_bytes(kinds.translate(_IS_WORD), "big")
    marks = len(kinds.translate(None, _NO_MARKS))
    return in_words.bit_count() - (in_words & in_words >> 8).bit_count() + marks


def token_places(text: str) -> list[tuple[int, int]]:
    """Where each of them begins and ends, in order."""
    return [found.span() for found in _TOKEN.finditer(text)]
