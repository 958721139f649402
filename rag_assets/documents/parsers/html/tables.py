"""Tables of a web page: those of data as lines of cells, those that only lay out the page told apart."""

from __future__ import annotations

from collections.abc import Iterator

from lxml import etree  # type: ignore[import-untyped]

from rag_assets.documents.parsers.html.text import HEADINGS, line, tag_of

_CELLS = frozenset({"td", "th"})
_LONG_CELL = 1000  # characters: what is longer is a column of a page, not a value
_MAX_SPAN = 20
_LAYOUT = HEADINGS | {"table", "article", "section", "nav", "aside", "form"}


def is_data_table(table: etree._Element) -> bool:
    """Tell a table of data from one that only lays out the page, or code beside its line numbers."""
    for element in table.iterdescendants():
        tag = tag_of(element)
        if tag in _LAYOUT or (tag == "pre" and "\n" in "".join(element.itertext()).strip()):
            return False
    rows = list(_rows(table))
    if not any(len(row) > 1 for row in rows):
        return False
    return all(len("".join(cell.itertext())) < _LONG_CELL for row in rows for cell in row)


def table_lines(table: etree._Element) -> Iterator[str]:
    """Yield the caption and one line for each row that is not empty. A cell that spans columns or rows is repeated
    in each, so that every row says what it is about."""
    caption = table.find("caption")
    if caption is not None:
        yield line(caption)
    hanging: dict[int, tuple[int, str]] = {}  # by column: of cells from rows above, how many rows are left
    for row in _rows(table):
        cells = _filled(row, hanging)
        if any(cells):
            yield " | ".join(cells)


def _filled(row: list[etree._Element], hanging: dict[int, tuple[int, str]]) -> list[str]:
    cells: list[str] = []
    for cell in row:
        _drop_down(cells, hanging)
        text, rows = line(cell), _span(cell, "rowspan")
        for _ in range(_span(cell, "colspan")):
            if rows > 1:
                hanging[len(cells)] = (rows - 1, text)
            cells.append(text)
    _drop_down(cells, hanging)
    return cells


def _drop_down(cells: list[str], hanging: dict[int, tuple[int, str]]) -> None:
    while len(cells) in hanging:
        left, text = hanging.pop(len(cells))
        if left > 1:
            hanging[len(cells)] = (left - 1, text)
        cells.append(text)


def _span(cell: etree._Element, name: str) -> int:
    text = cell.get(name) or ""
    return min(int(text), _MAX_SPAN) if text.isascii() and text.isdecimal() and 0 < len(text) < 10 and int(text) else 1


def _rows(table: etree._Element) -> Iterator[list[etree._Element]]:
    for row in table.iter("tr"):
        yield [cell for cell in row if tag_of(cell) in _CELLS]
