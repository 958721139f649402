"""What people have added to a PDF: values filled into its form, and notes. They are no part of a page's own text."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from rag_assets.documents.normalize import normalize
from rag_assets.documents.parsers.pdf_layout import Line, Page

_NOTHING_WITHOUT_ROOM = (pdfium_c.FPDF_ANNOT_WIDGET, pdfium_c.FPDF_ANNOT_FREETEXT)  # others are shown by a sign
_CHECKED = "[x]"
_NOT_SHOWN = pdfium_c.FPDF_ANNOT_FLAG_HIDDEN | pdfium_c.FPDF_ANNOT_FLAG_NOVIEW
_NO_NOTES = (pdfium_c.FPDF_ANNOT_LINK, pdfium_c.FPDF_ANNOT_POPUP, pdfium_c.FPDF_ANNOT_WIDGET)
_SAME_LEVEL = 3.0  # points
_MAX_ADDED = 10_000  # of a page
_MAX_OPTIONS = 10_000
_MAX_BYTES = 1_000_000  # of one value


class Place(NamedTuple):
    """Where a line or an addition stands, in points from the page's lower left corner."""

    left: float
    top: float
    bottom: float


@dataclass(frozen=True)
class Added:
    """A value of a form, or a note."""

    text: str
    place: Place
    is_note: bool


def additions(page: pdfium.PdfPage) -> list[Added]:
    """Return what has been filled in and noted on the page; forms need `PdfDocument.init_forms` before.

    Left out are empty values, passwords, and what a reader of the page does not see either.
    """
    return list(_additions(page))


def _additions(page: pdfium.PdfPage) -> Iterator[Added]:
    for index in range(min(_MAX_ADDED, pdfium_c.FPDFPage_GetAnnotCount(page))):
        raw = pdfium_c.FPDFPage_GetAnnot(page, index)
        if not raw:
            continue
        try:
            added = _added(page, raw)
        finally:
            pdfium_c.FPDFPage_CloseAnnot(raw)
        if added:
            yield added


def _added(page: pdfium.PdfPage, annotation: Any) -> Added | None:
    if pdfium_c.FPDFAnnot_GetFlags(annotation) & _NOT_SHOWN:
        return None
    kind = pdfium_c.FPDFAnnot_GetSubtype(annotation)
    if kind == pdfium_c.FPDF_ANNOT_WIDGET:
        text = _value(page.formenv, annotation) if page.formenv else _value_without_form(annotation)
    elif kind in _NO_NOTES:
        text = ""
    else:
        text = _string(pdfium_c.FPDFAnnot_GetStringValue, annotation, b"Contents")
    rectangle = pdfium_c.FS_RECTF()
    if not text or not pdfium_c.FPDFAnnot_GetRect(annotation, ctypes.byref(rectangle)):
        return None
    if kind in _NOTHING_WITHOUT_ROOM and (rectangle.left == rectangle.right or rectangle.top == rectangle.bottom):
        return None
    top, bottom = max(rectangle.top, rectangle.bottom), min(rectangle.top, rectangle.bottom)
    return Added(text, Place(rectangle.left, top, bottom), kind != pdfium_c.FPDF_ANNOT_WIDGET)


def _value(form: Any, widget: Any) -> str:
    kind = pdfium_c.FPDFAnnot_GetFormFieldType(form, widget)
    if kind in (pdfium_c.FPDF_FORMFIELD_CHECKBOX, pdfium_c.FPDF_FORMFIELD_RADIOBUTTON):
        return _CHECKED if pdfium_c.FPDFAnnot_IsChecked(form, widget) else ""
    if kind in (pdfium_c.FPDF_FORMFIELD_COMBOBOX, pdfium_c.FPDF_FORMFIELD_LISTBOX):
        chosen = [
            _string(pdfium_c.FPDFAnnot_GetOptionLabel, form, widget, option)
            for option in range(min(_MAX_OPTIONS, pdfium_c.FPDFAnnot_GetOptionCount(form, widget)))
            if pdfium_c.FPDFAnnot_IsOptionSelected(form, widget, option)
        ]
        return ", ".join(chosen) or _string(pdfium_c.FPDFAnnot_GetFormFieldValue, form, widget)
    secret = pdfium_c.FPDFAnnot_GetFormFieldFlags(form, widget) & pdfium_c.FPDF_FORMFLAG_TEXT_PASSWORD
    if kind != pdfium_c.FPDF_FORMFIELD_TEXTFIELD or secret:
        return ""
    return _string(pdfium_c.FPDFAnnot_GetFormFieldValue, form, widget)


