"""A tenant whose profile is embedded by batch, and the stand-in for the provider."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rag_assets.embedding import registry
from rag_assets.embedding.profiles import make_profile
from rag_assets.embedding.providers.google import GoogleEmbedder
from rag_assets.ingest.run import IngestReport, ingest
from rag_assets.store.batch_jobs import BatchJob, list_jobs
from rag_assets.store.database import Database
from rag_assets.store.limits import set_profile_settings
from rag_assets.store.profiles import add_spec
from rag_assets.store.roots import add_root
from rag_assets.store.tenants import add_tenant
from tests.support.google_batch_server import Batches, google_batches

PROFILE = make_profile(name="gemini-batch", provider="google", model="gemini-embedding-2", dimensions=128)
PREFIX = "title: none | text: "
TENANT, BOT = "acme", "support"
FEWEST = 5  # texts that are worth a job


def text_of(number: int) -> str:
    return f"Pump {number} is checked before valve {number} is opened."


@dataclass
class BatchWorld:
    """What tests do with it: write files, ingest, and look at what came of it."""

    database: Database
    root: Path
    batches: Batches

    def write(self, *numbers: int) -> None:
        """One file of one chunk for each number."""
        for number in numbers:
            (self.root / f"{number:03}.txt").write_text(text_of(number))

    def ingest(self, *, batch: bool = False) -> IngestReport:
        return ingest(self.database, TENANT, BOT, PROFILE.name, batch=batch)

    def jobs(self) -> list[BatchJob]:
        with self.database.work(TENANT) as connection:
            return list_jobs(connection, TENANT)

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Of a statement as superuser, whom no policy holds back."""
        with psycopg.connect(self.database.url) as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else []

    def served(self) -> list[str]:
        return [row[0] for row in self.rows("SELECT content FROM rag.knowledge_chunks ORDER BY content")]

    def cached(self) -> int:
        return int(self.rows("SELECT count(*) FROM rag.embedding_cache")[0][0])

    def usage(self) -> tuple[int, int, float]:
        """Items, tokens and dollars that were counted."""
        row = self.rows("SELECT sum(items), sum(tokens), sum(cost_usd) FROM rag.embedding_usage")[0]
        return int(row[0] or 0), int(row[1] or 0), float(row[2] or 0)

    def let_time_pass(self) -> None:
        """As if every request to make a job were a minute old."""
        self.rows("UPDATE rag.embedding_jobs SET submitted_at = submitted_at - interval '1 minute'")

    def paid(self) -> Counter[str]:
        """How often each text was embedded, at the full price or at half of it, without its prefix."""
        return Counter({text.removeprefix(PREFIX): n for text, n in self.batches.google.paid.items()})


@contextmanager
def batch_world(database: Database, root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchWorld]:
    """The tenant `acme`, whose bot's profile is `gemini-batch` in batch mode."""
    monkeypatch.setenv("RAG_BATCH_MIN_ITEMS", str(FEWEST))
    monkeypatch.setattr(registry, "_loaded", {})  # embedders keep the address that they were made with
    with google_batches(monkeypatch) as batches:
        add_spec(database, PROFILE)
        set_profile_settings(database, PROFILE.name, mode="batch")
        add_tenant(database, TENANT, BOT)
        add_root(database, TENANT, BOT, str(root))
        try:
            yield BatchWorld(database, root, batches)
        finally:
            for embedder in registry._loaded.values():
                if isinstance(embedder, GoogleEmbedder):
                    embedder.close()
