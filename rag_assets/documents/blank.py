"""Text that nobody can see: what is made of spaces, format characters and fillers alone says nothing."""

from __future__ import annotations

import re

# Written out, since asking for the category of every character takes most of a second. The format characters that
# are drawn, such as the Arabic sign around a number, are left out.
_SPACES = r"\s\x00-\x20\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ud800-\udfff"
_FORMATS = (
    r"\xad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    r"\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
)
# Letters, marks and symbols to Unicode, and empty to the eye: the fillers of Hangul, Khmer and Khitan, variation
# selectors, the grapheme joiner, the empty Braille cell, blank hieroglyphs, the null note head, and the sign that
# stands for a picture. What is ignorable by default stays so when it is assigned one day.
_FILLERS = (
    r"\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufdd0-\ufdef\ufe00-\ufe0f\uffa0\ufff0-\ufff8\ufffc"
    r"\ufffe\uffff\U00013441\U00013442\U00016fe4\U0001d159\U000e0000-\U000e0fff"
)
_VISIBLE = re.compile(f"[^{_SPACES}{_FORMATS}{_FILLERS}]")


def is_blank(text: str) -> bool:
    """Tell whether `text` holds no character that a reader sees. The empty text is blank."""
    return _VISIBLE.search(text) is None
