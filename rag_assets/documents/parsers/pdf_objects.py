"""Text objects of a PDF's page that PDFium passes over: what can be read of them all the same, and how many are left.

PDFium takes a text object for empty that has no width. Vertical text in a font that is not in the file has none, as
nobody knows its shapes: it is what Japanese, Chinese and Korean files have that rely on the fonts of the reader.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from ctypes import POINTER, byref, c_double, c_float, cast, create_string_buffer
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

_NO_WIDTH = 0.01  # points: what PDFium passes over
_WIDTH = 0.1  # points that such an object gets: a thousandth of a character's height from its place
_CONTROLS = re.compile("[\0\x01\x03-\x08\x0e-\x1f]")  # what a font without names for its characters comes out as
_MAX_NESTED = 5  # forms in forms
_MAX_STEPS = 20_000_000  # objects times characters that are looked at on one page
_SAME_COLUMN = 1.0  # points
_AHEAD = 3  # rectangles: an object may have several
_MAX_PATHS = 2_000  # more are a drawing


class _Shown(NamedTuple):
    """A text object that shows something, and its left, bottom, right and top."""

    object: Any
    bounds: tuple[float, float, float, float]


@dataclass
class TextObjects:
    """The text objects of a page that show something, in the order in which they are printed."""

    shown: list[_Shown] = field(default_factory=list)
    columns: list[_Shown] = field(default_factory=list)  # those without a width, which now have one
    paths: list[Any] = field(default_factory=list)  # what is drawn, but for what is drawn in forms

    def unread(self, text_page: pdfium.PdfTextPage, text: str) -> int:
        """Return of how many no character has come out, or nothing but controls; `text` is that of the page.

        Those that print again what stands there already are none of them. On pages of very many objects it is 0.
        """
        if self._are_too_many(text_page):
            return 0
        has_controls = bool(_CONTROLS.search(text))
        doubtful = self.shown if has_controls else _without_characters(text_page, self.shown)
        return sum(_is_unread(text_page, *one, has_controls) for one in doubtful)

    def columns_read(self, text_page: pdfium.PdfTextPage) -> list[str]:
        """Return the text of each column of a page of vertical text, in the order of printing; [] for other pages.

        PDFium takes columns that stand side by side for words of one line, from left to right. They are read from
        right to left, and printed so.
        """
        if not self.columns or self._are_too_many(text_page):
            return []
        vertical = sum(len(_text(text_page, one.object)) for one in self.columns)
        if 2 * vertical <= text_page.count_chars():
            return []
        lines: list[str] = []
        before = None
        for one, (left, *_) in self.shown:
            text = _text(text_page, one).rstrip(" ")  # which PDFium puts between two words
            if before is not None and abs(left - before) < _SAME_COLUMN:
                lines[-1] += text
            else:
                lines.append(text)
            before = left
        return lines

    def drawn(self) -> list[tuple[float, float, float, float]]:
        """Return left, bottom, right and top of the lines and areas drawn on the page."""
        sides = (c_float(), c_float(), c_float(), c_float())
        references = tuple(byref(side) for side in sides)
        found = []
        for path in self.paths if len(self.paths) <= _MAX_PATHS else ():
            if pdfium_c.FPDFPageObj_GetBounds(path, *references):
                left, bottom, right, top = (side.value for side in sides)
                found.append((left, bottom, right, top))
        return found

    def _are_too_many(self, text_page: pdfium.PdfTextPage) -> bool:
        return bool(len(self.shown) * text_page.count_chars() > _MAX_STEPS)


def readable_objects(page: pdfium.PdfPage) -> TextObjects:
    """Return the page's text objects, and lean those that have a height but no width, so that PDFium reads them.

    To be called before the page's text is asked for.
    """
    found = TextObjects()
    sides = (c_float(), c_float(), c_float(), c_float())
    references = tuple(byref(side) for side in sides)
    for one in _text_objects(page.raw, found.paths):
        if not pdfium_c.FPDFPageObj_GetBounds(one, *references):
            continue
        left, bottom, right, top = (side.value for side in sides)
        height = top - bottom
        if height < _NO_WIDTH:
            continue
        shown = _Shown(one, (left, bottom, right, top))
        found.shown.append(shown)
        if right - left < _NO_WIDTH:
            lean = _WIDTH / height
            pdfium_c.FPDFPageObj_Transform(one, 1, 0, lean, 1, -lean * (top + bottom) / 2, 0)
            found.columns.append(shown)
    return found


def _without_characters(text_page: pdfium.PdfTextPage, shown: Sequence[_Shown]) -> list[_Shown]:
    """Return the objects for which no character is found at once; to look for those of one takes its time.

    PDFium has a rectangle for the characters of each object, in the same order.
    """
    sides = c_double(), c_double(), c_double(), c_double()
    left, top, right, bottom = sides
    references = tuple(map(byref, sides))
    count = pdfium_c.FPDFText_CountRects(text_page, 0, -1)
    found, number = [], 0
    for one in shown:
        for ahead in range(number, min(number + _AHEAD, count)):
            pdfium_c.FPDFText_GetRect(text_page, ahead, *references)
            middle, height = (left.value + right.value) / 2, (bottom.value + top.value) / 2
            if one.bounds[0] <= middle <= one.bounds[2] and one.bounds[1] <= height <= one.bounds[3]:
                number = ahead + 1
                break
        else:
            found.append(one)
    return found


def _is_unread(
    text_page: pdfium.PdfTextPage, one: Any, bounds: tuple[float, float, float, float], has_controls: bool
) -> bool:
    # The length is in bytes, with the two of its end.
    if pdfium_c.FPDFTextObj_GetText(one, text_page, None, 0) > 2:
        return has_controls and not _CONTROLS.sub("", _text(text_page, one))
    left, bottom, right, top = bounds
    middle, half = ((left + right) / 2, (bottom + top) / 2), ((right - left) / 2, (top - bottom) / 2)
    return bool(pdfium_c.FPDFText_GetCharIndexAtPos(text_page, *middle, *half) < 0)


def _text(text_page: pdfium.PdfTextPage, one: Any) -> str:
    size = pdfium_c.FPDFTextObj_GetText(one, text_page, None, 0)
    buffer = create_string_buffer(size)
    pdfium_c.FPDFTextObj_GetText(one, text_page, cast(buffer, POINTER(pdfium_c.FPDF_WCHAR)), size)
    return buffer.raw.decode("utf-16-le", "replace").rstrip("\0")


def _text_objects(page: Any, paths: list[Any]) -> Iterator[Any]:
    for index in range(pdfium_c.FPDFPage_CountObjects(page)):
        one = pdfium_c.FPDFPage_GetObject(page, index)
        kind = pdfium_c.FPDFPageObj_GetType(one)
        if kind == pdfium_c.FPDF_PAGEOBJ_TEXT:
            yield one
        elif kind == pdfium_c.FPDF_PAGEOBJ_PATH:
            paths.append(one)
        elif kind == pdfium_c.FPDF_PAGEOBJ_FORM:
            yield from _text_objects_in(one, 1)


def _text_objects_in(form: Any, depth: int) -> Iterator[Any]:
    for index in range(pdfium_c.FPDFFormObj_CountObjects(form)):
        one = pdfium_c.FPDFFormObj_GetObject(form, index)
        kind = pdfium_c.FPDFPageObj_GetType(one)
        if kind == pdfium_c.FPDF_PAGEOBJ_TEXT:
            yield one
        elif kind == pdfium_c.FPDF_PAGEOBJ_FORM and depth < _MAX_NESTED:
            yield from _text_objects_in(one, depth + 1)
