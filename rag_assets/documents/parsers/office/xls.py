"""Workbooks of Excel 5 to 2003 (.xls)."""

from __future__ import annotations

import io
from collections.abc import Iterator

import xlrd  # type: ignore[import-untyped]

from rag_assets.documents.building import HeadingPath, TextBuilder, whole_file
from rag_assets.documents.model import Record
from rag_assets.documents.parsers.office.number_formats import NumberFormat, number_format
from rag_assets.documents.parsers.office.sheets import SheetRow, add_sheet
from rag_assets.documents.reasons import in_words
from rag_assets.errors import ParseError

_ISO_DATE = 14  # the built-in format of a date


def parse_xls(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Parse an old workbook: each sheet is a section.

    Raises:
        ParseError: encrypted or damaged.
    """
    builder = TextBuilder()
    # The library raises many kinds of errors for damaged files, and prints warnings unless they go elsewhere.
    try:
        with _opened(data) as book:
            for number in range(book.nsheets):
                sheet = book.sheet_by_index(number)
                builder.headings = HeadingPath()
                add_sheet(builder, sheet.name, _rows(book, sheet))
                book.unload_sheet(number)
    except Exception as error:
        if "encrypted" in str(error):
            raise ParseError("the workbook is encrypted and needs a password: save it without one") from error
        raise ParseError(f"the workbook is damaged: {in_words(error)}") from error
    document = builder.document(content_type="application/vnd.ms-excel")
    return whole_file(document, name, "no sheet holds anything")


def _opened(data: bytes) -> xlrd.book.Book:
    def opened(*, formats: bool) -> xlrd.book.Book:
        return xlrd.open_workbook(
            file_contents=data, logfile=io.StringIO(), on_demand=True, ragged_rows=True, formatting_info=formats
        )

    try:
        return opened(formats=True)
    # What is damaged in a book's looks alone does not hide its text.
    except Exception:
        return opened(formats=False)


def _rows(book: xlrd.book.Book, sheet: xlrd.sheet.Sheet) -> Iterator[SheetRow]:
    for number in range(sheet.nrows):
        cells = {column: _text(book, cell) for column, cell in enumerate(sheet.row(number))}
        yield number, {column: text for column, text in cells.items() if text}


def _text(book: xlrd.book.Book, cell: xlrd.sheet.Cell) -> str:
    if cell.ctype == xlrd.XL_CELL_TEXT:
        return _format(book, cell).shown_text(str(cell.value))
    if cell.ctype in (xlrd.XL_CELL_DATE, xlrd.XL_CELL_NUMBER):
        return _format(book, cell).shown(cell.value, since_1904=book.datemode == 1)
    if cell.ctype == xlrd.XL_CELL_BOOLEAN:
        return "TRUE" if cell.value else "FALSE"
    return xlrd.error_text_from_code.get(cell.value, "") if cell.ctype == xlrd.XL_CELL_ERROR else ""


def _format(book: xlrd.book.Book, cell: xlrd.sheet.Cell) -> NumberFormat:
    if cell.xf_index is None or cell.xf_index >= len(book.xf_list):
        return number_format(_ISO_DATE if cell.ctype == xlrd.XL_CELL_DATE else 0)
    key = book.xf_list[cell.xf_index].format_key
    known = book.format_map.get(key)
    return number_format(key, known.format_str if known else "")
