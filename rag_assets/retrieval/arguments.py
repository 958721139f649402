"""What callers may pass to a retrieval: checked before anything is asked, with an error that names the argument."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from rag_assets.errors import InvalidArgument
from rag_assets.retrieval.limits import MAX_FILTER_CHARS, MAX_QUERY_CHARS, MAX_WAIT_S
from rag_assets.retrieval.limits import MAX_TOP_K as MAX_TOP_K

_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")  # as JSON writes it, and not a backslash that is text
_LIST_FILTERS = ("source_ids", "source_types", "locales", "content_types")


def check_text(value: object, name: str, error: type[InvalidArgument] = InvalidArgument) -> str:
    """`value` if it is a string that Postgres can hold.

    Raises:
        InvalidArgument: it is no string, or holds NUL or half of a surrogate pair.
    """
    if not isinstance(value, str):
        raise error(f"{name} must be a string, got {value!r}", name)
    if "\x00" in value or not _is_unicode(value):
        raise error(f"{name} holds a character that no text may hold: {value!r}", name)
    return value


def _is_unicode(value: str) -> bool:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def clean_query(query: object) -> str:
    """A search text without what Postgres cannot hold, cut to `MAX_QUERY_CHARS`.

    Raises:
        InvalidArgument: it is no string.
    """
    if not isinstance(query, str):
        raise InvalidArgument(f"query must be a string, got {query!r}", "query")
    return query.replace("\x00", " ").encode("utf-8", "replace").decode()[:MAX_QUERY_CHARS]


def check_whole(value: object, name: str, most: int, least: int = 1) -> int:
    """`value` if it is a whole number from `least` to `most`.

    Raises:
        InvalidArgument: it is another kind of value, or out of bounds.
    """
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or not least <= number <= most:
        raise InvalidArgument(f"{name} must be between {least} and {most}, a whole number, got {value!r}", name)
    return number


def check_number(value: object, name: str, least: float, most: float) -> float:
    """`value` if it is a number from `least` to `most`.

    Raises:
        InvalidArgument: it is another kind of value, out of bounds, or NaN.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise InvalidArgument(f"{name} must be a number between {least:g} and {most:g}, got {value!r}", name)
    return float(value)


def check_share(value: object, name: str) -> float:
    """`value` if it is a number from 0 to 1.

    Raises:
        InvalidArgument: it is another kind of value, out of bounds, or NaN.
    """
    return check_number(value, name, 0, 1)


def check_flag(value: object, name: str) -> bool:
    """`value` if it is True or False.

    Raises:
        InvalidArgument: it is neither.
    """
    if not isinstance(value, bool):
        raise InvalidArgument(f"{name} must be True or False, got {value!r}", name)
    return value


def check_seconds(value: object, name: str) -> float:
    """`value` if it is a time to wait: a number of seconds above 0, at most an hour.

    Raises:
        InvalidArgument: it is another kind of value, out of bounds, or NaN.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MAX_WAIT_S:
        raise InvalidArgument(
            f"{name} must be a number of seconds above 0 and at most {MAX_WAIT_S}, got {value!r}", name
        )
    return float(value)


def check_filters(filters: object) -> Mapping[str, Any]:
    """Filters as rag.search_space takes them. One that is misspelt must not be left out: the search would be wider than
    what was asked for.

    Raises:
        InvalidArgument: a filter is unknown, of the wrong kind, or no JSON, or they are too long.
    """
    if filters is None:
        return {}
    if not isinstance(filters, Mapping):
        raise InvalidArgument(f"filters must be a mapping, got {filters!r}", "filters")
    checked: dict[str, Any] = {}
    for name, value in filters.items():
        if name == "metadata":
            if not isinstance(value, Mapping):
                raise InvalidArgument(f"filters: 'metadata' must be an object, got {value!r}", "filters")
            checked[name] = dict(value)
        elif name not in _LIST_FILTERS:
            known = ", ".join(_LIST_FILTERS)
            raise InvalidArgument(f"filters: {name!r} is no filter; known are: {known}, metadata", "filters")
        elif isinstance(value, str | bytes | Mapping) or not isinstance(value, Collection):
            raise InvalidArgument(f"filters: {name!r} must be a list, got {value!r}", "filters")
        else:
            checked[name] = [_item(name, item) for item in value]
    _require_json(checked)
    return checked


def _item(name: str, value: object) -> str:
    if not isinstance(value, str | UUID):
        raise InvalidArgument(f"filters: {name!r} must hold strings, got {value!r}", "filters")
    return str(value)


def _require_json(filters: Mapping[str, Any]) -> None:
    try:
        text = json.dumps(filters, allow_nan=False, ensure_ascii=False)
        text.encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"filters: no JSON that Postgres can hold: {error}", "filters") from error
    if len(text) > MAX_FILTER_CHARS:
        raise InvalidArgument(f"filters: they are longer than {MAX_FILTER_CHARS:,} characters as JSON", "filters")
    if _NUL.search(text):
        raise InvalidArgument("filters: they hold NUL, which no text in Postgres can hold", "filters")