def _value_without_form(widget: Any) -> str:
    """Return the value of a field in a page that was taken out of its form: viewers show it all the same."""
    if _string(pdfium_c.FPDFAnnot_GetStringValue, widget, b"FT") not in ("Tx", "Ch"):
        return ""
    flags = ctypes.c_float()
    pdfium_c.FPDFAnnot_GetNumberValue(widget, b"Ff", ctypes.byref(flags))
    if int(flags.value) & pdfium_c.FPDF_FORMFLAG_TEXT_PASSWORD:
        return ""
    return _string(pdfium_c.FPDFAnnot_GetStringValue, widget, b"V")


def _string(read: Callable[..., int], *of: Any) -> str:
    size = min(_MAX_BYTES, read(*of, None, 0))
    buffer = ctypes.create_string_buffer(size + 2)
    if not read(*of, ctypes.cast(buffer, ctypes.POINTER(pdfium_c.FPDF_WCHAR)), size):
        return ""
    text = buffer.raw[: size - size % 2].decode("utf-16-le", "replace").rstrip("\0")
    return normalize(text).strip()


def with_additions(page: Page, places: Sequence[Place | None], added: Sequence[Added]) -> tuple[Page, list[Added]]:
    """Return the page's lines with what was added where it stands, and what of it was new.

    A value of one line goes on its label's line; notes, long values, and all that stands by no line follow the
    paragraph above them as one of their own. A note that repeats what the page says is left out: a marked passage
    often has itself as its note.
    """
    said = " ".join(" ".join(line.text for line in page).split())
    new = [one for one in added if not one.is_note or " ".join(one.text.split()) not in said]
    values: dict[int, list[str]] = {}
    below: dict[int, list[str]] = {}
    for one in sorted(new, key=lambda one: (-one.place.top, one.place.left)):
        beside, above = _beside(places, one.place), _above(places, one.place, len(page) - 1)
        if not one.is_note and "\n" not in one.text and beside is not None:
            values.setdefault(beside, []).append(one.text)
        else:
            below.setdefault(_paragraph_end(page, above if beside is None else beside), []).append(one.text)
    lines = [Line(text, apart=number > 0) for number, text in enumerate(below.get(-1, ()))]
    for number, line in enumerate(page):
        follows = number - 1 in below
        lines.append(replace(line, text=" ".join([line.text, *values.get(number, ())]), apart=line.apart or follows))
        lines += [Line(text, apart=True) for text in below.get(number, ())]
    return lines, new


def _paragraph_end(page: Page, number: int) -> int:
    while 0 <= number < len(page) - 1 and not page[number + 1].apart:
        number += 1
    return number


def _beside(places: Sequence[Place | None], at: Place) -> int | None:
    """Return the number of the line at the same height, the last one that begins to the left if there are several."""
    middle = (at.top + at.bottom) / 2
    # What a line takes up is that of the tallest characters of its font, and reaches into its neighbours.
    level = {
        number: abs(middle - (place.bottom + place.top) / 2)
        for number, place in enumerate(places)
        if place and (place.bottom <= middle <= place.top or at.bottom <= (place.bottom + place.top) / 2 <= at.top)
    }
    nearest = [number for number, away in level.items() if away <= min(level.values()) + _SAME_LEVEL]
    return max(nearest, key=lambda number: _leftness(places[number], at), default=None)


def _leftness(place: Place | None, at: Place) -> tuple[bool, float]:
    left = place.left if place else 0.0
    return left <= at.left, left if left <= at.left else -left


def _above(places: Sequence[Place | None], at: Place, last: int) -> int:
    """Return the number of the lowest line above, -1 where there is none; `last` where no place is known."""
    known = [(place.bottom, number) for number, place in enumerate(places) if place]
    if not known:
        return last
    return min(((bottom, number) for bottom, number in known if bottom >= at.bottom), default=(0.0, -1))[1]
