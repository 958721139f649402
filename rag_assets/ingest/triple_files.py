"""Triples that somebody gives in a file: JSON lines, or a table of comma or tab separated values with a header."""

from __future__ import annotations

import csv
import json
import math
import reprlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from rag_assets.errors import UsageError
from rag_assets.store.triples import MAX_NAME_CHARS, Triple

_COLUMNS = ("subject", "predicate", "object", "confidence", "source", "quote", "chunk")
_NEEDED = ("subject", "predicate", "object")
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_LONGEST_LINE = 1_000_000  # characters; more is no triple


class BadLine(ValueError):
    """A line that says no triple, or one that stands nowhere; the text says why."""


@dataclass(frozen=True)
class GivenTriple:
    """A triple as a file gives it: what it says, the name or address of the source that says so, and the words that say
    so there, or the chunk in which it does."""

    triple: Triple
    source: str | None
    quote: str | None
    chunk: UUID | None


def read_triples(path: Path) -> Iterator[tuple[int, GivenTriple | BadLine]]:
    """Each line's number, from 1 on, with what it gives, or what is wrong with it; empty lines are skipped.

    Raises:
        UsageError: the file cannot be read, is no UTF-8, or its first line names no subject, predicate and object.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            delimiter = _DELIMITERS.get(path.suffix.lower())
            for number, row in _records(lines) if delimiter is None else _rows(path, lines, delimiter):
                try:
                    yield number, _given(row)
                except BadLine as error:
                    yield number, error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is no UTF-8 text") from error


def _records(lines: Iterator[str]) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield number, json.loads(line[:_LONGEST_LINE])
        except (ValueError, RecursionError):
            yield number, None


def _rows(path: Path, lines: Iterator[str], delimiter: str) -> Iterator[tuple[int, Any]]:
    reader = csv.reader(lines, delimiter=delimiter)
    names = [name.strip().lower() for name in next(reader, [])]
    if missing := [name for name in _NEEDED if name not in names]:
        raise UsageError(f"{path}: its first line must name the columns; {', '.join(missing)} is not among them")
    number = reader.line_num
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error:
            number = reader.line_num
            yield number, None
            continue
        number = reader.line_num
        if any(cell.strip() for cell in row):
            yield number, dict(zip(names, row, strict=False)) if len(row) == len(names) else None


def _given(row: Any) -> GivenTriple:
    if not isinstance(row, Mapping):
        raise BadLine("the line is no object of JSON, or has other columns than the first line")
    if unknown := sorted(str(name) for name in row if name not in _COLUMNS):
        raise BadLine(f"{', '.join(unknown)}: known are {', '.join(_COLUMNS)}")
    names = {name: _text(row, name) for name in _COLUMNS if name != "confidence"}
    for name in _NEEDED:
        value = names[name]
        if value is None:
            raise BadLine(f"{name} is missing")
        if len(value) > MAX_NAME_CHARS:
            raise BadLine(f"{name} is longer than {MAX_NAME_CHARS} characters")
    if names["source"] is None and names["chunk"] is None:
        raise BadLine("source is missing: the name or address of the source that says so")
    triple = Triple(
        str(names["subject"]), str(names["predicate"]), str(names["object"]), _confidence(row.get("confidence"))
    )
    return GivenTriple(triple, names["source"], names["quote"], _chunk(names["chunk"]))


def _text(row: Mapping[str, Any], name: str) -> str | None:
    value = row.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise BadLine(f"{name} must be a text, not {reprlib.repr(value)}")
    if "\x00" in value or any("\ud800" <= char <= "\udfff" for char in value):
        raise BadLine(f"{name} holds a character that no text may hold")
    return " ".join(value.split()) or None


def _confidence(value: Any) -> float:
    if value is None or value == "":
        return 1.0
    try:
        number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else math.nan
    except ValueError:
        number = math.nan
    if not 0 < number <= 1:
        raise BadLine(f"confidence must be a number above 0 and up to 1, not {reprlib.repr(value)}")
    return number


def _chunk(value: str | None) -> UUID | None:
    try:
        return None if value is None else UUID(value)
    except ValueError:
        raise BadLine(
            f"chunk must be the id of one, as `rag search --json` prints it, not {reprlib.repr(value)}"
        ) from None
