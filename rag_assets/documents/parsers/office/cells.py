"""What a spreadsheet's stored numbers mean under their number formats: dates, times, percentages."""

from __future__ import annotations

import datetime
import re

# Built-in formats that show a date or a time of day (ECMA-376, part 1, 18.8.30).
_DATE_IDS = frozenset({*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)})
_PERCENT_IDS = frozenset({9, 10})
_LITERALS = re.compile(r'"[^"]*"|\\.|\[(?!h+\]|m+\]|s+\])[^\]]*\]|_.|\*.', re.IGNORECASE)
_EPOCH_1900 = datetime.datetime(1899, 12, 30)
_EPOCH_1904 = datetime.datetime(1904, 1, 1)
_LAST_DAY = 2_958_465  # 9999-12-31


def format_kind(number: int, code: str = "") -> str:
    """Return `date`, `percent` or `number` for a format's id and its code, if it is not built in."""
    if not code:
        return "date" if number in _DATE_IDS else "percent" if number in _PERCENT_IDS else "number"
    bare = _LITERALS.sub("", code.split(";")[0])
    if "%" in bare:
        return "percent"
    is_general = "general" in bare.lower()
    return "date" if not is_general and re.search("[ymdhs年月日]", bare, re.IGNORECASE) else "number"


def shown(value: float, kind: str, *, since_1904: bool = False) -> str:
    """Return a number as its reader sees it: a date as ISO 8601, a share in per cent, else the plain number."""
    if kind == "date" and 0 <= value <= _LAST_DAY:
        return _date(value, since_1904)
    if kind == "percent":
        return f"{plain(round(value * 100, 4))}%"
    return plain(value)


def plain(value: float) -> str:
    """Return a number in at most 15 digits, the precision of spreadsheets, whole ones without a point."""
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.15g}"


def _date(value: float, since_1904: bool) -> str:
    # Microseconds are noise of the fraction: times are kept to the second.
    moment = datetime.timedelta(days=int(value), seconds=round(value % 1 * 86_400))
    if value < 1 and not since_1904:
        return str((datetime.datetime.min + moment).time())
    # Day 60 of the 1900 system, 29 February 1900, never was: the days before it are one later than they say.
    early = datetime.timedelta(days=1 if value < 60 and not since_1904 else 0)
    try:
        result = (_EPOCH_1904 if since_1904 else _EPOCH_1900) + moment + early
    except OverflowError:
        return plain(value)
    return result.date().isoformat() if value == int(value) else result.isoformat(sep=" ")
