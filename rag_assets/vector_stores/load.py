"""Copying what a profile serves from Postgres into a store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any
from uuid import UUID

from rag_assets.retrieval.results import to_result
from rag_assets.retrieval.retrievers import require_same_profile
from rag_assets.retrieval.scope import RetrievalScope, require_scope
from rag_assets.sources.secrets import without_secrets
from rag_assets.store.database import Database
from rag_assets.store.exported import ExportedChunk, ExportedSource, exported_chunks, exported_sources
from rag_assets.store.search import searched_spec
from rag_assets.vector_stores.protocol import StoredChunk, StoredSource, WritableStore

_AT_ONCE = 2000  # chunks that are read and written together, and that a broken copy may lack


@dataclass(frozen=True)
class LoadReport:
    """What was copied, and how many sources were taken away because the scope has them no more."""

    sources: int
    chunks: int
    removed: int


def load(database: Database, scope: RetrievalScope, store: WritableStore) -> LoadReport:
    """Make the store hold what the scope may see, with what all bots of the tenant share, and nothing else under this
    scope. It is read as the application reads: what row-level security hides from the scope is not copied.

    The copy is a snapshot, and nobody's erasure reaches it: it is made anew, or thrown away, by whoever made it.

    Raises:
        ScopeError: no scope, or its profile is not the one that its `profile_id` names.
        DatabaseUnavailable, DatabaseRefused, DatabaseFailed: as a search.
        UsageError, InvalidArgument: the store is closed, or cannot hold the vectors.
    """
    require_scope(scope, "nothing is copied")
    own = _load(database, scope, store)
    if scope.shared is None:
        return own
    shared = _load(database, scope.shared, store)
    return LoadReport(own.sources + shared.sources, own.chunks + shared.chunks, own.removed + shared.removed)


def _load(database: Database, scope: RetrievalScope, store: WritableStore) -> LoadReport:
    space, profile = scope.knowledge_space_id, scope.profile_id
    specs, listed = database.ask(scope.settings, [searched_spec(profile), exported_sources(space, profile)])
    require_same_profile(scope, specs)
    seen: set[UUID] = set()
    chunks = 0
    for batch in _batches(listed):
        (rows,) = database.ask(scope.settings, [exported_chunks(space, profile, batch)])
        sources = [_stored(list(group)) for _, group in groupby(rows, key=lambda one: one.row.source_id)]
        store.upsert(scope, sources)
        seen |= {source.id for source in sources}
        chunks += len(rows)
    removed = store.delete(scope, store.source_ids(scope) - seen)
    return LoadReport(len(seen), chunks, removed)


def _batches(listed: Sequence[ExportedSource]) -> Iterator[list[UUID]]:
    """Whole sources, of about `_AT_ONCE` chunks."""
    batch: list[UUID] = []
    size = 0
    for one in listed:
        if batch and size + one.chunks > _AT_ONCE:
            yield batch
            batch, size = [], 0
        batch.append(one.source_id)
        size += one.chunks
    if batch:
        yield batch


def _stored(rows: Sequence[ExportedChunk]) -> StoredSource:
    first = rows[0]
    found = [to_result(one.row) for one in rows]  # as a search tells it, without secrets of addresses
    metadata: dict[str, Any] = without_secrets(first.row.source_metadata, first.row.source_uri)
    return StoredSource(
        first.row.source_id,
        found[0].source_name,
        [
            StoredChunk(told.chunk_id, told.content, told.token_count, one.vector, told.citation, told.metadata)
            for told, one in zip(found, rows, strict=True)
        ],
        first.source_type,
        first.locale,
        first.content_type,
        metadata,
        first.row.space,
        first.user_id,
    )
