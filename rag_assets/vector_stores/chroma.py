"""Chunks in a folder of Chroma, searched by its HNSW index: for comparisons, and for those who have Chroma already.

It needs `pip install chromadb`. Nothing is sent to anybody: its telemetry is off, and so are its embedding models.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from rag_assets.errors import DatabaseFailed
from rag_assets.retrieval.results import RetrievalResult
from rag_assets.vector_stores.local import Held, LocalStore, Part, profile_of, to_found
from rag_assets.vector_stores.protocol import StoredChunk, StoredSource

try:
    import chromadb
    from chromadb.config import Settings
    from chromadb.errors import ChromaError, NotFoundError
except ImportError as error:
    raise ImportError(
        f"rag_assets.vector_stores.chroma needs chromadb: pip install chromadb ({error})", name=error.name
    ) from error

# Filters by the names of their keys in Chroma's metadata, which hold plain values alone.
_KEYS = {
    "source_ids": "source_id", "source_names": "source_name", "source_types": "source_type", "locales": "locale",
    "content_types": "content_type",
}  # fmt: skip
_INDEX = {"hnsw": {"space": "cosine", "ef_construction": 200, "ef_search": 200}}
_NOTHING = ""  # where there is no value: Chroma finds no missing key
_EQUALS = 20  # asked for beyond what is wanted, so that equals at the end are those with the smaller ids


class ChromaStore(LocalStore):
    """A collection for each bot and profile, in one folder. For one process: Chroma keeps no two apart that write.

    A source is not replaced at once: for a moment, and after a crash until the next write, old chunks lie beside new.
    """

    filters = frozenset(_KEYS)

    def __init__(self, path: str | Path) -> None:
        """The store in this folder, which is made if it is not there.

        Raises:
            DatabaseFailed: it cannot be opened.
        """
        self._path = Path(path)
        self._writing = threading.Lock()
        with self._as_ours():
            self._client = chromadb.PersistentClient(str(path), settings=Settings(anonymized_telemetry=False))

    def close(self) -> None:
        """See `VectorStore.close`."""
        if not self._is_closed:
            super().close()
            self._client.close()

    @contextmanager
    def _as_ours(self) -> Iterator[None]:
        try:
            yield
        except (ChromaError, OSError, ValueError) as error:
            self._require_open()
            raise DatabaseFailed(f"Chroma in {self._path}: {error}") from error

    def _collection(self, part: Part) -> Any:
        return self._client.get_collection(_name(part), embedding_function=None)

    def _held(self, part: Part) -> Held | None:
        with self._as_ours():
            try:
                return _to_held(self._collection(part))
            except NotFoundError:
                return None

    def _all_held(self) -> list[Held]:
        with self._as_ours():
            found = [one for one in self._client.list_collections() if "written" in (one.metadata or {})]
            return [_to_held(one) for one in sorted(found, key=lambda one: one.metadata["written"])]

    def _nearest(
        self, part: Part, vector: NDArray[np.float32], top_k: int, user_id: str | None, filters: Mapping[str, Any]
    ) -> list[RetrievalResult]:
        if any(not wanted for wanted in filters.values()):
            return []  # a list of nothing lets nothing through
        conditions: list[Any] = [{_KEYS[name]: {"$in": list(wanted)}} for name, wanted in filters.items()]
        with self._as_ours():
            collection = self._collection(part)
            if collection.metadata["has_private"]:
                conditions.append(_visible(user_id))
            found = collection.query(
                query_embeddings=[vector],
                n_results=top_k + _EQUALS,
                where={"$and": conditions} if len(conditions) > 1 else conditions[0] if conditions else None,
                include=["documents", "metadatas", "distances"],
            )
        columns = (found[name][0] for name in ("ids", "documents", "metadatas", "distances"))
        # Of a chunk that is being deleted the index may still know the id, and nothing else.
        results = [_found(*row) for row in zip(*columns, strict=True) if row[2] is not None]
        return sorted(results, key=lambda one: (-one.score, one.chunk_id))[:top_k]

    def _count(self, part: Part, user_id: str | None) -> int:
        with self._as_ours():
            return len(self._collection(part).get(where=_visible(user_id), include=[])["ids"])

    def _source_ids(self, part: Part) -> set[UUID]:
        with self._as_ours():
            return {UUID(one["source_id"]) for one in self._collection(part).get(include=["metadatas"])["metadatas"]}

    def _write(self, held: Held, sources: Sequence[StoredSource]) -> None:
        rows = [(source, chunk) for source in sources for chunk in source.chunks]
        with self._writing, self._as_ours():
            collection = self._made(held, any(source.user_id is not None for source in sources))
            before = _chunks_of(collection, {source.id for source in sources})
            size = self._client.get_max_batch_size()
            for start in range(0, len(rows), size):
                batch = rows[start : start + size]
                collection.upsert(
                    ids=[str(chunk.id) for _, chunk in batch],
                    embeddings=[chunk.vector for _, chunk in batch],
                    documents=[chunk.content for _, chunk in batch],
                    metadatas=[_metadata(*row) for row in batch],
                )
            _drop(collection, before - {str(chunk.id) for _, chunk in rows}, size)

    def _delete(self, part: Part, source_ids: set[UUID]) -> int:
        with self._writing, self._as_ours():
            there = source_ids & self._source_ids(part)
            collection = self._collection(part)
            _drop(collection, _chunks_of(collection, there), self._client.get_max_batch_size())
            return len(there)

    def _made(self, held: Held, with_private: bool) -> Any:
        name, part = _name(held.part), held.part
        there = {one.name: one.metadata or {} for one in self._client.list_collections()}
        written = max((one.get("written", 0) for one in there.values()), default=0) + 1
        about = {
            "tenant": part.tenant, "bot": part.bot, "space": str(part.space), "profile_id": part.profile_id,
            "profile": held.profile.model_dump_json(), "origin": held.origin or _NOTHING,
            "floors": json.dumps(held.floors), "is_shared": held.is_shared, "written": written,
            "has_private": with_private or bool(there.get(name, {}).get("has_private")),
        }  # fmt: skip
        collection = self._client.get_or_create_collection(
            name, embedding_function=None, configuration=_INDEX, metadata=about
        )
        collection.modify(metadata=about)
        return collection


def _name(part: Part) -> str:
    return f"rag-{hashlib.sha256(part.key.encode()).hexdigest()[:48]}"


def _to_held(collection: Any) -> Held:
    about = collection.metadata
    part = Part(about["tenant"], about["bot"], UUID(about["space"]), about["profile_id"])
    floors = json.loads(about["floors"])
    return Held(part, profile_of(about["profile"]), about["origin"] or None, floors, about["is_shared"])


def _visible(user_id: str | None) -> dict[str, Any]:
    return {"user_id": {"$in": [_NOTHING] if user_id is None else [_NOTHING, user_id]}}


def _metadata(source: StoredSource, chunk: StoredChunk) -> dict[str, Any]:
    rest = {"tokens": chunk.token_count, "citation": dict(chunk.citation), "metadata": dict(chunk.metadata)}
    return {
        "source_id": str(source.id),
        "source_name": source.name,
        "source_type": source.source_type,
        "locale": source.locale or _NOTHING,
        "content_type": source.content_type or _NOTHING,
        "space": source.space,
        "user_id": source.user_id or _NOTHING,
        "rest": json.dumps(rest, ensure_ascii=False),
    }


def _found(chunk_id: str, content: str, known: Mapping[str, Any], distance: float) -> RetrievalResult:
    rest = json.loads(known["rest"])
    nothing = np.empty(0, dtype=np.float32)  # what is found has no vector with it
    chunk = StoredChunk(UUID(chunk_id), content, rest["tokens"], nothing, rest["citation"], rest["metadata"])
    source = StoredSource(UUID(known["source_id"]), known["source_name"], [], space=known["space"])
    return to_found(source, chunk, 1 - distance)


def _chunks_of(collection: Any, source_ids: set[UUID]) -> set[str]:
    if not source_ids:
        return set()
    return set(collection.get(where={"source_id": {"$in": [str(one) for one in source_ids]}}, include=[])["ids"])


def _drop(collection: Any, chunk_ids: set[str], size: int) -> None:
    ids = sorted(chunk_ids)
    for start in range(0, len(ids), size):
        collection.delete(ids=ids[start : start + size])
