"""The embedding cache of one tenant, in Postgres, and what filling it has cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from psycopg.rows import class_row, dict_row

from rag_assets.embedding.profiles import EmbeddingProfile
from rag_assets.embedding.protocol import Usage
from rag_assets.store.database import Connection, Database, as_array
from rag_assets.store.sql import first_row, query, rows, scalars
from rag_assets.store.tenants import spaces_of

Role = Literal["document", "query"]
TRIPLES = "triples"  # the role of texts that a chat model was asked about


class PgVectorCache:
    """Vectors by model, role and content hash, for one tenant; entries carry the bot that paid for them.

    Each `put` is a transaction of its own, so what has been embedded survives a kill. Tenants share
    nothing, so none can learn from a hit that another holds the same text. `profile` is the name that the
    usage is counted under. Unless it `keeps` vectors, what is embedded is only counted.
    """

    def __init__(
        self, database: Database, tenant: str, bot: str, profile: str, role: Role = "document", *, keeps: bool = True
    ) -> None:
        self._database, self._tenant, self._bot, self._keeps = database, tenant, bot, keeps
        self._entry = {"tenant": tenant, "bot": bot, "profile": profile, "role": role}

    def get(self, model_key: str, hashes: Sequence[bytes]) -> dict[bytes, NDArray[np.float32]]:
        """The known vectors, each (d,) float32."""
        if not self._keeps:
            return {}
        keys = {**self._entry, "model_key": model_key, "hashes": list(hashes)}
        with self._database.work(self._tenant, self._bot) as connection:
            found = connection.cursor(binary=True, row_factory=dict_row).execute(query("cache_get"), keys)
            return {bytes(row["content_hash"]): as_array(row["embedding"]) for row in found}

    def put(self, model_key: str, hashes: Sequence[bytes], vectors: NDArray[np.float32], usage: Usage) -> None:
        """Keep vectors (n, d) float32 of n distinct hashes, and count what they cost; committed when it returns."""
        with self._database.work(self._tenant, self._bot) as connection:
            if self._keeps:
                put_vectors(connection, self._entry, model_key, hashes, vectors, usage)
            else:
                count_usage(connection, self._entry, model_key, usage)

    def count_hits(self, model_key: str, hits: int) -> None:
        """Count texts that were found, and so cost nothing."""
        if hits:
            nothing = Usage(self._tenant, self._bot, items=0, tokens=0)
            with self._database.work(self._tenant, self._bot) as connection:
                count_usage(connection, self._entry, model_key, nothing, hits)


def put_vectors(
    connection: Connection,
    entry: Mapping[str, str],
    model_key: str,
    hashes: Sequence[bytes],
    vectors: NDArray[np.float32],
    usage: Usage,
) -> None:
    """Keep vectors (n, d) float32 of n distinct hashes and count what they cost, in the transaction that is open.
    `entry` names tenant, bot, profile and role."""
    connection.execute(query("staged_vectors_table"))
    with connection.cursor().copy(query("copy_staged_vectors")) as copy:
        copy.set_types(["bytea", "vector"])
        for digest, vector in zip(hashes, vectors, strict=True):
            copy.write_row((digest, vector))
    connection.execute(query("cache_put"), {**entry, "model_key": model_key})
    count_usage(connection, entry, model_key, usage)


def count_usage(
    connection: Connection, entry: Mapping[str, str], model_key: str, usage: Usage, cache_hits: int = 0
) -> None:
    """Add to what has been embedded today, in the transaction that is open; `entry` as for `put_vectors`."""
    counts = {
        "items": usage.items, "cache_hits": cache_hits, "tokens": usage.tokens, "cost_usd": usage.cost_usd,
        "timed_items": usage.items if usage.seconds else 0, "seconds": usage.seconds,
    }  # fmt: skip
    connection.execute(query("count_usage"), {**entry, "model_key": model_key, **counts})


def known_hashes(database: Database, tenant: str, model_key: str, hashes: Sequence[bytes]) -> set[bytes]:
    """Which of these documents are in the tenant's cache."""
    if not hashes:
        return set()
    with database.work(tenant) as connection:
        keys = {"tenant": tenant, "model_key": model_key, "hashes": list(hashes)}
        return {bytes(digest) for digest in scalars(connection, query("cache_known"), keys)}


@dataclass(frozen=True)
class Timed:
    """How long so many texts have taken a model to embed."""

    items: int
    seconds: float


def timed_usage(connection: Connection, tenant: str, profile: EmbeddingProfile) -> Timed | None:
    """What is known of the speed of a profile's model from the tenant's ingests; None where it has embedded nothing."""
    values = {"tenant": tenant, "model": f"{profile.provider}:{profile.model}:"}
    found = first_row(connection, class_row(Timed), query("timed_usage"), values)
    return found if found is not None and found.items and found.seconds else None


@dataclass(frozen=True)
class ModelUsage:
    """The use of one model through one profile, over all days. `entries` and `bytes` are of the model's part of the
    cache, which profiles that make the same vectors share."""

    profile: str
    model_key: str
    role: str  # document, query or triples
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
    with database.work(tenant) as connection:
        spaces_of(connection, tenant, bot)
        parts = rows(connection, class_row(CachePart), query("cache_sizes"), keys)
        uses = rows(connection, dict_row, query("usage"), keys)
    by_model = {(part.model_key, part.role): part for part in parts}
    usage = []
    for use in uses:
        part = by_model.get((use["model_key"], use["role"]))
        usage.append(ModelUsage(**use, entries=part.entries if part else 0, bytes=part.bytes if part else 0))
    return usage, parts
