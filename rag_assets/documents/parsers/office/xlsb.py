"""Binary workbooks (MS-XLSB): the same parts as in `.xlsx`, the main ones as binary records."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import xlrd  # type: ignore[import-untyped]

from rag_assets.documents.model import Record
from rag_assets.documents.parsers.office.number_formats import NumberFormat, number_format
from rag_assets.documents.parsers.office.package import MAX_STREAMED, Package
from rag_assets.documents.parsers.office.sheets import SheetRow
from rag_assets.documents.parsers.office.xlsx import Merged, Workbook
from rag_assets.errors import ParseError

_TYPE = "application/vnd.ms-excel.sheet.binary.macroenabled.12"
# Records (MS-XLSB, 2.3.2). Cells are 1 to 11 and 62, and 12 to 18 for those right after the one before.
_ROW, _STRING, _CODE, _STYLE, _BOOK, _SHEET, _MERGE = 0, 19, 44, 47, 153, 156, 176
_STYLES, _STYLES_END, _AUTHOR, _COMMENT, _COMMENT_TEXT = 617, 618, 632, 635, 637
_RK, _ERROR, _BOOLEAN, _REAL, _TEXT, _SHARED, _RICH = 2, 3, 4, 5, 6, 7, 62
_SAME = {8: _TEXT, 9: _REAL, 10: _BOOLEAN, 11: _ERROR}  # what a formula gave
_SHORT, _LONG = range(12, 19), 11  # a short cell's number is that of the long one, and this
_MAX_COLUMN = 16_384


def parse_xlsb(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Parse a binary workbook, as one in XML.

    Raises:
        ParseError: damaged, or with a part that is too large.
    """
    try:
        return _BinaryWorkbook(Package(data)).records(name, _TYPE)
    except (struct.error, IndexError) as error:
        raise ParseError("the workbook is damaged: a record of it is cut off") from error


class _BinaryWorkbook(Workbook):
    main = "xl/workbook.bin"

    def _parts(self, path: str) -> Iterator[tuple[int, memoryview]]:
        return _records(self.package.read(path, MAX_STREAMED) or b"")

    def _related(self, kind: str) -> Iterator[tuple[int, memoryview]]:
        for path in self.package.related(self.path, kind):
            yield from self._parts(path)

    def _book(self) -> tuple[bool, list[tuple[str, str]]]:
        since_1904, tabs = False, []
        for kind, data in self._parts(self.path):
            if kind == _BOOK:
                since_1904 = bool(data[0] & 1)
            elif kind == _SHEET:
                key, end = _string(data, 8)
                tabs.append((_string(data, end)[0], key))
        return since_1904, tabs

    def _strings(self) -> Iterator[str]:
        return (_string(data, 1)[0] for kind, data in self._related("sharedStrings") if kind == _STRING)

    def _formats(self) -> list[NumberFormat]:
        codes: dict[int, str] = {}
        numbers: list[int] = []
        are_cells = False
        for kind, data in self._related("styles"):
            if kind == _CODE:
                codes[struct.unpack_from("<H", data)[0]] = _string(data, 2)[0]
            elif kind in (_STYLES, _STYLES_END):
                are_cells = kind == _STYLES
            elif kind == _STYLE and are_cells:
                numbers.append(struct.unpack_from("<H", data, 2)[0])
        return [number_format(number, codes.get(number, "")) for number in numbers]

    def _rows(self, path: str) -> Iterator[SheetRow]:
        merged = Merged(_range(data, 0) for kind, data in self._parts(path) if kind == _MERGE)
        number, column, cells = -1, -1, dict[int, str]()
        for kind, data in self._parts(path):
            if kind == _ROW:
                if cells:
                    yield number, merged.fill(number, cells)
                number, column, cells = struct.unpack_from("<I", data)[0], -1, {}
            elif kind < _STRING or kind == _RICH:
                is_short = kind in _SHORT
                column = column + 1 if is_short else struct.unpack_from("<I", data)[0]
                text = self._cell(kind - _LONG if is_short else kind, data if is_short else data[4:])
                if text and not text.isspace() and column < _MAX_COLUMN:
                    cells[column] = text
        if cells:
            yield number, merged.fill(number, cells)

    def _cell(self, kind: int, data: memoryview) -> str:
        """Return what a cell shows; `data` begins with its style."""
        style = int.from_bytes(data[:3], "little")
        shows = self.formats[style] if style < len(self.formats) else number_format(0)
        kind = _SAME.get(kind, kind)
        if kind == _SHARED:
            number = struct.unpack_from("<I", data, 4)[0]
            return shows.shown_text(self.strings[number]) if number < len(self.strings) else ""
        if kind in (_TEXT, _RICH):
            return shows.shown_text(_string(data, 5 if kind == _RICH else 4)[0])
        if kind == _BOOLEAN:
            return "TRUE" if data[4] else "FALSE"
        if kind == _ERROR:
            return str(xlrd.error_text_from_code.get(data[4], ""))
        if kind not in (_RK, _REAL):
            return ""
        value = _packed(data[4:8]) if kind == _RK else struct.unpack_from("<d", data, 4)[0]
        try:
            return shows.shown(value, since_1904=self.since_1904)
        except (ValueError, OverflowError):
            return ""

    def _comments(self, path: str) -> None:
        authors: list[str] = []
        author, place = "unknown", "?"
        for kind, data in self._parts(path):
            if kind == _AUTHOR:
                authors.append(_string(data, 0)[0])
            elif kind == _COMMENT:
                number = struct.unpack_from("<I", data)[0]
                author = authors[number] if number < len(authors) else "unknown"
                (row, column), _ = _range(data, 4)
                place = f"{_letters(column)}{row + 1}"
            elif kind == _COMMENT_TEXT:
                self._comment(place, author, _string(data, 1)[0])


