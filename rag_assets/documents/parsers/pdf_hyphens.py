"""Hyphens at the ends of lines: those that only divide a word go, and those that belong to it stay."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from rag_assets.documents.parsers.pdf_layout import Page

BREAK = "\ufffe"  # what stands for such a hyphen until all words of the document are known
# Each begins where a run of characters does, and takes it whole: a line without a space takes no time.
_BREAK = re.compile(rf"(?<![^\s{BREAK}])(?P<left>[^\s{BREAK}]*+){BREAK}(?=(?P<right>[^\s{BREAK}]*+))")
_WHOLE = re.compile(rf"(?<![\w{BREAK}-])[^\W\d_]++(?:[-\u2010\u2011][^\W\d_]++)*+(?![\w{BREAK}-])")
_HYPHEN = re.compile("[-\u2010\u2011]")
_LAST_LETTERS = re.compile(r"[^\W\d_]+\Z")
_FIRST_LETTERS = re.compile(r"[^\W\d_]+")
_IN_ADDRESSES = re.compile(r"[\d_/\\@=]|\w[.:]\w")
# What joins two words that share their second half, as in "pre- and post-war" or "Vor- und Nachteile".
_JOINING = frozenset(
    ("and", "or", "to", "und", "oder", "bis", "et", "ou", "y", "e", "o", "en", "och", "og", "i", "lub")
)
_LONGEST = 100  # letters of a word
_SHORT = 3  # letters: shorter pieces stand as words of their own by chance


@dataclass(frozen=True)
class _Words:
    """The words of a document that stand within its lines, casefolded."""

    whole: Counter[str] = field(default_factory=Counter)
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)  # joined by a hyphen
    first: set[str] = field(default_factory=set)  # of the pairs, as in "self-made"


def without_line_breaks(pages: Sequence[Page]) -> list[Page]:
    """Return the pages with every `BREAK` replaced: by nothing where it only divides a word, or by its hyphen.

    A hyphen belongs where a digit or a capital follows, in codes and addresses, where the document has the word with
    it elsewhere, and where both parts are words of the document that does not otherwise divide its words.
    """
    if not any(BREAK in line.text for page in pages for line in page):
        return list(pages)
    words = _words_of(line.text for page in pages for line in page)
    found = [match for page in pages for line in page for match in _BREAK.finditer(line.text)]
    divides = sum(_evidence(words, *_parts(match)) for match in found) < 0

    def mended(match: re.Match[str]) -> str:
        return match["left"] + _joint(words, match, divides)

    return [
        [replace(line, text=_BREAK.sub(mended, line.text)) if BREAK in line.text else line for line in page]
        for page in pages
    ]


def _words_of(texts: Iterable[str]) -> _Words:
    words = _Words()
    for text in texts:
        for match in _WHOLE.finditer(text):
            parts = _HYPHEN.split(match[0].casefold())
            if len(parts) == 1:
                words.whole[parts[0]] += 1
            else:
                words.pairs.update(itertools.pairwise(parts))
                words.first.update(parts[:-1])
    return words


def _parts(match: re.Match[str]) -> tuple[str, str]:
    """Return the letters on both sides of a break, casefolded."""
    left, right = _LAST_LETTERS.search(match["left"][-_LONGEST:]), _FIRST_LETTERS.match(match["right"])
    return left[0].casefold() if left else "", right[0].casefold() if right else ""


def _evidence(words: _Words, left: str, right: str) -> int:
    """Return how much more often the document has the word with its hyphen than without."""
    return words.pairs[left, right] - words.whole[left + right]


def _joint(words: _Words, match: re.Match[str], divides: bool) -> str:
    left, right = _parts(match)
    if not left or not right or _IN_ADDRESSES.search(match["left"]) or re.search(r"\d", match["right"]):
        return "-"
    evidence = _evidence(words, left, right)
    if evidence:
        return "-" if evidence > 0 else ""
    if right in _JOINING and match["right"].rstrip(",;.") == right:
        return "- "
    if match["right"][0].isupper() and not _is_in_capitals(match, left, right):
        return "-"
    both = (left in words.whole or left in words.first) and right in words.whole
    if _HYPHEN.search(match["left"]) or _HYPHEN.search(match["right"]):
        return "-" if both else ""
    return "-" if both and not divides and min(len(left), len(right)) >= _SHORT else ""


def _is_in_capitals(match: re.Match[str], left: str, right: str) -> bool:
    """Tell a word that is written all in capitals, and divided like any other, from a code like AB-CD."""
    written = match["left"][-len(left) :] + match["right"][: len(right)]
    return written.isupper() and min(len(left), len(right)) >= _SHORT
