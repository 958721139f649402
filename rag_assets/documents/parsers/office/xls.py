"""Workbooks of Excel 5 to 2003 (.xls)."""

from __future__ import annotations

import io
from collections.abc import Iterator

import xlrd  # type: ignore[import-untyped]

from rag_assets.documents.building import HeadingPath, TextBuilder, whole_file
from rag_assets.documents.model import Record
from rag_assets.documents.parsers.office.cells import plain, shown
from rag_assets.documents.parsers.office.sheets import SheetRow, add_sheet
from rag_assets.documents.reasons import in_words
from rag_assets.errors import ParseError


def parse_xls(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Parse an old workbook: each sheet is a section.

    Raises:
        ParseError: encrypted or damaged.
    """
    builder = TextBuilder()
    # The library raises many kinds of errors for damaged files, and prints warnings unless they go elsewhere.
    try:
        with xlrd.open_workbook(file_contents=data, logfile=io.StringIO(), on_demand=True, ragged_rows=True) as book:
            for number in range(book.nsheets):
                sheet = book.sheet_by_index(number)
                builder.headings = HeadingPath()
                add_sheet(builder, sheet.name, _rows(sheet, book.datemode == 1))
                book.unload_sheet(number)
    except Exception as error:
        if "encrypted" in str(error):
            raise ParseError("the workbook is encrypted and needs a password") from error
        raise ParseError(f"the workbook is damaged: {in_words(error)}") from error
    document = builder.document(content_type="application/vnd.ms-excel")
    return whole_file(document, name, "no sheet holds anything")


def _rows(sheet: xlrd.sheet.Sheet, since_1904: bool) -> Iterator[SheetRow]:
    for number in range(sheet.nrows):
        cells = {column: _text(cell, since_1904) for column, cell in enumerate(sheet.row(number))}
        yield number, {column: text for column, text in cells.items() if text}


def _text(cell: xlrd.sheet.Cell, since_1904: bool) -> str:
    if cell.ctype == xlrd.XL_CELL_TEXT:
        return str(cell.value)
    if cell.ctype == xlrd.XL_CELL_DATE:
        return shown(cell.value, "date", since_1904=since_1904)
    if cell.ctype == xlrd.XL_CELL_NUMBER:
        return plain(cell.value)
    if cell.ctype == xlrd.XL_CELL_BOOLEAN:
        return "TRUE" if cell.value else "FALSE"
    return xlrd.error_text_from_code.get(cell.value, "") if cell.ctype == xlrd.XL_CELL_ERROR else ""