def _records(data: bytes) -> Iterator[tuple[int, memoryview]]:
    """Yield each record's kind and content; what is cut off at the end is left out."""
    view, at = memoryview(data), 0
    while at < len(data):
        kind, at = _number(data, at, 2)
        size, at = _number(data, at, 4)
        if at + size > len(data):
            raise ParseError("the workbook is damaged: a record of it is cut off")
        yield kind, view[at : at + size]
        at += size


def _number(data: bytes, at: int, most: int) -> tuple[int, int]:
    """Return a number in up to `most` bytes of seven bits, and where it ends."""
    value = 0
    for place in range(most):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            break
    return value, at


def _string(data: memoryview, at: int) -> tuple[str, int]:
    """Return a text and where it ends; one that is not there is empty."""
    count: int = struct.unpack_from("<I", data, at)[0]
    start = at + 4
    if count == 0xFFFFFFFF:
        return "", start
    if start + 2 * count > len(data):
        raise ParseError("the workbook is damaged: a text of it is cut off")
    return str(data[start : start + 2 * count], "utf-16-le", "replace"), start + 2 * count


def _range(data: memoryview, at: int) -> tuple[tuple[int, int], tuple[int, int]]:
    top, bottom, left, right = struct.unpack_from("<4I", data, at)
    return (top, left), (bottom, right)


def _packed(data: memoryview) -> float:
    """Return a number of 30 bits (MS-XLSB, 2.5.122): whole, or the upper bits of a float; of either the hundredth."""
    bits: int = struct.unpack("<I", data)[0]
    if bits & 2:
        value = float(struct.unpack("<i", data)[0] >> 2)
    else:
        value = struct.unpack("<d", b"\0\0\0\0" + struct.pack("<I", bits & ~3))[0]
    return value / 100 if bits & 1 else value


def _letters(column: int) -> str:
    letters, column = "", min(column, _MAX_COLUMN) + 1
    while column:
        column, rest = divmod(column - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters
