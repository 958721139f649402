"""The whole job without Dagster: `ingest(database, tenant, bot, profile)`."""

from __future__ import annotations

from dataclasses import dataclass

from rag_assets.ingest.chunks import ChunkReport, chunk_pending
from rag_assets.ingest.embeddings import EmbedReport, embed_chunks
from rag_assets.ingest.pairs import enable_pair
from rag_assets.ingest.publication import PublishReport, publish_chunks
from rag_assets.ingest.sources import SyncReport, sync_sources
from rag_assets.store.database import Database
from rag_assets.store.indexes import HnswReport, LexicalReport, ensure_hnsw, refresh_lexical, tune_recall


@dataclass(frozen=True)
class IngestReport:
    """What each stage did."""

    sources: SyncReport
    chunks: ChunkReport
    embeddings: EmbedReport
    publication: PublishReport
    lexical: LexicalReport
    hnsw: HnswReport


def ingest(database: Database, tenant: str, bot: str, profile: str, *, batch: bool = False) -> IngestReport:
    """Scan the bot's remembered roots and bring one profile of it up to date.

    `batch`: through the provider's batch API, whatever the profile's settings say; what waits for a job is published by
    a later call.

    Raises:
        UnknownTenant, UnknownBot, UnknownProfile: nothing was done.
    """
    built = enable_pair(database, tenant, bot, profile)
    synced = sync_sources(database, tenant, bot)
    table, chunked = chunk_pending(database, [built])
    embedded_table, embedded = embed_chunks(database, [built], table, batch)
    published = publish_chunks(database, [built], embedded_table)
    lexical = refresh_lexical(database, built)
    hnsw = ensure_hnsw(database, built)
    tune_recall(database, built)
    return IngestReport(synced, chunked, embedded, published, lexical, hnsw)
