"""Spellings of one word: what is always made equal, and the form without accents."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from rag_assets.marks import bounded

# What nobody sees, and what Arabic and Hebrew may be written without: it is taken out of a word.
_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u180b-\u180e\u200b\u200d-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0640\u064b-\u0652\u0670]"
)
_AS_WRITTEN_IN_ASCII = str.maketrans(
    {
        "\u2010": "-", "\u2011": "-", "\u2212": "-",  # hyphens, and the minus of print
        "\u200c": "-",  # joins two parts of a Persian word without joining their letters
        "\u266f": "#", "\u2018": "'", "\u2019": "'", "\u02bc": "'", "\u2122": " ", "\u2120": " ",
    }
)  # fmt: skip
_BLANKS = re.compile(r"(\s+)")
_KEPT = 50_000  # words, which come again
_LONGEST_KEPT = 64  # characters
_RAISED = re.compile("(?<=\\d)(?=[\u00b2\u00b3\u00b9\u00bc-\u00be\u2070-\u2079\u2080-\u2089\u2150-\u215f\u2189])")
_MARKED = re.compile(
    "(?<![\u0400-\u04ff])[\u0300-\u036f]+|(?<=[\u0400-\u04ff])(?!\u0306)[\u0300-\u036f]"  # the breve of й is no accent
)
_WITHOUT_ACCENT = str.maketrans(
    {"ø": "o", "đ": "d", "ł": "l", "ħ": "h", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th", "ð": "d"}
)


def normal(text: str) -> str:
    """Return `text` in the form in which words are compared: NFKC, one hyphen, one apostrophe, nothing that cannot be
    seen. A raised or lowered number and a fraction stand apart from the number before them."""
    if text.isascii():
        return text
    # Nothing of this reaches over a blank, and words come again.
    return "".join([one if one.isascii() else _normal_piece(one) for one in _BLANKS.split(text)])


def _normal_piece(piece: str) -> str:
    return _kept(piece) if len(piece) <= _LONGEST_KEPT else _made_normal(piece)


def _made_normal(text: str) -> str:
    text = bounded(text)
    text = _RAISED.sub(" ", _UNSEEN.sub("", text)).translate(_AS_WRITTEN_IN_ASCII)
    text = _UNSEEN.sub("", unicodedata.normalize("NFKC", text)).translate(_AS_WRITTEN_IN_ASCII)
    return unicodedata.normalize("NFC", text)


_kept = lru_cache(_KEPT)(_made_normal)


def alike(text: str) -> str:
    """Return `text` as it is compared, character by character and as long as before: for what is shown as it is written
    and marked where it is meant."""
    if text.isascii():
        return text.lower()
    return "".join(folded(normal(one))[:1] or one for one in text)


def folded(word: str) -> str:
    """Return a word in small letters without accents, in which letters and digits that are written in ASCII where
    they are missing are written so. Letters that only look as if they had an accent (й) stay."""
    if word.isascii():
        return word.lower()
    return _folded_before(word) if len(word) <= _LONGEST_KEPT else _made_folded(word)


def _made_folded(word: str) -> str:
    word = _MARKED.sub("", unicodedata.normalize("NFD", word.casefold()))
    word = unicodedata.normalize("NFC", word).translate(_WITHOUT_ACCENT)
    return "".join(str(unicodedata.decimal(c)) if c.isdecimal() else c for c in word)


_folded_before = lru_cache(_KEPT)(_made_folded)
