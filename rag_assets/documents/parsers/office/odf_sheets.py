"""The rows of an OpenDocument sheet, which are stored run-length encoded."""

from __future__ import annotations

from collections.abc import Iterator

from rag_assets.documents.parsers.office.cells import plain
from rag_assets.documents.parsers.office.sheets import SheetRow
from rag_assets.documents.parsers.safe_xml import Element, attribute, children, local, whole_text

_MAX_REPEATED = 32  # columns that one stored cell fills; one that fills more is the sheet's background, and stands once
_MAX_ROWS = 2**21
_GROUPS = frozenset({"table-header-rows", "table-rows", "table-row-group"})


def repeated(element: Element, what: str) -> int:
    """Return how often a row or cell is repeated: 1 or more."""
    count = attribute(element, f"number-{what}-repeated", "1")
    return max(int(count), 1) if count.isdecimal() and len(count) < 10 else 1


def sheet_rows(table: Element) -> Iterator[SheetRow]:
    """Yield the rows of a sheet that hold something; one that is stored once for several is one row."""
    number = shown = 0
    spans: dict[int, tuple[int, str]] = {}  # column to (last row, value) of cells merged downwards
    for row in table_rows(table):
        count = repeated(row, "rows")
        cells = _cells(row, number, spans)
        if cells:
            yield shown, cells
        number = min(number + count, _MAX_ROWS)
        # What follows a repeated row goes on below the one that stands for it, in the same table.
        shown = min(shown + (1 if cells else count), _MAX_ROWS)


def table_rows(table: Element) -> Iterator[Element]:
    """Yield the rows of a table, also those in groups of rows."""
    for inner in table:
        if local(inner) == "table-row":
            yield inner
        elif local(inner) in _GROUPS:
            yield from table_rows(inner)


def _cells(row: Element, number: int, spans: dict[int, tuple[int, str]]) -> dict[int, str]:
    cells: dict[int, str] = {}
    covered: dict[int, str] = {}
    column = 0
    for cell in row:
        name = local(cell)
        if name not in ("table-cell", "covered-table-cell"):
            continue
        count, text = repeated(cell, "columns"), _text(cell)
        if text:
            rows = attribute(cell, "number-rows-spanned", "1")
            if rows.isdecimal() and int(rows) > 1:
                spans[column] = (number + int(rows) - 1, text)
            cells.update(dict.fromkeys(range(column, column + (count if count <= _MAX_REPEATED else 1)), text))
        elif name == "covered-table-cell" and column in spans and number <= spans[column][0]:
            covered[column] = spans[column][1]
        column += count
    # Only where the row says something itself: a title merged over ten rows stays one line.
    return {**covered, **cells} if cells else {}


def _text(cell: Element) -> str:
    lines = [text for paragraph in children(cell, "p") if (text := whole_text(paragraph))]
    notes = [f"[Comment: {text}]" for note in children(cell, "annotation") if (text := _note(note))]
    if not lines:
        lines = [_stored(cell)]
    return " ".join([*lines, *notes]).strip()


def _note(annotation: Element) -> str:
    return " ".join(text for paragraph in children(annotation, "p") if (text := whole_text(paragraph)))


def _stored(cell: Element) -> str:
    """Return the value of a cell whose shown text is not stored."""
    value = attribute(cell, "date-value") or attribute(cell, "string-value") or attribute(cell, "value")
    try:
        return plain(float(value))
    except (ValueError, OverflowError):
        return value
