"""What callers may pass to a retrieval: checked before anything is asked, with an error that names the argument."""

from __future__ import annotations

import operator

from rag_assets.errors import InvalidArgument, shown
from rag_assets.retrieval.limits import MAX_QUERY_CHARS, MAX_WAIT_S
from rag_assets.retrieval.limits import MAX_TOP_K as MAX_TOP_K
from rag_assets.store.statements import storable


def check_text(value: object, name: str, error: type[InvalidArgument] = InvalidArgument) -> str:
    """`value` if it is a string that Postgres can hold.

    Raises:
        InvalidArgument: it is no string, or holds NUL or half of a surrogate pair.
    """
    if not isinstance(value, str):
        raise error(f"{name} must be a string, got {shown(value)}", name)
    if "\x00" in value or not _is_unicode(value):
        raise error(f"{name} holds a character that no text may hold: {shown(value)}", name)
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
        raise InvalidArgument(f"query must be a string, got {shown(query)}", "query")
    return storable(query)[:MAX_QUERY_CHARS]


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
        raise InvalidArgument(f"{name} must be between {least} and {most}, a whole number, got {shown(value)}", name)
    return number


def check_number(value: object, name: str, least: float, most: float) -> float:
    """`value` if it is a number from `least` to `most`.

    Raises:
        InvalidArgument: it is another kind of value, out of bounds, or NaN.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise InvalidArgument(f"{name} must be a number between {least:g} and {most:g}, got {shown(value)}", name)
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
        raise InvalidArgument(f"{name} must be True or False, got {shown(value)}", name)
    return value


def check_seconds(value: object, name: str) -> float:
    """`value` if it is a time to wait: a number of seconds above 0, at most an hour.

    Raises:
        InvalidArgument: it is another kind of value, out of bounds, or NaN.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MAX_WAIT_S:
        raise InvalidArgument(
            f"{name} must be a number of seconds above 0 and at most {MAX_WAIT_S}, got {shown(value)}", name
        )
    return float(value)
