"""Dates, times and durations in a spreadsheet as its program shows them under their format codes."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from itertools import pairwise

from rag_assets.documents.parsers.office.cells import LAST_DAY, iso_date, moment, plain
from rag_assets.documents.parsers.office.number_codes import Token

_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August"),
    *("September", "October", "November", "December"),
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_UNITS = {"h": 3600, "m": 60, "s": 1}  # seconds
_BUDDHIST = 543  # years


def shown_date(value: float, tokens: Sequence[Token], *, since_1904: bool) -> str:
    """Return a number of days as its reader sees it, with English names.

    What cannot be a date is a plain number, and a letter that no English code has leaves the date in ISO 8601.
    """
    if any(token.kind == "elapsed" for token in tokens):
        return _duration(value, tokens)
    if not 0 <= value <= LAST_DAY:
        return plain(value)
    is_dated = any(token.kind == "date" and token.text[0] not in "hs" for token in tokens)
    if _is_foreign(tokens) or (is_dated and value < 1 and not since_1904):
        return iso_date(value, since_1904=since_1904)
    at = moment(value, since_1904=since_1904, digits=_parts(tokens))
    if at is None:
        return plain(value)
    halved = any(token.kind == "half" for token in tokens)
    return "".join(_written(token, at, halved) for token in tokens).strip()


def _is_foreign(tokens: Sequence[Token]) -> bool:
    """Tell whether it is a code such as TT.MM.JJJJ, which some programs write as their user typed it."""
    return any(one == two and re.fullmatch("[A-Za-z]", one.text) for one, two in pairwise(tokens))


def _parts(tokens: Sequence[Token]) -> int:
    """Return how many digits of a second's parts are shown."""
    seconds = (token.text for token in tokens if token.kind == "date" and token.text[0] == "s")
    return min(max((len(text.partition(".")[2]) for text in seconds), default=0), 6)


def _written(token: Token, at: datetime.datetime, halved: bool) -> str:
    if token.kind == "minute":
        return f"{at.minute:0{len(token.text)}}"
    if token.kind == "half":
        early, late = token.text.split("/")
        return early if at.hour < 12 else late
    return _DATED[token.text[0]](at, token.text, halved) if token.kind == "date" else token.text


def _year(at: datetime.datetime, text: str, halved: bool) -> str:
    return f"{at.year % 100:02}" if len(text) < 3 else f"{at.year:04}"


def _month(at: datetime.datetime, text: str, halved: bool) -> str:
    if len(text) < 3:
        return f"{at.month:0{len(text)}}"
    return _MONTHS[at.month - 1][: {3: 3, 5: 1}.get(len(text))]


def _day(at: datetime.datetime, text: str, halved: bool) -> str:
    name = _DAYS[at.weekday()]
    return f"{at.day:0{len(text)}}" if len(text) < 3 else name[:3] if len(text) == 3 else name


def _hour(at: datetime.datetime, text: str, halved: bool) -> str:
    return f"{(at.hour - 1) % 12 + 1 if halved else at.hour:0{min(len(text), 2)}}"


def _second(at: datetime.datetime, text: str, halved: bool) -> str:
    whole, point, parts = text.partition(".")
    return f"{at.second:0{min(len(whole), 2)}}{point}" + f"{at.microsecond:06}".ljust(len(parts), "0")[: len(parts)]


_DATED = {
    "y": _year,
    "e": lambda at, text, halved: f"{at.year:04}",
    "b": lambda at, text, halved: f"{at.year + _BUDDHIST:04}",
    "g": lambda at, text, halved: "",
    "m": _month,
    "d": _day,
    "a": lambda at, text, halved: _DAYS[at.weekday()][: 3 if len(text) == 3 else None],
    "h": _hour,
    "s": _second,
}


def _duration(value: float, tokens: Sequence[Token]) -> str:
    digits = _parts(tokens)
    ticks = round(abs(value) * 86_400 * 10**digits)
    seconds, part = divmod(ticks, 10**digits)
    shown = ""
    for token in tokens:
        unit = "m" if token.kind == "minute" else token.text[:1]
        if token.kind == "elapsed":
            shown += f"{seconds // _UNITS[unit]:0{len(token.text)}}"
        elif token.kind in ("date", "minute") and unit in _UNITS:
            whole, point, parts = token.text.partition(".")
            rest = seconds // _UNITS[unit] % (24 if unit == "h" else 60)
            shown += f"{rest:0{min(len(whole), 2)}}{point}" + (f"{part:0{digits}}"[: len(parts)] if parts else "")
        else:
            shown += token.text
    return f"-{shown.strip()}" if value < 0 and ticks else shown.strip()
