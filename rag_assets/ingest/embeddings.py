"""Stage 3: chunks get their profile's vectors, from the cache where it has them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rag_assets.embedding.cached import CachedEmbedding, embed_documents_cached
from rag_assets.embedding.protocol import Embedder
from rag_assets.embedding.registry import embedder_for
from rag_assets.errors import EmbeddingError
from rag_assets.ingest.sources import Failure
from rag_assets.progress import stage
from rag_assets.store.cache import PgVectorCache
from rag_assets.store.database import Database
from rag_assets.store.profiles import BuiltProfile
from rag_assets.store.publication import Publisher
from rag_assets.store.sources import show_progress


@dataclass
class EmbedReport:
    """What was embedded, for one tenant and profile. `cost_usd` is what the provider charged now."""

    chunks: int = 0
    embedded: int = 0
    cache_hits: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    failures: list[Failure] = field(default_factory=list)

    def add(self, result: CachedEmbedding) -> None:
        self.embedded += result.embedded
        self.cache_hits += result.cache_hits
        self.tokens += result.tokens
        self.cost_usd += result.cost_usd


def embed_chunks(
    database: Database, profiles: Sequence[BuiltProfile], chunks: pa.Table
) -> tuple[pa.Table, EmbedReport]:
    """Add the column `embedding`, (n, d) float32 of unit length, to a table of chunks.

    The chunks of a source whose text the provider refuses are left out and the source is recorded as failed.

    Raises:
        EmbeddingError: the provider refused every source; nothing is recorded against them.
    """
    report = EmbedReport()
    tables = []
    for built in profiles:
        mine = chunks.filter(pc.equal(chunks["profile_id"], built.id))
        tables.append(_embed_profile(database, built, mine, report))
    report.chunks = sum(table.num_rows for table in tables)
    return pa.concat_tables(tables), report


def _embed_profile(database: Database, built: BuiltProfile, chunks: pa.Table, report: EmbedReport) -> pa.Table:
    embedder = embedder_for(built.profile)
    texts = chunks["content"].to_pylist()
    with (
        stage(f"embed {built.bot}", len(texts)) as bar,
        PgVectorCache(database, built.tenant, built.bot) as cache,
    ):
        try:
            result = embed_documents_cached(embedder, texts, cache, on_batch=bar.advance)
        except EmbeddingError:
            return _embed_by_source(database, built, chunks, embedder, cache, report)
    report.add(result)
    _progress(database, built, chunks)
    return with_vectors(chunks, result.vectors)


def _embed_by_source(
    database: Database,
    built: BuiltProfile,
    chunks: pa.Table,
    embedder: Embedder,
    cache: PgVectorCache,
    report: EmbedReport,
) -> pa.Table:
    """Find the sources that the provider refuses, and embed the others. What the cache holds is not paid twice."""
    good, vectors = [], []
    refused: list[tuple[pa.Table, EmbeddingError]] = []
    for source in dict.fromkeys(chunks["source_id"].to_pylist()):
        part = chunks.filter(pc.equal(chunks["source_id"], source))
        try:
            result = embed_documents_cached(embedder, part["content"].to_pylist(), cache)
        except EmbeddingError as reason:
            refused.append((part, reason))
            continue
        report.add(result)
        good.append(part)
        vectors.append(result.vectors)
    if not good:
        raise refused[0][1]
    with Publisher(database, built) as publisher:
        for part, error in refused:
            row = part.slice(0, 1).to_pylist()[0]
            text = f"cannot be embedded: {error}"
            publisher.fail(UUID(row["source_id"]), row["checksum"], text)
            name = json.loads(row["citation"]).get("title") or row["source_id"]
            report.failures.append(Failure(built.bot, name, text))
    table = pa.concat_tables(good)
    _progress(database, built, table)
    return with_vectors(table, np.concatenate(vectors))


def _progress(database: Database, built: BuiltProfile, chunks: pa.Table) -> None:
    sources = [UUID(source) for source in pc.unique(chunks["source_id"]).to_pylist()]
    with database.transaction("ingest", {"tenant": built.tenant}) as connection:
        show_progress(connection, sources, 80)


def with_vectors(chunks: pa.Table, vectors: NDArray[np.float32]) -> pa.Table:
    """`chunks` with the column `embedding`, a fixed-size list of float32, from vectors (n, d)."""
    flat = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1))
    column = pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
    return chunks.append_column("embedding", column)


def vectors_of(table: pa.Table) -> NDArray[np.float32]:
    """The column `embedding` as (n, d) float32."""
    column = table["embedding"].combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return np.asarray(column.flatten().to_numpy(zero_copy_only=False), dtype=np.float32).reshape(
        len(column), column.type.list_size
    )
