"""Stage 3: chunks get the vectors of their profile."""

# No `from __future__ import annotations`: Dagster reads the annotations of this file as objects.

import dagster as dg
from dagster._core.storage.tags import SCHEDULE_NAME_TAG, SENSOR_NAME_TAG

from rag_assets.assets.metadata import bots_table, failures_table
from rag_assets.assets.steps import OWNERS, IngestConfig, bots_of_pair, pair_of, profiles_of, working
from rag_assets.ingest.chunk_files import ChunkFile, spool
from rag_assets.ingest.embeddings import embed_chunks, embedded_schema
from rag_assets.io_managers import spool_folder
from rag_assets.partitions import tenant_profile
from rag_assets.printing import counted
from rag_assets.resources import Postgres
from rag_assets.runs.pools import EMBEDDING_POOL
from rag_assets.runs.reports import hand_over
from rag_assets.settings import load_settings


@dg.asset(
    partitions_def=tenant_profile,
    group_name="knowledge",
    owners=OWNERS,
    kinds={"python", "parquet"},
    pool=EMBEDDING_POOL,
)
def profile_embeddings(
    context: dg.AssetExecutionContext, config: IngestConfig, postgres: Postgres, chunks: ChunkFile
) -> dg.MaterializeResult[ChunkFile]:
    """The chunks with one vector each, by the profile's model; texts that were embedded before come from
    the tenant's cache and cost nothing. A source whose texts wait for a batch job is left for a later run."""
    with working(context) as step:
        database = postgres.database()
        # A run that nobody waits for comes again, and until then leaves its place to others.
        by_itself = {SENSOR_NAME_TAG, SCHEDULE_NAME_TAG} & set(context.run.tags)
        wait_s = load_settings().sensor_provider_wait_s if by_itself else None
        profiles = profiles_of(context, database, config)
        parts, report = embed_chunks(database, profiles, chunks, config.batch, wait_s)
        schema = embedded_schema(profiles[0].profile.dimensions)
        embedded = spool(parts, schema, spool_folder(*pair_of(context)))
        hand_over(report)
        bots = bots_of_pair(context, database)
    if report.pending_chunks:
        context.log.info(f"{counted(report.pending_chunks, 'chunk waits', 'chunks wait')} for a batch job")
    return dg.MaterializeResult(
        value=embedded,
        metadata={
            "chunks": report.chunks,
            "embedded": report.embedded,
            "cache_hits": report.cache_hits,
            "tokens": report.tokens,
            "cost_usd": float(report.cost_usd),
            "pending_chunks": report.pending_chunks,
            "pending_sources": report.pending_sources,
            "batch_jobs": report.jobs,
            "media": report.media,
            "media_changed": report.media_changed,
            "media_refused": failures_table(report.media_refused),
            "failed": len(report.failures),
            "failures": failures_table(report.failures),
            "bots": bots_table(bots),
            "run_bot": config.bot or "all",
            "seconds": step.seconds,
        },
    )
