"""The stages of an ingest one by one, each with its file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from rag_assets.ingest.chunk_files import ChunkFile, spool
from rag_assets.ingest.chunks import CHUNK_SCHEMA, chunk_pending
from rag_assets.ingest.embeddings import EmbedReport, embed_chunks, embedded_schema
from rag_assets.store.database import Database
from rag_assets.store.profiles import BuiltProfile


def cut(database: Database, profiles: Sequence[BuiltProfile], folder: Path) -> ChunkFile:
    """What these profiles have to publish, in chunks."""
    return spool(chunk_pending(database, profiles)[0], CHUNK_SCHEMA, folder)


def embedded(
    database: Database, profiles: Sequence[BuiltProfile], chunks: ChunkFile, folder: Path
) -> tuple[ChunkFile, EmbedReport]:
    """Chunks with their vectors, and what was embedded."""
    parts, report = embed_chunks(database, profiles, chunks)
    return spool(parts, embedded_schema(profiles[0].profile.dimensions), folder), report


def kept(table: pa.Table, folder: Path) -> ChunkFile:
    """A table as a stage hands it over."""
    return spool([table], table.schema, folder)
