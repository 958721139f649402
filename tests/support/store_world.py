"""Stores of each kind behind one face, filled with vectors that a test chooses: Postgres by its publisher, the others
by their own writes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

import numpy as np
import pytest
from numpy.typing import NDArray

from rag_assets.embedding.profiles import make_profile
from rag_assets.retrieval import RetrievalScope
from rag_assets.store.database import Database
from rag_assets.vector_stores.memory import MemoryStore
from rag_assets.vector_stores.postgres import PostgresStore
from rag_assets.vector_stores.protocol import StoredChunk, StoredSource, VectorStore, WritableStore
from tests.support.corpora import Corpus, chunk_id

PROFILE = make_profile(name="hash-16", provider="hash", model="hash", dimensions=16)
KINDS = ("memory", "sqlite", "chroma", "postgres")
_NAMES = UUID(int=1)


class StoreWorld(ABC):
    """One store, with what tests do to it; `is_whole`: a reader never sees half of a write."""

    store: VectorStore
    is_whole = True
    is_lasting = True

    @abstractmethod
    def scope(self, tenant: str = "acme", user_id: str | None = None) -> RetrievalScope: ...

    @abstractmethod
    def put(self, name: str, texts: Sequence[str], vectors: NDArray[Any], tenant: str = "acme", **known: Any) -> UUID:
        """Make these texts all that a source holds, and return its id."""

    @abstractmethod
    def take(self, source: UUID, tenant: str = "acme") -> None: ...

    @abstractmethod
    def reopen(self) -> None: ...

    def close(self) -> None:
        self.store.close()


class LocalWorld(StoreWorld):
    def __init__(self, made: Callable[[], WritableStore], is_whole: bool = True, is_lasting: bool = True) -> None:
        self._made, self.is_whole, self.is_lasting = made, is_whole, is_lasting
        self.store: WritableStore = made()

    def scope(self, tenant: str = "acme", user_id: str | None = None) -> RetrievalScope:
        return RetrievalScope(tenant, "support", uuid5(_NAMES, tenant), 1, PROFILE, user_id)

    def put(self, name: str, texts: Sequence[str], vectors: NDArray[Any], tenant: str = "acme", **known: Any) -> UUID:
        source = uuid5(_NAMES, f"{tenant} {name}")
        chunks = [
            StoredChunk(chunk_id(source, number, text), text, len(text.split()), vector)
            for number, (text, vector) in enumerate(zip(texts, vectors, strict=True))
        ]
        user = known.get("user_id")
        self.store.upsert(
            self.scope(tenant), [StoredSource(source, name, chunks, space="user" if user else "bot", **known)]
        )
        return source

    def take(self, source: UUID, tenant: str = "acme") -> None:
        assert self.store.delete(self.scope(tenant), [source]) == 1

    def reopen(self) -> None:
        self.store.close()
        self.store = self._made()


class PostgresWorld(StoreWorld):
    def __init__(self, database: Database) -> None:
        self._database = database
        self._corpora: dict[str, Corpus] = {}
        self.store = PostgresStore(database)

    def scope(self, tenant: str = "acme", user_id: str | None = None) -> RetrievalScope:
        scope = self._corpus(tenant).scope
        return RetrievalScope(tenant, "support", scope.knowledge_space_id, scope.profile_id, PROFILE, user_id)

    def put(self, name: str, texts: Sequence[str], vectors: NDArray[Any], tenant: str = "acme", **known: Any) -> UUID:
        corpus, user = self._corpus(tenant), known.pop("user_id", None)
        corpus.publish(texts, np.asarray(vectors, dtype=np.float32), name, **known)
        source = corpus.add_source(name)
        if user is not None:
            private = (
                "UPDATE rag.knowledge_sources SET scope_type = 'user', scope_user_id = %s WHERE id = %s RETURNING id"
            )
            corpus.as_superuser(private, user, source)
        return source

    def take(self, source: UUID, tenant: str = "acme") -> None:
        self._corpus(tenant).withdraw(source)

    def reopen(self) -> None:
        self._database.close()
        self.store = PostgresStore(self._database)

    def close(self) -> None:
        for corpus in self._corpora.values():
            corpus.close()

    def _corpus(self, tenant: str) -> Corpus:
        if tenant not in self._corpora:
            self._corpora[tenant] = Corpus(self._database, PROFILE, tenant)
        return self._corpora[tenant]


def local_store(kind: str, folder: Path) -> WritableStore:
    """A store for development of this kind; the test is skipped where its package is not installed."""
    if kind == "memory":
        return MemoryStore()
    pytest.importorskip("chromadb" if kind == "chroma" else "apsw")
    module: Any = import_module(f"rag_assets.vector_stores.{kind}")
    store: WritableStore = (
        module.ChromaStore(folder / "chroma") if kind == "chroma" else module.SqliteStore(folder / "kb")
    )
    return store


def local_world(kind: str, folder: Path) -> LocalWorld:
    return LocalWorld(lambda: local_store(kind, folder), is_whole=kind != "chroma", is_lasting=kind != "memory")
