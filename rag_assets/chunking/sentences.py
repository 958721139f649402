"""Where sentences begin: rules that need no model, for any script."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise

from rag_assets.chunking.outline import Outline

# A full stop of Latin, Greek or Cyrillic text ends a sentence only in front of white space; those of the scripts
# that write no spaces end one anywhere. An empty line always does.
# Each run of marks is read once, from its first (possessive, and not from its middle): a page of dots takes no
# longer than a page of words. One set of characters comes first because a search for that is 3 times as fast.
_SPACED = ".!?…؟۔।॥։"
_UNSPACED = "。！？｡．"
_CANDIDATE = re.compile(
    rf"[{_SPACED}{_UNSPACED}\n](?:"
    rf"(?<=[{_SPACED}])(?<![{_SPACED}]{{2}})[{_SPACED}]*+[\"'”’»)\]]*+\s++"
    rf"|(?<=[{_UNSPACED}])[」』”’）)！？。]*+\s*+"
    r"|(?<=\n)[^\S\n]*+\n\s*+)"
)
_OPENING = "([{\"'“‘«"
_REACH = 40  # characters in front of a full stop; no abbreviation is longer
_LISTED = (
    # English
    "mr mrs ms dr prof rev hon st jr sr inc ltd co corp vs etc e.g i.e cf al fig figs eq eqs ed eds "
    "dept univ approx est min max jan feb mar apr jun jul aug sep sept oct nov dec a.m p.m u.s u.k ph.d gen col sgt "
    # German
    "z.b d.h u.a usw bzw ca str bspw vgl evtl ggf inkl abs hr fr dipl ing geb "
    # French, Spanish, Italian, Portuguese
    "m mme mlle av env ex sra srta ud uds pág págs núm sig dott ecc sigg avv "
    # Russian
    "т.е т.д т.п г гг др см рис стр ул"
)
_ABBREVIATIONS = frozenset(_LISTED.split())
_BEFORE_NUMBERS = frozenset(("no", "nos", "nr", "vol", "p", "pp", "art", "sec", "ch"))


def sentence_starts(text: str, outline: Outline) -> list[int]:
    """Return the offsets at which sentences begin, in order; not those within a table or code, or under a heading."""
    headed = {block.start for above, block in pairwise(outline.blocks) if above.kind == "heading"}
    closed = [(block.start, block.end) for block in outline.blocks if block.kind in ("table", "code")]
    begins = [start for start, _ in closed]
    starts = []
    for offset in _candidates(text):
        position = bisect_right(begins, offset) - 1
        if offset not in headed and (position < 0 or not closed[position][0] < offset < closed[position][1]):
            starts.append(offset)
    return starts


def _candidates(text: str) -> Iterator[int]:
    for match in _CANDIDATE.finditer(text):
        begin = match.end()
        if begin < len(text) and (text[match.start()] != "." or _ends_sentence(text, match.start(), begin)):
            yield begin


def _ends_sentence(text: str, stop: int, begin: int) -> bool:
    """Tell whether the full stop at `stop` ends a sentence, if the next one would begin at `begin`."""
    if "\n\n" in text[stop:begin]:
        return True
    if text[begin].islower():
        return False
    if text[stop + 1] == ".":
        return True
    before = text[max(0, stop - _REACH) : stop].split()
    word = before[-1].lstrip(_OPENING) if before and not text[stop - 1].isspace() else ""
    if word.lower() in _BEFORE_NUMBERS:
        return not text[begin].isdecimal()
    if word.lower() in _ABBREVIATIONS or (len(word) == 1 and word.isupper()):
        return False
    return not (word.isdecimal() and len(word) <= 3 and _opens_line(text, stop - len(word)))


def _opens_line(text: str, offset: int) -> bool:
    """Tell whether only spaces are in front of `offset` in its line: a number there numbers a list's item."""
    line = text[max(0, offset - _REACH) : offset].rpartition("\n")[2]
    return not line.strip() and (offset <= _REACH or "\n" in text[offset - _REACH : offset])
