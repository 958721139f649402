"""Rows of the text files that labelled sets come in, each with its line number."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rag_assets.errors import UsageError
from rag_assets.printing import counted

_NAMES = {
    "query": ("query-id", "qid", "query", "topic", "topic-id", "-id", "id"),
    "iteration": ("iteration", "iter", "q0"),
    "document": ("corpus-id", "doc-id", "docid", "docno", "document", "document-id"),
    "grade": ("score", "relevance", "rel", "grade", "label"),
    "text": ("text", "title", "question"),
    "critical": ("critical",),
    "kind": ("kind",),
}
_CANONICAL = {alias: name for name, aliases in _NAMES.items() for alias in aliases}
_TRUE, _FALSE = ("true", "1", "yes"), ("false", "0", "no", "")


class DatasetError(UsageError):
    """A labelled set that cannot be used as it is; the text names the file and the lines."""


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Line number (from 1) and text of every line that is not blank.

    Raises:
        DatasetError: the file cannot be read or is not UTF-8.
    """
    try:
        with path.open(encoding="utf-8-sig") as handle:
            for number, line in enumerate(handle, start=1):
                if line.strip():
                    yield number, line.rstrip("\n")
    except UnicodeDecodeError as error:
        raise DatasetError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start})") from error
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read ({error.strerror})") from error


def read_json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a JSON lines file.

    Raises:
        DatasetError: a line that is no JSON object, by its number.
    """
    for number, line in read_lines(path):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise DatasetError(f"{path}:{number}: not valid JSON ({error})") from error
        if not isinstance(row, dict):
            raise DatasetError(f"{path}:{number}: expected a JSON object, found {type(row).__name__}")
        yield number, row


def read_table(
    path: Path,
    layouts: Mapping[int, Sequence[str]],
    split: Callable[[str], list[str]],
) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of a table, by column name; `layouts` names the columns of a file without a header row.

    Raises:
        DatasetError: a row with another number of columns, by its line.
    """
    columns: Sequence[str] | None = None
    first = True
    for number, line in read_lines(path):
        fields = [field.strip() for field in split(line)]
        if first and (columns := _header(fields)):
            first = False
            continue
        first = False
        names = columns or layouts.get(len(fields))
        if names is None or len(names) != len(fields):
            expected = str(len(columns)) if columns else " or ".join(map(str, layouts))
            raise DatasetError(f"{path}:{number}: {counted(len(fields), 'column')} where {expected} are expected")
        yield number, dict(zip(names, fields, strict=True))


def _header(fields: Sequence[str]) -> list[str] | None:
    """Column names if this row is a header. A broken data row is none: it has to be reported, not skipped."""
    names = [_CANONICAL.get(_spelling(field), field) for field in fields]
    known = set(names) & _NAMES.keys()
    return names if names[0] == "query" and len(known) > 1 else None


def _spelling(field: str) -> str:
    return field.lower().replace("_", "-")


def split_fields(line: str) -> list[str]:
    """Fields between tabs; between any white space where there is no tab, as TREC files have it."""
    return line.split("\t") if "\t" in line else line.split()


def split_topic(line: str) -> list[str]:
    """Fields between tabs; without a tab the id is what stands before the first space."""
    return line.split("\t") if "\t" in line else line.split(maxsplit=1)


def parse_flag(value: object, where: str) -> bool:
    """A boolean of a JSON field or a column.

    Raises:
        DatasetError: anything that is not clearly true or false.
    """
    text = str(value).strip().lower() if value is not None else ""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise DatasetError(f"{where}: critical is {value!r}, expected true or false")


def parse_grade(value: str, where: str) -> int:
    """A relevance grade; `2.0` counts as 2, below 1 means not relevant.

    Raises:
        DatasetError: not a whole number.
    """
    try:
        number = float(value)
    except ValueError:
        number = float("nan")
    if not number.is_integer():
        raise DatasetError(f"{where}: the grade {value!r} is not a whole number")
    return int(number)


def parse_id(value: object, where: str) -> str:
    """An id as text; numbers of JSON files are ids too.

    Raises:
        DatasetError: empty, missing or neither text nor a whole number.
    """
    usable = isinstance(value, str | int) and not isinstance(value, bool)
    text = str(value).strip() if usable else ""
    if not text:
        raise DatasetError(f"{where}: {value!r} is not an id")
    return text
