"""Where a text may be cut so that what is shown as one character stays whole."""

from __future__ import annotations

import unicodedata

GRAPHEME_REACH = 32  # characters; longer sequences of combining marks are not real text


def between_graphemes(text: str, fresh: int, high: int) -> int:
    """Return the last offset after `fresh` and up to `high` that does not part a base character from its marks."""
    for position in range(high, max(fresh, high - GRAPHEME_REACH), -1):
        if not joins(text, position, fresh):
            return position
    return high


def joins(text: str, position: int, known: int) -> bool:
    """Tell whether the characters around `position` are shown as one; `known` is where two surely are not."""
    if position >= len(text):
        return False
    before, after = text[position - 1], text[position]
    if after < "\u0300":
        return False
    if before == "\u200d" or after == "\u200d" or unicodedata.category(after) in ("Mn", "Me", "Mc"):
        return True
    if "\U0001f3fb" <= after <= "\U0001f3ff" or "\U000e0020" <= after <= "\U000e007f":
        return True
    if not (_is_flag_half(before) and _is_flag_half(after)):
        return False
    run = position
    while run > known and _is_flag_half(text[run - 1]):
        run -= 1
    return (position - run) % 2 == 1


def _is_flag_half(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"
