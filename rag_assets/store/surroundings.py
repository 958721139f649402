"""What stands around passages in the text of their sources, read under the scope of a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg.rows import class_row

from rag_assets.store.sql import query
from rag_assets.store.statements import Statement


@dataclass(frozen=True)
class Span:
    """A passage: code points `start` to `end` of a source's text in one version."""

    source_id: UUID
    version: str
    start: int
    end: int


@dataclass(frozen=True)
class Surroundings:
    """The text around the passage of this number (from 1), from the code point `first` on, and the parts of which some
    may be shown: their offsets in the source's text and, where known, their first and last pages."""

    number: int
    first: int
    text: str
    starts: list[int]
    ends: list[int]
    pages: list[int | None]
    last_pages: list[int | None]


def sections_around(spans: Sequence[Span], reach: int) -> Statement:
    """The section of each passage, with its blocks as parts, as far as they are at most `reach` code points away. Rows
    are `Surroundings`; of a source that the scope may not see there is none."""
    return Statement(query("sections_around"), _values(spans) | {"reach": reach}, class_row(Surroundings))


def neighbours_around(spans: Sequence[Span], count: int, profiles: Sequence[int]) -> Statement:
    """So many chunks before and after each passage, as these profiles cut its source. Rows as of `sections_around`."""
    values = _values(spans) | {"count": count, "profiles": list(profiles)}
    return Statement(query("neighbours_around"), values, class_row(Surroundings))


def _values(spans: Sequence[Span]) -> dict[str, Any]:
    return {
        "sources": [span.source_id for span in spans],
        "versions": [span.version for span in spans],
        "starts": [span.start for span in spans],
        "ends": [span.end for span in spans],
    }
