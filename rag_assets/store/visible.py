"""What an application may see of sources, under its scope."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg.rows import class_row

from rag_assets.store.search import Space
from rag_assets.store.sql import query
from rag_assets.store.statements import Statement


@dataclass(frozen=True)
class VisibleSource:
    """A source. `published` (ready or failed), `chunks` and `up_to_date` are those of the profiles that were asked for;
    None, 0 and None where they have not tried it yet."""

    id: UUID
    name: str
    source_type: str
    content_type: str | None
    locale: str | None
    status: str
    external_id: str
    url: str | None
    space: Space
    error: str | None
    created_at: datetime
    updated_at: datetime
    published: str | None
    chunks: int
    up_to_date: bool | None


def visible_sources(
    profiles: Sequence[int],
    limit: int,
    *,
    which: UUID | None = None,
    after: UUID | None = None,
    status: str | None = None,
) -> Statement:
    """At most `limit` sources, by id, from the one after `after` on; only `which`, or those of a status. Rows are
    `VisibleSource`s of the scope."""
    values = {"profiles": list(profiles), "limit": limit, "id": which, "after": after, "status": status}
    return Statement(query("visible_sources"), values, class_row(VisibleSource))
