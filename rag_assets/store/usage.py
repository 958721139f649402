"""What embedding has cost a tenant, and what its cache holds."""

from __future__ import annotations

from dataclasses import dataclass

from rag_assets.store.database import Database
from rag_assets.store.sql import query
from rag_assets.store.tenants import spaces_of


@dataclass(frozen=True)
class ModelUsage:
    """The use of one model through one profile, over all days. `entries` and `bytes` are of the model's part of the
    cache, which profiles that make the same vectors share."""

    profile: str
    model_key: str
    role: str  # document or query
    entries: int
    bytes: int
    embedded: int
    cache_hits: int
    tokens: int
    cost_usd: float

    @property
    def hit_rate(self) -> float | None:
        """The part of the texts that cost nothing; None where there was none."""
        texts = self.cache_hits + self.embedded
        return self.cache_hits / texts if texts else None


@dataclass(frozen=True)
class CachePart:
    """The vectors of one model and role; `bytes` without the index."""

    model_key: str
    role: str
    entries: int
    bytes: int


def usage_of(database: Database, tenant: str, bot: str | None = None) -> tuple[list[ModelUsage], list[CachePart]]:
    """The usage and the cache of a tenant, or of one bot: what that bot has paid for.

    Raises:
        UnknownTenant, UnknownBot: there is no such bot.
    """
    keys = {"tenant": tenant, "bot": bot}
    with database.transaction("ingest", {"tenant": tenant}) as connection:
        spaces_of(connection, tenant, bot)
        parts = [CachePart(*row) for row in connection.execute(query("cache_sizes"), keys)]
        rows = connection.execute(query("usage"), keys).fetchall()
    sizes = {(part.model_key, part.role): (part.entries, part.bytes) for part in parts}
    usage = []
    for profile, model_key, role, *counts in rows:
        entries, size = sizes.get((model_key, role), (0, 0))
        usage.append(ModelUsage(profile, model_key, role, entries, size, *counts))
    return usage, parts
