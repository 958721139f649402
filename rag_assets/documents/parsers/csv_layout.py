"""How a CSV file is laid out: its delimiter, and what stands above the names of its columns."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from dataclasses import dataclass
from itertools import takewhile

_DELIMITERS = ",;\t|"
_SAMPLE = 64 * 1024  # characters
_SNIFFED_ROWS = 40
# Excel's own line, which says the delimiter and is no row.
_SEPARATOR = re.compile(r"[ \t]*\"?sep=([^\w\s\"]|\t)\"?[,; \t]*(?:\r\n?|\n|\Z)", re.IGNORECASE)
_NUMBER = re.compile(r"[-+]?[\d.,' ]*\d[\d.,' ]*%?")
_YEAR = re.compile(r"(?:1[89]|20)\d\d")
_GUESSED = 0.75  # what a fit counts for that takes the first lines for a title: a header that fits counts more


@dataclass(frozen=True)
class Layout:
    """`heading` are the lines of the title, and the header comes after `lines` lines of the file."""

    delimiter: str
    heading: tuple[str, ...] = ()
    lines: int = 0


@dataclass(frozen=True)
class _Row:
    cells: list[str]
    before: int  # lines in front of it

    @property
    def filled(self) -> list[str]:
        return [cell.strip() for cell in self.cells if cell.strip()]


def csv_layout(text: str, delimiter: str | None = None) -> Layout:
    """Return the layout of CSV. `delimiter` is the one that the file's name promises; a `sep=` line says more.

    Without either it is the delimiter that splits the first rows into the most equal columns, a comma if none does.
    A title are lines with less than the table in them: of one cell each, or with an empty line behind them.
    """
    separator = _SEPARATOR.match(text)
    skipped = 0
    if separator:
        delimiter, skipped, text = separator[1], 1, text[separator.end() :]
    delimiter = delimiter or max(_DELIMITERS, key=lambda one: _fit(_rows(text, one)))
    rows = _rows(text, delimiter)
    header = _header(rows)
    heading = tuple(" ".join(row.filled) for row in rows[:header] if row.filled)
    return Layout(delimiter, heading, skipped + (rows[header].before if heading else 0))


def _rows(text: str, delimiter: str) -> list[_Row]:
    """Return the first rows, blank ones too; what is cut off at the end of the sample is left out."""
    reader = csv.reader(io.StringIO(text[:_SAMPLE], newline=""), delimiter=delimiter)
    rows: list[_Row] = []
    before = 0
    try:
        for cells in reader:
            rows.append(_Row(cells, before))
            before = reader.line_num
            if len(rows) == _SNIFFED_ROWS:
                return rows
    except csv.Error:
        return rows
    return rows[:-1] if len(text) > _SAMPLE and len(rows) > 1 else rows


def _width(rows: list[_Row]) -> int:
    """Return how many cells most rows have that have several; 0 if none has."""
    widths = Counter(len(row.cells) for row in rows if len(row.filled) > 1)
    return max(widths, key=lambda width: (widths[width], width), default=0)


def _fit(rows: list[_Row]) -> tuple[float, int]:
    rows = [row for row in rows if row.filled]
    first = len(rows[0].cells) if rows else 0
    by_header = sum(len(row.cells) == first for row in rows) / len(rows) if first > 1 else 0.0
    width = _width(rows)
    rows = rows[sum(1 for _ in takewhile(lambda row: len(row.cells) < width, rows)) :]
    by_rows = _GUESSED * sum(len(row.cells) == width for row in rows) / len(rows) if len(rows) > 1 else 0.0
    return max((by_header, first), (by_rows, width)) if width else (0.0, 0)


def _header(rows: list[_Row]) -> int:
    """Return the number of the row that names the columns, 0 where no title can be told from it."""
    width = _width(rows)
    number = next((n for n, row in enumerate(rows) if len(row.cells) == width and len(row.filled) > 1), 0)
    above, below = rows[:number], [row for row in rows[number + 1 :] if row.filled]
    if not below or 2 * sum(len(row.cells) == width for row in below) < len(below):
        return 0
    parted = bool(above) and not above[-1].filled
    is_title = all(len(row.filled) <= 1 or (parted and len(row.filled) < width) for row in above)
    return number if is_title and _names_columns(rows[number]) else 0


def _names_columns(row: _Row) -> bool:
    """A number is no column's name, but a year may be: what stands above it is then the header, and it is data."""
    return not any(_NUMBER.fullmatch(cell) and not _YEAR.fullmatch(cell) for cell in row.filled)
