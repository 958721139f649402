"""The lines of a PDF's page and their places, in the order in which a person reads them."""

from __future__ import annotations

import itertools
import math
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from ctypes import byref
from dataclasses import dataclass
from typing import NamedTuple

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from rag_assets.documents.blank import is_blank
from rag_assets.documents.parsers.pdf_filled import Place
from rag_assets.documents.parsers.pdf_hyphens import BREAK
from rag_assets.documents.parsers.pdf_layout import Line, Page, with_paragraphs
from rag_assets.documents.parsers.pdf_order import FEWEST, Piece, reading_order, rules_of
from rag_assets.documents.parsers.pdf_overprint import printed_once

Box = tuple[float, float, float, float]  # left, bottom, right, top

_MARKS = "\x02\ufffe"  # PDFium puts one of them for a hyphen at a line's end, and the next line right after it
_PRINTED = re.compile(f"(?P<line>[^\r\n{_MARKS}]+)(?P<marks>[{_MARKS}]*)(?P<end>[\r\n]*)|(?P<lone>[{_MARKS}]+)")
_SPACES = re.compile(r"\s+")
_SAMPLE = 3  # lines
_SOFT_HYPHEN = "\u00ad"
_GAP = 0.7  # of the height of a line: what is further apart may belong to two columns
# Of the height of turned text: how far letters of a word and the next word are away, and what is one line.
_NEXT_LETTER, _NEXT_WORD, _SAME_BASE = 0.12, 0.5, 0.1
_LEFTWARDS = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_HYPHENATED = re.compile("[^\\W\\d_][-\u2010\u2011]\\s*\\Z")
_HALVES = re.compile("[\ud800-\udfff]")
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")
_LETTERS_OF_WORD = 3  # about as many has a word in scripts without spaces
_LEADER = re.compile(r"(?:[._\u00b7\u2026] ?){5}")  # from an entry of a list to its page
_TURNED = 0.05  # radians


@dataclass(frozen=True)
class Read:
    """The lines of a page with the places of those whose place is known, and how many columns they stand in."""

    lines: Page
    places: list[Place | None]
    columns: int = 0


class _Part(NamedTuple):
    """Characters `start` to `end` of a page, which stand beside each other without a wide gap."""

    start: int
    end: int
    number: int
    line: int  # as PDFium divides the page
    turns: int | None  # quarters of a turn against the clock, None where it is something else
    first: Box  # of its first character
    last: Box
    box: Box
    divided: int = 0  # by so many hyphens that PDFium took away
    soft: bool = False  # by a soft hyphen
    apart: bool = False  # behind a blank line


def read_lines(text_page: pdfium.PdfTextPage, text: str, drawn: Callable[[], Sequence[Box]]) -> Read:
    """Return the lines of a page with this text; `drawn` returns the boxes of the lines and areas drawn on it."""
    units = _units(text)
    if len(units) != text_page.count_chars():
        # Characters without a code are left out of the text: their places no longer tell which is which.
        return _without_places(text)
    parts = _parts(text_page, units)
    if not parts:
        return Read([], [])
    blocks, columns = _ordered(parts, units, drawn)
    lines: Page = []
    places: list[Place | None] = []
    above = 0.0
    for line in _lines_of(blocks, units):
        first, last = line[0], line[-1]
        size = round(2 * min(_height(first.first, first.turns), _height(last.last, last.turns))) / 2
        space = above - upright(first.first, first.turns or 0)[3] if size and above else 0.0
        lines.append(Line(_joined(text_page, units, line), size, space, first.apart))
        places.append(Place(first.first[0], first.first[3], last.last[1]))
        above = upright(last.last, last.turns or 0)[1]
    return Read(with_paragraphs(lines), places, columns)


def upright(box: Box, turns: int) -> Box:
    """Return a box as it stands when text that is turned by so many quarters against the clock is upright."""
    left, bottom, right, top = box
    if turns == 0:
        return box
    if turns == 1:
        return bottom, -right, top, -left
    return (-right, -top, -left, -bottom) if turns == 2 else (-top, left, -bottom, right)


def _units(text: str) -> str:
    """Return the text as PDFium counts it, which takes a character beyond the first 65,536 for two."""
    return "".join(map(chr, array("H", text.encode("utf-16-le")))) if _ASTRAL.search(text) else text


def _text_of(units: str) -> str:
    if not _HALVES.search(units):
        return units
    return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _without_places(text: str) -> Read:
    lines: Page = []
    apart = divided = False
    for match in _PRINTED.finditer(text):
        line = match["line"] or BREAK * len(match["lone"])
        if is_blank(line) and not divided:
            apart = bool(lines)
            continue
        line = line.replace(_SOFT_HYPHEN, "") + BREAK * len(match["marks"] or "")
        if divided:
            lines[-1] = Line(lines[-1].text + line, apart=lines[-1].apart)
        else:
            lines.append(Line(line, apart=apart))
        apart, divided = False, bool(match["marks"])
    return Read(lines, [None] * len(lines))


