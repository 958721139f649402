"""Text from elsewhere, as it may be shown: names of files, contents, and what servers answer.

A terminal obeys control characters, a line break begins what looks like another line of ours, and the marks of
bidirectional text turn `exe.txt` around. Shown is which character it was; what is stored stays as it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

_NAMED = {0x09: "\\t", 0x0A: "\\n", 0x0D: "\\r"}
_INVISIBLE = (
    *range(0x20), *range(0x7F, 0xA0),  # what a terminal obeys
    0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A),  # the direction of text
    0x2028, 0x2029,  # separate lines and paragraphs
    *range(0xFFF9, 0xFFFC), *range(0xE0000, 0xE0080),  # notes and tags, which nobody sees
)  # fmt: skip


def _escapes(codes: Iterable[int]) -> dict[int, str]:
    return {code: _NAMED.get(code) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{{{code:x}}}") for code in codes}


_LINE = _escapes(_INVISIBLE)
_LINES = {code: text for code, text in _LINE.items() if code not in (0x09, 0x0A)}
_JSON = {ord(char): json.dumps(char)[1:-1] for char in map(chr, _INVISIBLE) if ord(char) >= 0x7F}


def printable(text: object) -> str:
    """`text` on one line, with nothing in it that acts instead of being seen."""
    return str(text).translate(_LINE)


def printable_lines(text: object) -> str:
    """The same for a text of several lines, whose breaks and tabs stay."""
    return str(text).translate(_LINES)


def printable_json(value: Mapping[str, Any], *, ascii_only: bool = False) -> str:
    """The same value as JSON on one line: what acts is written as `\\uXXXX`, so that a program reads what was there."""
    return json.dumps(value, ensure_ascii=ascii_only, default=str).translate(_JSON)


def counted(number: int, one: str, many: str = "") -> str:
    """`1 chunk`, `1,200 chunks`, `2 queries`: a number with what it counts. `many` is for what is more than a noun:
    `counted(n, "source is", "sources are")`."""
    if number == 1:
        return f"{number:,} {one}"
    return f"{number:,} {many or (f'{one[:-1]}ies' if one.endswith('y') else f'{one}s')}"


def duration(seconds: float) -> str:
    """`3.4 s`; of what took less than can be shown so, that it did."""
    return f"{seconds:.1f} s" if seconds >= 0.05 else "less than 0.1 s"


def rough_duration(seconds: float) -> str:
    """What is expected, which is not known to the second: `a second`, `40 s`, `3 minutes`, `2.5 hours`."""
    if seconds < 1:
        return "a second"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return counted(round(seconds / 60), "minute") if seconds < 7200 else f"{seconds / 3600:.1f} hours"


def moment(time: datetime | str) -> str:
    """A time as people read it, to the second, with its zone: `2026-05-01 14:46:13 UTC`. Text is of ISO 8601."""
    time = datetime.fromisoformat(time) if isinstance(time, str) else time
    return f"{time:%Y-%m-%d %H:%M:%S %Z}".rstrip()
