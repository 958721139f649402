"""What a spreadsheet's stored numbers mean where no format code says how they are shown."""

from __future__ import annotations

import datetime
from decimal import Decimal

LAST_DAY = 2_958_465  # 9999-12-31
_EPOCH_1900 = datetime.datetime(1899, 12, 30)
_EPOCH_1904 = datetime.datetime(1904, 1, 1)
_LAST_WRITTEN_OUT = 1e21


def plain(value: float) -> str:
    """Return a number in at most 15 digits, the precision of spreadsheets; whole ones in all, and without a point."""
    if value == int(value) and abs(value) < 2**53:
        return str(int(value))
    text = f"{value:.15g}"
    return f"{Decimal(text):f}" if "e+" in text and abs(value) < _LAST_WRITTEN_OUT else text.replace("e", "E")


def moment(value: float, *, since_1904: bool, digits: int = 0) -> datetime.datetime | None:
    """Return the moment that a number of days means, with so many digits (0 to 6) of a second's parts; None if none."""
    # What is finer is noise of the fraction.
    microseconds = round(value % 1 * 86_400 * 10**digits) * 10 ** (6 - digits)
    # Day 60 of the 1900 system, 29 February 1900, never was: the days before it are one later than they say.
    early = 1 if value < 60 and not since_1904 else 0
    try:
        since = datetime.timedelta(days=int(value) + early, microseconds=microseconds)
        return (_EPOCH_1904 if since_1904 else _EPOCH_1900) + since
    except OverflowError:
        return None


def iso_date(value: float, *, since_1904: bool = False) -> str:
    """Return a number of days as ISO 8601: a date, a time if it is less than a day, or both; else plainly."""
    at = moment(value, since_1904=since_1904) if 0 <= value <= LAST_DAY else None
    if at is None:
        return plain(value)
    if value < 1 and not since_1904:
        return str(at.time())
    return at.date().isoformat() if value == int(value) else at.isoformat(sep=" ")
