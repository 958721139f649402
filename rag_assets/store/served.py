"""The text of a source as a profile serves it, read under the scope of a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg.rows import class_row

from rag_assets.store.sql import query
from rag_assets.store.statements import Statement


@dataclass(frozen=True)
class ServedText:
    """A part of the version of a source that a profile serves.

    `start` and `length` of the whole text are in code points; `metadata` and `uri` are the source's own.
    """

    source_id: UUID
    name: str
    uri: str
    url: str | None
    metadata: dict[str, Any]
    version: str
    title: str
    length: int
    content: str


def served_text(source: UUID, profiles: Sequence[int], start: int, chars: int) -> Statement:
    """At most one `ServedText`: `chars` code points from `start` on. Of a source that the scope may not see, or that
    none of these profiles serves, there is no row."""
    values = {"source": source, "profiles": list(profiles), "start": start, "chars": chars}
    return Statement(query("served_text"), values, class_row(ServedText))
