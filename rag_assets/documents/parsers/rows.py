"""The rows of a collection file: JSON lines, a JSON array, or CSV."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

from rag_assets.documents.parsers.csv_layout import Layout, csv_layout
from rag_assets.documents.reasons import in_words
from rag_assets.errors import ParseError

# The default of 128 KiB a cell refuses ordinary exports of articles.
csv.field_size_limit(2**31 - 1)

_OPENING, _COMMA, _CLOSING = re.compile(r"\s*\{\s*"), re.compile(r"\s*,\s*"), re.compile(r"\s*\}")
_MARK = "\ufeff"
# What stands between values: nothing, lines, record separators (RFC 7464), commas of an array without its brackets.
_GAP = re.compile(f"[\\s{_MARK},]*+")
_NAME = re.compile(r'("(?:[^"\\]|\\.)*")\s*:\s*')


@dataclass(frozen=True)
class Row:
    """One row of a file, or what is wrong with it. `place` is `line` or `item`; `number` is 1-based.

    Of a row with an error, `known` are the fields in front of it, and `unread` is what stands in the file, where it
    could be any row. `extra` are the names of fields that the header of the file has none for.
    """

    place: str
    number: int
    values: dict[str, Any] | None
    error: str | None = None
    known: Mapping[str, Any] = field(default_factory=dict)
    unread: str = ""
    extra: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return f"{self.place}:{self.number}"

    @property
    def where(self) -> str:
        return f"{self.place} {self.number}"


def json_lines(text: str) -> Iterator[Row]:
    """Yield one row for each line that is not blank."""
    # Not splitlines: U+2028 and U+0085 may stand unescaped inside a JSON string.
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.lstrip(_MARK)  # of a file that was joined to another
        if not line or line.isspace():
            continue
        try:
            yield _object(json.loads(line), "line", number)
        except (ValueError, RecursionError) as error:
            yield Row("line", number, None, _not_json(number, error), _members(line), line.strip())


def _not_json(number: int, error: Exception) -> str:
    """The decoder counts lines within this one; where it stands in the file is `number`."""
    if isinstance(error, json.JSONDecodeError):
        return f"line {number} is not valid JSON: {error.msg} at character {error.colno}"
    return f"line {number} is not valid JSON: {in_words(error)}"


def _members(text: str) -> dict[str, Any]:
    """Return the members of a JSON object in front of its first fault."""
    found: dict[str, Any] = {}
    decoder, place = json.JSONDecoder(), _OPENING.match(text)
    while place is not None and (name := _NAME.match(text, place.end())):
        try:
            key = json.loads(name[1])
            value, end = decoder.raw_decode(text, name.end())
        except (ValueError, RecursionError):
            break
        place = _COMMA.match(text, end)
        if place is not None or _CLOSING.match(text, end):  # else a number may go on where the line breaks off
            found[key] = value
    return found


def json_array(text: str) -> Iterator[Row] | None:
    """Return the rows of JSON objects: of an array, or one after the other, or of arrays that follow each other.

    None where the text holds other JSON values. What cannot be read behind an object is a row with an error.

    Raises:
        ParseError: the text is not JSON; the message says at which line.
    """
    values, fault = _values(text)
    if len(values) == 1 and fault is None and isinstance(values[0], dict):
        return None
    items = [item for value in values for item in (value if isinstance(value, list) else [value])]
    objects = sum(isinstance(item, dict) for item in items)
    # Objects of one array are rows whatever stands between them; a mixture of values is a text.
    if fault is not None and (not objects or isinstance(values[-1], list)):
        raise ParseError(f"not valid JSON: {fault[0]}") from fault[0]
    if not objects or (len(values) > 1 and objects < len(items)):
        return None
    rows = (_object(item, "item", number) for number, item in enumerate(items, start=1))
    return rows if fault is None else chain(rows, [_broken(len(items) + 1, *fault)])


def json_values(text: str) -> list[Row] | None:
    """Return the rows of objects that follow each other in any layout; None if that is not what the text is."""
    values, fault = _values(text)
    if fault is not None or not all(isinstance(value, dict) for value in values):
        return None
    return [_object(value, "item", number) for number, value in enumerate(values, start=1)]


def _values(text: str) -> tuple[list[Any], tuple[ValueError | RecursionError, str] | None]:
    """Return the JSON values in front of the first fault, and that fault with the text from there on."""
    decoder, values, position = json.JSONDecoder(), list[Any](), _between(text, 0)
    while position < len(text) or not values:
        try:
            value, end = decoder.raw_decode(text, position)
            following = _between(text, end)
            # `12abc` is no number and a word.
            if following == end < len(text) and not isinstance(value, (dict, list)):
                raise json.JSONDecodeError("Extra data", text, end)
        except (ValueError, RecursionError) as error:
            return values, (error, text[position:])
        values.append(value)
        position = following
    return values, None


def _between(text: str, position: int) -> int:
    found = _GAP.match(text, position)
    return found.end() if found else position


def _broken(number: int, error: ValueError | RecursionError, text: str) -> Row:
    reason = f"item {number} is not valid JSON: {error if isinstance(error, ValueError) else in_words(error)}"
    return Row("item", number, None, reason, _members(text), text.strip())


def _object(value: Any, place: str, number: int) -> Row:
    if isinstance(value, dict):
        return Row(place, number, value)
    return Row(place, number, None, f"{place} {number} is a JSON {type(value).__name__}, not an object")


def csv_rows(text: str, layout: Layout | None = None) -> Iterator[Row]:
    """Yield one row for each CSV row below the header that is not blank.

    Missing fields at the end are empty, and fields that no column is named for go by their numbers. Numbers of rows
    are those of the line of the file on which a row starts.
    """
    layout = layout or csv_layout(text)
    lines = _Lines(islice(io.StringIO(text, newline=""), layout.lines, None))
    reader = csv.reader(lines, delimiter=layout.delimiter, strict=True)
    header: list[str] | None = None
    while True:
        number = layout.lines + reader.line_num + 1
        lines.taken.clear()
        try:
            cells = next(reader, None)
        except csv.Error as error:
            reason = f"line {number} is not valid CSV: {error}"
            yield Row("line", number, None, reason, unread="".join(lines.taken))
            continue
        if cells is None:
            return
        if not any(cell.strip() for cell in cells):
            continue
        if header is None:
            header = _header(cells)
        else:
            yield _csv_row(header, cells, number)


class _Lines:
    """Hands lines on, and keeps those that were taken since somebody cleared the list."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)
        self.taken: list[str] = []

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.taken.append(line)
        return line


def _header(cells: list[str]) -> list[str]:
    """Return one name for each column; a missing or repeated name gets the column's number."""
    names: dict[str, None] = {}  # in order, and found at once among tens of thousands
    for position, cell in enumerate(cells, start=1):
        name = cell.strip() or "column"
        name = f"{name} {position}" if not cell.strip() or name in names else name
        while name in names:
            name += "'"
        names[name] = None
    return list(names)


def _csv_row(header: list[str], cells: list[str], number: int) -> Row:
    while len(cells) > len(header) and not cells[-1].strip():
        cells.pop()
    extra = len(cells) - len(header)
    if extra <= 0:
        return Row("line", number, dict(zip(header, cells + [""] * -extra, strict=True)))
    names = _header([*header, *[""] * extra])
    return Row("line", number, dict(zip(names, cells, strict=True)), extra=tuple(names[len(header) :]))
