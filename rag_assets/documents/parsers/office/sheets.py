"""Worksheets of any kind as blocks: each region of neighbouring cells is a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from rag_assets.documents.building import TextBuilder
from rag_assets.errors import ParseError

# One row of a sheet: its 0-based number, and its cells by 0-based column. Empty ones are left out, but for those that
# a merged cell beside them covers: they hold "".
SheetRow = tuple[int, dict[int, str]]

MAX_CHARACTERS = 50_000_000  # of a workbook: one stored string can stand in millions of cells
_MAX_PADDING = 64  # empty columns kept between two cells to keep columns under each other
_MAX_SPLIT = 20_000  # rows of a region that is searched for tables beside each other


def add_sheet(builder: TextBuilder, name: str, rows: Iterable[SheetRow]) -> None:
    """Append a sheet: its name as a heading, and its regions.

    Rows are given in order. A run of rows without an empty one between them is a table, whose first line is its
    header row; tables beside each other are told apart, and what stands alone above a table is a paragraph.

    Raises:
        ParseError: the sheets hold too much text.
    """
    builder.add("heading", name, level=1)
    for region in _regions(_bounded(rows, builder)):
        for table in _beside(region):
            for is_table, lines in _parts([cells for _, cells in table]):
                builder.add("table" if is_table else "paragraph", "\n".join(lines))


def _bounded(rows: Iterable[SheetRow], builder: TextBuilder) -> Iterator[SheetRow]:
    left = MAX_CHARACTERS - builder.length
    for number, cells in rows:
        left -= sum(map(len, cells.values()))
        if left < 0:
            raise ParseError(f"the sheets hold more than {MAX_CHARACTERS:,} characters")
        yield number, cells


def _regions(rows: Iterable[SheetRow]) -> Iterator[list[SheetRow]]:
    region: list[SheetRow] = []
    for number, cells in rows:
        kept = {column: " ".join(cell.split()) for column, cell in cells.items()}
        if not any(kept.values()):
            continue
        if region and number > region[-1][0] + 1:
            yield region
            region = []
        region.append((number, kept))
    if region:
        yield region


def _beside(region: list[SheetRow]) -> Iterator[list[SheetRow]]:
    """Divide a region at a column that is empty in all rows, where the tables beside it begin in different rows."""
    tops: dict[int, int] = {}
    for number, cells in region if len(region) <= _MAX_SPLIT else ():
        for column in cells:
            tops.setdefault(column, number)
    columns = sorted(tops)
    for left, right in pairwise(columns):
        if right == left + 1:
            continue
        sides = [_side(region, left, right=False), _side(region, left, right=True)]
        if sides[0][0][0] != sides[1][0][0] and all(max(map(_width, side)) > 1 for side in sides):
            for side in sides:
                for smaller in _regions(side):
                    yield from _beside(smaller)
            return
    yield region


def _side(region: list[SheetRow], last: int, *, right: bool) -> list[SheetRow]:
    """Return the part of a region right of the column `last`, or up to it."""
    sides = ((number, {c: text for c, text in cells.items() if (c > last) == right}) for number, cells in region)
    return [row for row in sides if row[1]]


def _width(row: SheetRow) -> int:
    return sum(1 for text in row[1].values() if text)


def _parts(region: list[dict[int, str]]) -> Iterator[tuple[bool, list[str]]]:
    """Yield (is a table, lines): what stands alone above the wider rows is no part of the table."""
    wide = next((number for number, row in enumerate(region) if sum(map(bool, row.values())) > 1), None)
    alone = [text for row in region[:wide] for text in row.values() if text]
    if wide is None:
        yield len(region) > 1, alone
        return
    if alone:
        yield False, alone
    first = min(column for row in region[wide:] for column, text in row.items() if text)
    yield True, [_line(row, first) for row in region[wide:]]


def _line(row: dict[int, str], first: int) -> str:
    parts: list[str] = []
    expected = first
    for column in sorted(row):
        if row[column]:
            parts += [""] * min(column - expected, _MAX_PADDING)
            parts.append(row[column])
            expected = column + 1
    return " | ".join(parts)
