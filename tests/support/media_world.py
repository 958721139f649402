"""A tenant whose profile embeds pictures and small PDFs themselves, and the stand-in for the provider."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from PIL import Image, PngImagePlugin

from rag_assets.embedding import registry
from rag_assets.embedding.profiles import make_profile
from rag_assets.embedding.providers.google import GoogleEmbedder
from rag_assets.ingest.run import IngestReport, ingest
from rag_assets.retrieval import DenseRetriever, LexicalRetriever, open_scope
from rag_assets.retrieval.results import RetrievalResult
from rag_assets.store.database import Database
from rag_assets.store.profiles import add_spec
from rag_assets.store.roots import add_root
from rag_assets.store.tenants import add_tenant
from tests.support.google_server import GoogleServer, google_server, media_text
from tests.support.pdf_files import pdf, says

PROFILE = make_profile(
    name="gemini-media",
    provider="google",
    model="gemini-embedding-2",
    dimensions=128,
    options={"multimodal": True},
)
TENANT, BOT = "acme", "support"
QUERY_PREFIX = "task: search result | query: "


def small_pdf(pages: int, text: str = "Valves are oiled") -> bytes:
    """A PDF whose pages say the text and their number."""
    return pdf(*(says(f"{text} {number}") for number in range(1, pages + 1)))


def picture(shade: int = 0, description: str = "", kind: str = "PNG") -> bytes:
    """A small picture, with or without text in its metadata."""
    target, info = io.BytesIO(), PngImagePlugin.PngInfo()
    if description:
        info.add_text("Description", description)
    options = {"pnginfo": info} if kind == "PNG" else {}
    Image.new("RGB", (8, 8), (shade, 0, 0)).save(target, kind, **options)
    return target.getvalue()


@dataclass
class MediaWorld:
    """What tests do with it: write files, ingest, and look at what came of it."""

    database: Database
    root: Path
    google: GoogleServer

    def write(self, **files: bytes) -> None:
        """Files by name; the last `_` of a name is its dot."""
        for name, data in files.items():
            (self.root / ".".join(name.rsplit("_", 1))).write_bytes(data)

    def ingest(self, profile: str = PROFILE.name) -> IngestReport:
        return ingest(self.database, TENANT, BOT, profile)

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Of a statement as superuser, whom no policy holds back."""
        with psycopg.connect(self.database.url) as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else []

    def chunks(self, profile: str = PROFILE.name) -> list[tuple[str, str, str | None]]:
        """Source's name, content and type of file of what the profile serves."""
        return self.rows(
            "SELECT s.name, c.content, c.metadata ->> 'media' FROM rag.knowledge_chunks c "
            "JOIN rag.knowledge_sources s ON s.id = c.source_id "
            "JOIN rag.embedding_profiles p ON p.id = c.embedding_profile_id "
            "WHERE p.name = %s ORDER BY s.name, c.chunk_index",
            profile,
        )

    def states(self, profile: str = PROFILE.name) -> dict[str, tuple[str, str | None]]:
        """Source's name -> its status, and that in the profile."""
        rows = self.rows(
            "SELECT s.name, s.status, sp.status FROM rag.knowledge_sources s LEFT JOIN "
            "(rag.source_profiles sp JOIN rag.embedding_profiles p ON p.id = sp.embedding_profile_id AND p.name = %s) "
            "ON sp.source_id = s.id",
            profile,
        )
        return {name: (status, in_profile) for name, status, in_profile in rows}

    def media_sent(self) -> int:
        """How many files arrived to be embedded."""
        return sum(count for text, count in self.google.sent.items() if text.startswith(("image/", "application/")))

    def usage(self) -> tuple[int, int, float]:
        """Items, tokens and dollars that were counted."""
        row = self.rows("SELECT sum(items), sum(tokens), sum(cost_usd) FROM rag.embedding_usage")[0]
        return int(row[0] or 0), int(row[1] or 0), float(row[2] or 0)

    def shows(self, data: bytes, mime_type: str, what: str) -> None:
        """From now on a search for `what` is close to this file."""
        self.google.shows[media_text(data, mime_type)] = QUERY_PREFIX + what

    def search(self, text: str) -> list[RetrievalResult]:
        scope = open_scope(self.database, TENANT, BOT, PROFILE.name)
        return list(DenseRetriever(self.database).search(text, scope))

    def search_words(self, text: str) -> list[RetrievalResult]:
        scope = open_scope(self.database, TENANT, BOT, PROFILE.name)
        return list(LexicalRetriever(self.database).search(text, scope))


@contextmanager
def media_world(database: Database, root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MediaWorld]:
    """The tenant `acme`, whose bot has one empty root."""
    monkeypatch.setattr(registry, "_loaded", {})  # embedders keep the address that they were made with
    with google_server(monkeypatch) as google:
        add_spec(database, PROFILE)
        add_tenant(database, TENANT, BOT)
        add_root(database, TENANT, BOT, str(root))
        try:
            yield MediaWorld(database, root, google)
        finally:
            for embedder in registry._loaded.values():
                if isinstance(embedder, GoogleEmbedder):
                    embedder.close()