def _parts(text_page: pdfium.PdfTextPage, units: str) -> list[_Part]:
    """Return the parts of all lines."""
    boxes = _Boxes(text_page)
    lines: list[_Part] = []
    apart = False
    for number, match in enumerate(_PRINTED.finditer(units)):
        line = match["line"] or match["lone"]
        if is_blank(_text_of(line)):
            apart = bool(lines)
            continue
        start, end = match.start(), match.start() + len(line)
        soft = line.endswith(_SOFT_HYPHEN) and bool(match["end"])
        first = start + len(line) - len(line.lstrip())
        ends = boxes.of(first), boxes.of(start + len(line.rstrip()) - 1)
        turns = boxes.turns(first)
        lines.append(
            _Part(start, end, len(lines), number, turns, *ends, _around(*ends), len(match["marks"] or ""), soft, apart)
        )
        apart = False
    # Columns take several lines, so that a part of all lines tells whether it is worth looking at the others.
    cuts = {number: boxes.gaps(units, lines[number]) for number in range(0, len(lines), _SAMPLE)}
    if not any(cuts.values()):
        return lines
    parts: list[_Part] = []
    for number, line in enumerate(lines):
        gaps = cuts[number] if number in cuts else boxes.gaps(units, line)
        parts += boxes.cut(line, gaps, len(parts))
    return parts


class _Boxes:
    """Where characters stand, which costs a call for each."""

    def __init__(self, text_page: pdfium.PdfTextPage) -> None:
        self.text_page = text_page.raw
        self.rectangle = pdfium_c.FS_RECTF()
        self.reference = byref(self.rectangle)

    def of(self, index: int) -> Box:
        one = self.rectangle
        if not pdfium_c.FPDFText_GetLooseCharBox(self.text_page, index, self.reference):
            return 0.0, 0.0, 0.0, 0.0
        return one.left, one.bottom, one.right, one.top

    def turns(self, index: int) -> int | None:
        angle = pdfium_c.FPDFText_GetCharAngle(self.text_page, index)
        quarters = round(angle / (math.pi / 2))  # clockwise
        return -quarters % 4 if angle >= 0 and abs(angle - quarters * math.pi / 2) < _TURNED else None

    def gaps(self, units: str, line: _Part) -> list[tuple[int, int]]:
        """Return where the line has wide gaps, as the places in front of and behind their spaces."""
        if line.turns is None:
            return []
        wide = _GAP * min(_height(line.first, line.turns), _height(line.last, line.turns))
        sides = self.sides_across if line.turns % 2 == 0 else self.sides_up
        found = []
        for space in _SPACES.finditer(units, line.start, line.end):
            start, end = space.span()
            if start == line.start or end == line.end:
                continue
            low, high = sides(start - 1)
            after_low, after_high = sides(end)
            # Of two words in a script that is written leftwards, the second one stands to the left.
            is_wide = after_low - high > wide or low - after_high > wide
            if is_wide and not _are_bound(units[line.start : start], units[end : line.end]):
                found.append((start, end))
        return found

    def sides_across(self, index: int) -> tuple[float, float]:
        pdfium_c.FPDFText_GetLooseCharBox(self.text_page, index, self.reference)
        return self.rectangle.left, self.rectangle.right

    def sides_up(self, index: int) -> tuple[float, float]:
        pdfium_c.FPDFText_GetLooseCharBox(self.text_page, index, self.reference)
        return self.rectangle.bottom, self.rectangle.top

    def cut(self, line: _Part, gaps: Sequence[tuple[int, int]], number: int) -> list[_Part]:
        """Return the parts of a line, the first of which gets the number."""
        parts = []
        start, first, apart = line.start, line.first, line.apart
        for end, after in gaps:
            last = self.of(end - 1)
            box = _around(first, last)
            parts.append(_Part(start, end, number, line.line, line.turns, first, last, box, apart=apart))
            start, first, apart = after, self.of(after), False
            number += 1
        box = _around(first, line.last)
        return [*parts, line._replace(start=start, number=number, first=first, box=box, apart=apart)]


def _are_bound(before: str, after: str) -> bool:
    """Tell whether a bullet and what it stands for, or an entry of a list and the dots before its page, are parted."""
    return not any(map(str.isalnum, before.rsplit(None, 1)[-1])) or not after.split(None, 1)[0].strip(".")


def _around(one: Box, other: Box) -> Box:
    return min(one[0], other[0]), min(one[1], other[1]), max(one[2], other[2]), max(one[3], other[3])


def _height(box: Box, turns: int | None) -> float:
    _, bottom, _, top = upright(box, turns or 0)
    return abs(top - bottom)


