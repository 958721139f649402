"""What a person is told of a chunk that could not be embedded: which it is, and where it stands."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

_WORDS = 80  # characters of the chunk's beginning
_QUOTATION = re.compile("“[^”]*”")


def describe(rows: Sequence[Mapping[str, Any]], reason: str) -> str:
    """The first of a source's chunks that could not be embedded, of which `rows` are all, in their order; in one line.
    What the tenant has written stands between “ and ”, and nothing else does."""
    first = rows[0]
    citation = json.loads(first["citation"])
    place = f"chunk {first['chunk_index'] + 1}"
    if (page := citation.get("page")) is not None:
        last = citation.get("page_end") or page
        place += f", page {page}" if last == page else f", pages {page} to {last}"
    if heading := citation.get("heading"):
        place += f", under {_quoted(heading)}"
    more = f"; {len(rows) - 1} more of its chunks too" if len(rows) > 1 else ""
    return f"cannot be embedded: {reason} ({place}, which begins {_quoted(first['content'])}{more})"


def without_quotations(error: str) -> str:
    """The same for eyes that may not see what a tenant has written."""
    return _QUOTATION.sub("“…”", error)


def _quoted(text: str) -> str:
    line = re.sub("[“”]", '"', " ".join(text[: 4 * _WORDS].split()))
    return f"“{line if len(line) <= _WORDS else line[: _WORDS - 1].rstrip() + '…'}”"
