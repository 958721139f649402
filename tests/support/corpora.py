"""A profile whose chunks and vectors a test chooses itself, published by the real publisher."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID, uuid5

import numpy as np
import psycopg
from numpy.typing import NDArray

from rag_assets.embedding.profiles import EmbeddingProfile
from rag_assets.ingest.pairs import enable_pair, enabled_profiles
from rag_assets.retrieval import RetrievalScope
from rag_assets.store.database import Database
from rag_assets.store.indexes import LexicalReport, refresh_lexical
from rag_assets.store.profiles import add_spec
from rag_assets.store.publication import Published, Publisher, StagedChunk, StagedVersion
from rag_assets.store.search import SearchRequest, SearchRow, search_chunks
from rag_assets.store.tenants import add_tenant

_NAMES = UUID(int=0)


class Corpus:
    """One bot with one profile; `publish` replaces whole sources, chunk by chunk."""

    def __init__(self, database: Database, profile: EmbeddingProfile, tenant: str = "acme") -> None:
        self.database, self.profile = database, profile
        add_spec(database, profile)
        add_tenant(database, tenant, "support")
        self.built = enable_pair(database, tenant, "support", profile.name)
        self.scope = RetrievalScope(tenant, "support", self.built.space_id, self.built.id, profile)
        self._publisher = Publisher(database, self.built)
        self.app = database.connect("app")
        self._superuser = psycopg.connect(database.url, autocommit=True)
        self._superuser.execute("SET search_path = rag, public, extensions")

    def close(self) -> None:
        self.app.close()
        self._superuser.close()

    def add_source(self, name: str, **columns: Any) -> UUID:
        """A source that is ready to be published, at checksum `v`."""
        values = {"source_type": "file", "locale": None, "content_type": None, "metadata": {}} | columns
        source = uuid5(_NAMES, f"{self.built.id} {name}")
        with self.database.work(self.built.tenant) as connection:
            connection.execute(
                "INSERT INTO rag.knowledge_sources (id, knowledge_space_id, tenant_id, bot_id, file_hash, source_type, "
                "external_id, name, checksum, status, locale, content_type, metadata) "
                "VALUES (%s, %s, %s, 'support', %s, %s, %s, %s, 'v', 'processing', %s, %s, %s) ON CONFLICT DO NOTHING",
                [
                    source, self.built.space_id, self.built.tenant, source.bytes, values["source_type"], name, name,
                    values["locale"], values["content_type"], json.dumps(values["metadata"]),
                ],
            )  # fmt: skip
        return source

    def publish(
        self,
        texts: Sequence[str],
        vectors: NDArray[np.float32] | None = None,
        source: str = "one",
        **columns: Any,
    ) -> Published:
        """Make these texts all that `source` holds. Without vectors each text gets the same one."""
        source_id = self.add_source(source, **columns)
        if vectors is None:
            vectors = np.eye(self.profile.dimensions, dtype=np.float32)[[0] * len(texts)]
        chunks = [
            StagedChunk(chunk_id(source_id, index, text), index, text, len(text.split()), "{}", "{}", vector)
            for index, (text, vector) in enumerate(zip(texts, vectors, strict=True))
        ]
        self._publisher.assume_length([(str(source_id), text) for text in texts])
        done = self._publisher.publish([StagedVersion(source_id, "v", chunks)])
        self._publisher.complete()
        (self.built,) = enabled_profiles(self.database, self.built.tenant, self.profile.name)
        return done

    def withdraw(self, source: UUID) -> None:
        """Delete a source, and take its chunks away."""
        self.as_superuser("UPDATE rag.knowledge_sources SET status = 'deleted' WHERE id = %s RETURNING id", source)
        self._publisher.withdraw()

    def refresh(self) -> LexicalReport:
        """Count lexemes and build the GIN index, as the `gin_index` asset does."""
        return refresh_lexical(self.database, self.built)

    def search(self, request: SearchRequest) -> list[SearchRow]:
        return search_chunks(self.app, self.scope.settings, request)

    def words(self, text: str, top_k: int = 10, filters: Mapping[str, Any] | None = None) -> list[SearchRow]:
        """Lexical search for what `terms.prepare_query` has made; each copy of a text is a row of its own."""
        return self.search(SearchRequest("lexical", None, text, top_k=top_k, filters=filters or {}, copies=True))

    def near(self, vector: NDArray[np.float32], top_k: int = 10, **options: Any) -> list[SearchRow]:
        """Dense search."""
        return self.search(SearchRequest("dense", vector, "", top_k=top_k, **options))

    def as_superuser(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Rows that no policy holds back; `{p}` in the statement is the profile's id."""
        return self._superuser.execute(statement.replace("{p}", str(self.built.id)), values or None).fetchall()


def chunk_id(source: UUID, index: int, text: str) -> UUID:
    return UUID(bytes=hashlib.sha256(f"{source}|{index}|{text}".encode()).digest()[:16])


def unit(rows: NDArray[Any]) -> NDArray[np.float32]:
    """Rows (n, d) at unit length, float32."""
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)
