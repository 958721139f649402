"""Filters: which sources a search may answer from. One that is misspelt must not be left out: the search would be wider
than what was asked for."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping
from datetime import UTC, date, datetime
from typing import Any
from urllib.parse import quote
from uuid import UUID

from rag_assets.errors import InvalidArgument, alike, did_you_mean, shown
from rag_assets.retrieval.limits import MAX_CONDITIONS, MAX_FILTER_CHARS, MAX_PREFIXES

LISTS = (
    "source_ids", "source_names", "source_types", "locales", "content_types", "roots", "path_prefixes", "tags",
)  # fmt: skip
DATES = ("since", "until")
RANGES = ("gt", "gte", "lt", "lte")
OPERATORS = ("equals", "in", "exists", *RANGES)
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")  # as JSON writes it, and not a backslash that is text
_NAME_CHARS = 100  # a longer one is no misspelt filter
_Scalar = str | int | float | bool


def check_filters(filters: object) -> Mapping[str, Any]:
    """Filters as rag.search_space takes them.

    Raises:
        InvalidArgument: a filter is unknown, of the wrong kind, or no JSON, or they are too long.
    """
    if filters is None:
        return {}
    if not isinstance(filters, Mapping):
        raise InvalidArgument(f"filters must be a mapping, got {shown(filters)}", "filters")
    checked = {name: _checked(name, value) for name, value in filters.items()}
    _require_json(checked)
    _require_text_keys(checked)
    if "since" in checked and "until" in checked:
        since, until = checked["since"], checked["until"]
        if datetime.fromisoformat(since) >= datetime.fromisoformat(until):
            raise _wrong(f"since must be before until, and {since} is not before {until}")
    return checked


def _checked(name: object, value: object) -> Any:
    if name == "metadata":
        if not isinstance(value, Mapping):
            raise _wrong(f"'metadata' must be an object, got {shown(value)}")
        return dict(value)
    if name == "where":
        return _where(value)
    if name in DATES:
        return _moment(name, value)
    if name in LISTS:
        return _strings(str(name), value)
    known = (*LISTS, *DATES, "metadata", "where")
    likely = alike(name, known) if isinstance(name, str) and len(name) <= _NAME_CHARS else []
    meant = f"{did_you_mean(likely)} " if likely else ""
    raise _wrong(f"{shown(name)} is no filter; {meant}known are: {', '.join(known)}")


def _require_text_keys(value: object) -> None:
    """Keys of JSON are texts: two that would become one, such as 1 and "1", are none."""
    waiting: list[object] = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Mapping):
            for key in one:
                if not isinstance(key, str):
                    raise _wrong(f"'metadata': a key is a string, got {shown(key)}")
            waiting += one.values()
        elif isinstance(one, list | tuple):
            waiting += one


def _strings(name: str, value: object) -> list[str]:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Collection):
        raise _wrong(f"{name!r} must be a list, got {shown(value)}")
    strings = []
    for item in value:
        if not isinstance(item, str | UUID):
            raise _wrong(f"{name!r} must hold strings, got {shown(item)}")
        strings.append(item if isinstance(item, str) else str(item))
    if name != "path_prefixes":
        return strings
    if len(strings) > MAX_PREFIXES:
        raise _wrong(f"'path_prefixes' holds more than {MAX_PREFIXES:,} paths")
    # The address of a file is percent-encoded; people write a path as they see it.
    return list(dict.fromkeys([*strings, *map(_encoded, strings)]))


def _encoded(path: str) -> str:
    return quote(path, errors="replace")  # half a surrogate pair is refused with the rest


def _where(value: object) -> dict[str, dict[str, Any]]:
    if not isinstance(value, Mapping):
        raise _wrong(f"'where' must be an object of conditions by metadata key, got {shown(value)}")
    conditions = {key: _conditions(key, wanted) for key, wanted in value.items()}
    if sum(map(len, conditions.values())) > MAX_CONDITIONS:
        raise _wrong(f"'where' holds more than {MAX_CONDITIONS} conditions")
    return conditions


def _conditions(key: object, value: object) -> dict[str, Any]:
    if not isinstance(key, str):
        raise _wrong(f"'where': a metadata key is a string, got {shown(key)}")
    if not isinstance(value, Mapping) or not value:
        raise _wrong(f"'where', {shown(key)}: conditions are an object of {', '.join(OPERATORS)}, got {shown(value)}")
    where = f"'where', {shown(key)}"
    return {one: _condition(f"{where}, {shown(one)}", one, wanted) for one, wanted in value.items()}


def _condition(where: str, operator: object, wanted: object) -> Any:
    if operator == "exists":
        if not isinstance(wanted, bool):
            raise _wrong(f"{where} must be True or False, got {shown(wanted)}")
        return wanted
    if operator == "equals":
        return _scalar(where, wanted)
    if operator == "in":
        if isinstance(wanted, str | bytes | Mapping) or not isinstance(wanted, Collection):
            raise _wrong(f"{where} must be a list, got {shown(wanted)}")
        return [_scalar(where, item) for item in wanted]
    if operator in RANGES:
        if isinstance(wanted, int | float) and not isinstance(wanted, bool):
            return _scalar(where, wanted)
        return _moment(where, wanted, "a number, or ")
    raise _wrong(f"{where}: no such comparison; known are: {', '.join(OPERATORS)}")


def _scalar(where: str, value: object) -> _Scalar:
    if not isinstance(value, _Scalar) or (isinstance(value, float) and not math.isfinite(value)):
        raise _wrong(f"{where} compares with a string, a number, True or False, got {shown(value)}")
    return value


def _moment(name: object, value: object, or_else: str = "") -> str:
    """A date or a time as ISO 8601; without a zone it is UTC. `or_else` is what else would do, for the message."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise _wrong(f"{name} must be {or_else}a date like 2026-01-31, or a time, got {shown(value)}") from None
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if isinstance(value, datetime):
        try:  # in UTC: an offset may be any in Python, and not in Postgres
            return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
        except (OverflowError, ValueError):
            raise _wrong(f"{name} is beyond the years 1 to 9999, got {shown(value)}") from None
    raise _wrong(f"{name} must be {or_else}a date like 2026-01-31, or a time, got {shown(value)}")


def _require_json(filters: Mapping[str, Any]) -> None:
    try:
        text = json.dumps(filters, allow_nan=False, ensure_ascii=False)
        text.encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise _wrong(f"no JSON that Postgres can hold: {error}") from error
    if len(text) > MAX_FILTER_CHARS:
        raise _wrong(f"they are longer than {MAX_FILTER_CHARS:,} characters as JSON")
    if _NUL.search(text):
        raise _wrong("they hold NUL, which no text in Postgres can hold")


def _wrong(said: str) -> InvalidArgument:
    return InvalidArgument(f"filters: {said}", "filters")