def _ordered(parts: Sequence[_Part], units: str, drawn: Callable[[], Sequence[Box]]) -> tuple[list[list[_Part]], int]:
    """Return the parts as they are read, block by block, and the number of columns.

    What is turned another way than most of the page follows what it was printed after.
    """
    lengths: Counter[int] = Counter()
    for part in parts:
        if part.turns is not None:
            lengths[part.turns] += part.end - part.start
    if not lengths:
        return [list(parts)], 1
    turns = lengths.most_common(1)[0][0]
    straight = [part.number for part in parts if part.turns == turns]
    if not _may_have_columns([parts[number] for number in straight], turns):
        return [list(parts)], 1
    pieces = [
        Piece(*upright(parts[number].box, turns), _words_in(units[parts[number].start : parts[number].end]))
        for number in straight
    ]
    leftwards = 2 * len(_LEFTWARDS.findall(units)) > sum(map(str.isalpha, units))
    order = reading_order(pieces, rules_of(upright(box, turns) for box in drawn()), leftwards)
    starts = [0, *straight[1:], len(parts)]
    return [
        [part for piece in block for part in parts[starts[piece] : starts[piece + 1]]] for block in order.blocks
    ], order.columns


def _may_have_columns(parts: Sequence[_Part], turns: int) -> bool:
    """Tell whether lines stand beside each other, in several rows or out of turn."""
    beside = 0
    for before, part in itertools.pairwise(parts):
        if before.line == part.line:
            beside += 1
        else:
            _, bottom, _, top = upright(before.box, turns)
            if upright(part.box, turns)[3] > (bottom + top) / 2:
                return True
    return beside >= FEWEST


def _words_in(text: str) -> int:
    """Return how many words there are; where words are written without spaces, about as many."""
    if _LEADER.search(text):
        return 0
    words = text.split()
    count = sum(map(str.isalpha, words))
    return count if text.isascii() else count + sum(len(word) // _LETTERS_OF_WORD for word in words if word > "\u0e00")


def _lines_of(blocks: Sequence[Sequence[_Part]], units: str) -> Iterator[list[_Part]]:
    """Yield the parts of each line; a line that ends within a word has the next one with it."""
    line: list[_Part] = []
    for block in blocks:
        for place, part in enumerate(block):
            is_same = place > 0 and (_goes_on(line[-1], part) or _space_between(line[-1], part) is not None)
            if line and not is_same and not _is_divided(line[-1], part, units):
                yield line
                line = []
            line.append(part)
    yield line


def _goes_on(before: _Part, part: _Part) -> bool:
    """Tell whether both are parts of what PDFium takes for one line, and stand in one."""
    if before.line != part.line or before.number + 1 != part.number:
        return False
    _, bottom, _, top = upright(before.last, before.turns or 0)
    _, next_bottom, _, next_top = upright(part.first, part.turns or 0)
    return min(top, next_top) > max(bottom, next_bottom)


def _space_between(before: _Part, part: _Part) -> str | None:
    """Return what stands between two parts of a line of turned text, which PDFium may take letter by letter for lines.

    That is nothing or a space; None where one does not follow the other.
    """
    if not before.turns or before.turns != part.turns or before.number + 1 != part.number:
        return None
    _, bottom, right, top = upright(before.last, before.turns)
    left, next_bottom, _, _ = upright(part.first, part.turns)
    height = top - bottom
    if abs(next_bottom - bottom) > _SAME_BASE * height or abs(left - right) > _NEXT_WORD * height:
        return None
    return " " if left - right > _NEXT_LETTER * height else ""


def _is_divided(before: _Part, part: _Part, units: str) -> bool:
    """Tell whether a word goes on from one part to the other, which stands in another line."""
    is_marked = bool(before.divided or before.soft)
    if before.number + 1 == part.number and before.line != part.line:
        return is_marked
    # PDFium has not seen that one follows the other.
    is_hyphenated = is_marked or bool(_HYPHENATED.search(units, before.start, before.end))
    return is_hyphenated and units[part.start].islower()


def _joined(text_page: pdfium.PdfTextPage, units: str, line: Sequence[_Part]) -> str:
    """Return the text of a line, with a `BREAK` for each hyphen at the end of what is printed as a line."""
    text, start = "", line[0].start
    for part, after in itertools.zip_longest(line, line[1:]):
        if after and _goes_on(part, after):
            continue
        printed = printed_once(text_page, units[start : part.end], start).replace(_SOFT_HYPHEN, "")
        space = _space_between(part, after) if after else ""
        if part.divided or part.soft or space is not None:
            text += printed + BREAK * part.divided + (space or "")
        else:
            text += printed.rstrip()[:-1] + BREAK
        start = after.start if after else 0
    return _text_of(text)
