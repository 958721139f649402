"""The query log: what was asked and found, written by the app, read and purged by ingest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from rag_assets.store.database import Database
from rag_assets.store.sql import query, rows, scalar
from rag_assets.store.statements import Statement
from rag_assets.store.tenants import list_tenants

MAX_QUERY_CHARS = 2000
_PAGE = 1000  # entries


@dataclass(frozen=True)
class LoggedQuery:
    """An entry of the log.

    Attributes:
        user_mark: what stands for who asked; None where nobody in particular did.
        results: best first, each with `source_id`, `chunk_id` and `score`.
        citations: the chunks that the answer cites; None where no answer was reported.
        feedback: by chunk, whether it helped.
    """

    query_id: UUID
    bot: str
    user_mark: str | None
    asked_at: datetime
    query: str
    profile: str
    retriever: str
    mode: str | None
    top_k: int
    filters: Mapping[str, Any] | None
    rung: str | None
    degraded: bool
    error: str | None
    top_similarity: float | None
    results: Sequence[Mapping[str, Any]]
    timings_ms: Mapping[str, float]
    citations: Sequence[UUID] | None
    feedback: Mapping[str, bool]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            **vars(self),
            "query_id": str(self.query_id),
            "asked_at": self.asked_at.isoformat(),
            "citations": None if self.citations is None else [str(one) for one in self.citations],
        }


def adding(entries: Sequence[Mapping[str, Any]]) -> Statement:
    """Add entries; whose they are is read from the scope."""
    return Statement(query("add_queries"), {"rows": Jsonb(list(entries))}, on_primary=True)


def answering(query_id: UUID, cited: Sequence[UUID]) -> Statement:
    """Note which results the answer cites; its row says whether the scope has such a query."""
    return Statement(query("record_answer"), {"query": query_id, "cited": list(cited)}, on_primary=True)


def judging(query_id: UUID, chunk_id: UUID, helpful: bool | None) -> Statement:
    """Note whether a result helped; its row says whether the scope has such a query with such a result."""
    values = {"query": query_id, "chunk": chunk_id, "helpful": helpful}
    return Statement(query("record_feedback"), values, on_primary=True)


def newest_queries(
    database: Database, tenant: str, bot: str | None = None, since: datetime | None = None, limit: int = 50
) -> list[LoggedQuery]:
    """The newest entries of a tenant, newest first."""
    values = {"tenant": tenant, "bot": bot, "since": since, "limit": limit}
    with database.work(tenant) as connection:
        return rows(connection, class_row(LoggedQuery), query("newest_queries"), values)


def logged_queries(
    database: Database, tenant: str, bot: str | None = None, since: datetime | None = None
) -> Iterator[LoggedQuery]:
    """All entries of a tenant, oldest first; a page of them in memory at a time."""
    values: dict[str, Any] = {"tenant": tenant, "bot": bot, "since": since, "limit": _PAGE}
    values |= {"after_time": None, "after_id": None}
    while True:
        with database.work(tenant) as connection:
            page = rows(connection, class_row(LoggedQuery), query("logged_queries"), values)
        yield from page
        if len(page) < _PAGE:
            return
        values |= {"after_time": page[-1].asked_at, "after_id": page[-1].query_id}


def count_queries(database: Database, tenant: str, days: int, bot: str | None = None, user: str | None = None) -> int:
    """How many entries `purge_queries` would delete."""
    values = {"tenant": tenant, "bot": bot, "days": days, "user": user}
    with database.work(tenant) as connection:
        return int(scalar(connection, query("count_queries"), values))


def purge_queries(database: Database, tenant: str, days: int, bot: str | None = None, user: str | None = None) -> int:
    """Delete a tenant's entries that are older than `days`, 0 for all; returns how many there were."""
    values = {"tenant": tenant, "bot": bot, "days": days, "user": user}
    with database.work(tenant) as connection:
        return connection.execute(query("purge_queries"), values).rowcount


def purge_all_queries(database: Database, days: int) -> int:
    """The same for all tenants."""
    return sum(purge_queries(database, tenant, days) for tenant in list_tenants(database))
