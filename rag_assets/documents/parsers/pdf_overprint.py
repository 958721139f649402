"""A character that a PDF prints again at the same place, to make it bold or to give it a shadow, is read once.

PDFium leaves out whole words that are printed again, but not characters that are doubled one by one ("BBoolldd").
"""

from __future__ import annotations

import math
import re
from ctypes import byref, c_double
from typing import Any

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

_DOUBLED = re.compile(r"(\S)\1")
_SAME_PLACE = 0.15  # of the size of the print, in both directions
_LIGATURE = 0.01  # of the size: letters of one sign stand at exactly the same place, and what is printed twice does not
_SAME_ADVANCE = 0.45  # of what the character takes up: the next one of the same kind stands a whole one further on
_SPACE = 0.15  # of the size of the print: what is at least as far apart are two words
_UPRIGHT = 0.1  # radians off the horizontal or the vertical; beyond, boxes say nothing of characters


def printed_once(text_page: Any, line: str, start: int) -> str:
    """Return the line without characters that are printed again where the same one stands.

    `start` is the place of its first character among the characters of the page. A space that only the repeated
    character had hidden is put back.
    """
    kept: list[str] = []
    at = 0
    try:
        for doubled in _DOUBLED.finditer(line):
            first = doubled.start()
            if first < at:
                continue
            kept.append(line[at : first + 1])
            at = _end_of_repeats(text_page, line, start, first)
            if at > first + 1 and at < len(line) and not line[at].isspace():
                kept += [" "] * _are_apart(text_page, start + first, start + at)
    except pdfium.PdfiumError:
        return line
    return "".join(kept) + line[at:]


def _end_of_repeats(text_page: Any, line: str, start: int, first: int) -> int:
    """Return where in the line the first character begins that is not the one at `first` once more."""
    at = first + 1
    while at < len(line) and line[at] == line[first] and _is_on(text_page, start + first, start + at):
        at += 1
    return at


def _is_on(text_page: Any, first: int, second: int) -> bool:
    across, up = _way(text_page, first, second)
    size = _size(text_page, first)
    if max(abs(across), abs(up)) > _SAME_PLACE * size or math.hypot(across, up) < _LIGATURE * size:
        return False
    angle = pdfium_c.FPDFText_GetCharAngle(text_page, first)
    if angle < 0 or abs(math.sin(2 * angle)) > math.sin(2 * _UPRIGHT):
        return False
    left, bottom, right, top = text_page.get_charbox(first, loose=True)
    return bool(abs(across) < _SAME_ADVANCE * (right - left) and abs(up) < _SAME_ADVANCE * (top - bottom))


def _are_apart(text_page: Any, first: int, second: int) -> bool:
    left, _, right, _ = text_page.get_charbox(first, loose=True)
    across, _ = _way(text_page, first, second)
    return bool(across - (right - left) > _SPACE * _size(text_page, first))


def _way(text_page: Any, first: int, second: int) -> tuple[float, float]:
    """Return how far the second character stands to the right of the first, and above it, in points."""
    from_x, from_y, to_x, to_y = c_double(), c_double(), c_double(), c_double()
    pdfium_c.FPDFText_GetCharOrigin(text_page, first, byref(from_x), byref(from_y))
    pdfium_c.FPDFText_GetCharOrigin(text_page, second, byref(to_x), byref(to_y))
    return to_x.value - from_x.value, to_y.value - from_y.value


def _size(text_page: Any, index: int) -> float:
    """Return the size of the print in points; 0.0 where it is unknown, and then nothing is near."""
    matrix = pdfium_c.FS_MATRIX()
    if not pdfium_c.FPDFText_GetMatrix(text_page, index, byref(matrix)):
        return 0.0
    return float(pdfium_c.FPDFText_GetFontSize(text_page, index) * math.hypot(matrix.a, matrix.b))
