"""Texts as they are compared: without what differs when the same words are typed, extracted or copied again."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

_QUOTES = dict.fromkeys(map(ord, "“”„‟«»‹›‘’‚‛「」『』〝〞〟＂＇`´"), '"') | {ord("'"): '"'}
_DASHES = dict.fromkeys(map(ord, "‐‑‒–—―−﹘﹣－"), "-")
_INVISIBLE = "\u00ad\u200b\u200c\u200d\u2060\ufeff"
_FOLDED = str.maketrans({**_QUOTES, **_DASHES, **dict.fromkeys(map(ord, _INVISIBLE), None)})


@dataclass(frozen=True)
class Folded:
    """A folded text; `places[i]` is the offset, in code points of the text as it was, of what `text[i]` was made of,
    and the last one its end."""

    text: str
    places: tuple[int, ...]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where the folded characters from `start` to `end` (at least one) stood."""
        return self.places[start], max(self.places[end - 1] + 1, self.places[end])


def fold(text: str) -> Folded:
    """Case, width, composition, kinds of quotation marks and dashes, and runs of white space are folded; what cannot be
    seen is left out, and so is white space at both ends."""
    characters: list[str] = []
    places: list[int] = []
    position = 0
    while position < len(text):
        end = position + 1
        while end < len(text) and _belongs(text[end]):
            end += 1
        for character in _folded(text[position:end]):
            if character != " " or (characters and characters[-1] != " "):
                characters.append(character)
                places.append(position)
        position = end
    while characters and characters[-1] == " ":
        characters.pop()
        places.pop()
    end = places[-1] + 1 if places else 0
    while 0 < end < len(text) and _belongs(text[end]):
        end += 1
    return Folded("".join(characters), (*places, end))


def _belongs(character: str) -> bool:
    """Whether it is composed with the one before: a mark, or the vowel and the end of a Korean syllable."""
    return character > "\u02ff" and (unicodedata.combining(character) != 0 or "\u1160" <= character <= "\u11ff")


def _folded(cluster: str) -> str:
    if cluster.isascii():
        return " " if cluster.isspace() else '"' if cluster in "'`" else cluster.lower()
    # Quotation marks first: some of them are compositions.
    known = unicodedata.normalize("NFKC", cluster.translate(_FOLDED)).casefold().translate(_FOLDED)
    return "".join(" " if one.isspace() else one for one in unicodedata.normalize("NFKC", known))
