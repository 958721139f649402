"""What a tenant has, bot by bot: its sources, and what a profile serves of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg.rows import class_row

from rag_assets.documents.poor import FIGURES, Reason, poor_reasons
from rag_assets.sources.secrets import shown_text
from rag_assets.store.database import Connection
from rag_assets.store.sql import query, rows


@dataclass(frozen=True)
class BotSources:
    """A bot's roots, its sources by status, and how many of them only one user sees."""

    bot: str
    roots: int
    unreadable_roots: int
    sources: int
    ready: int
    processing: int
    no_text: int
    failed: int
    forgotten: int
    private: int


@dataclass(frozen=True)
class BotProfile:
    """What a profile serves of a bot's sources, and how many it has still to publish or could not publish."""

    bot: str
    status: str
    serving_sources: int
    serving_chunks: int
    pending_sources: int
    failed_sources: int


@dataclass(frozen=True)
class BotIndexes:
    """The indexes of a profile of a bot. `searched` is "exact" or "hnsw"; `storage` is how the index keeps vectors, and
    `oversampling` at how many times as many chunks as are asked for it looks. `recall` of exact search is 1, and None
    where it was not measured. `dense_weight` is that of hybrid search; `weight_is` "tuned" with labels, "found"
    without, or "default", where it is None."""

    bot: str
    chunks: int
    lexemes: int
    average_length: float
    gin_bytes: int
    hnsw_bytes: int
    searched: str
    ef_search: int
    storage: str
    oversampling: int
    recall: float | None
    dense_weight: float | None
    weight_is: str


@dataclass(frozen=True)
class FailedSource:
    """A root or source that cannot be read, or published, and why."""

    bot: str
    name: str
    error: str


@dataclass(frozen=True)
class PoorSource:
    """A source that was read poorly, and why, worst reason first."""

    id: UUID
    bot: str
    name: str
    reasons: tuple[Reason, ...]

    @property
    def share(self) -> float:
        """How much of its text is lost or in doubt, 0 to 1, as far as anybody knows."""
        return self.reasons[0].share


@dataclass(frozen=True)
class _Doubtful:
    id: UUID
    bot: str
    name: str
    quality: Any


def sources_by_bot(connection: Connection, tenant: str) -> list[BotSources]:
    """One for each bot of the tenant."""
    return rows(connection, class_row(BotSources), query("sources_by_bot"), {"tenant": tenant})


def profile_by_bot(connection: Connection, tenant: str, profile: str) -> list[BotProfile]:
    """One for each bot of the tenant that has the profile."""
    return rows(connection, class_row(BotProfile), query("profile_by_bot"), {"tenant": tenant, "profile": profile})


def indexes_by_bot(connection: Connection, tenant: str, profile: str) -> list[BotIndexes]:
    """One for each bot of the tenant that has the profile."""
    return rows(connection, class_row(BotIndexes), query("indexes_by_bot"), {"tenant": tenant, "profile": profile})


def failed_sources(connection: Connection, tenant: str, limit: int, bot: str | None = None) -> list[FailedSource]:
    """What cannot be read now of a tenant or bot, roots first, at most `limit`."""
    values = {"tenant": tenant, "bot": bot, "limit": limit}
    found = rows(connection, class_row(FailedSource), query("failed_sources"), values)
    return [FailedSource(one.bot, shown_text(one.name), shown_text(one.error)) for one in found]


def poor_sources(connection: Connection, tenant: str, bot: str | None = None) -> list[PoorSource]:
    """What was read poorly of a tenant or bot, as it is now: by bot, worst first."""
    values = {"tenant": tenant, "bot": bot, "figures": list(FIGURES)}
    found = [
        PoorSource(one.id, one.bot, shown_text(one.name), tuple(poor_reasons(one.quality)))
        for one in rows(connection, class_row(_Doubtful), query("sources_in_doubt"), values)
    ]
    return sorted((one for one in found if one.reasons), key=lambda one: (one.bot, -one.share))
