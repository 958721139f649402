"""Stage 2: documents become chunks, as the profile cuts them."""

# No `from __future__ import annotations`: Dagster reads the annotations of this file as objects.

import dagster as dg

from rag_assets.assets.metadata import bots_table, failures_table, preview
from rag_assets.assets.steps import OWNERS, IngestConfig, bots_of_pair, pair_of, profiles_of, working
from rag_assets.ingest.chunk_files import ChunkFile, spool
from rag_assets.ingest.chunks import CHUNK_SCHEMA, chunk_pending
from rag_assets.io_managers import spool_folder
from rag_assets.partitions import tenant_profile
from rag_assets.resources import Postgres
from rag_assets.runs.reports import hand_over


@dg.asset(
    partitions_def=tenant_profile,
    deps=["sources"],
    group_name="knowledge",
    owners=OWNERS,
    kinds={"python", "parquet"},
)
def chunks(
    context: dg.AssetExecutionContext, config: IngestConfig, postgres: Postgres
) -> dg.MaterializeResult[ChunkFile]:
    """Chunks of every source that the profile has not published in its current version, with exact
    offsets into the document."""
    with working(context) as step:
        database = postgres.database()
        parts, report = chunk_pending(database, profiles_of(context, database, config))
        cut = spool(parts, CHUNK_SCHEMA, spool_folder(*pair_of(context)))
        hand_over(report)
        bots = bots_of_pair(context, database)
    return dg.MaterializeResult(
        value=cut,
        metadata={
            "sources": report.sources,
            "chunks": report.chunks,
            "characters": report.characters,
            "tokens": report.tokens,
            "duplicate_pages": report.duplicates,
            "boilerplate_characters": report.boilerplate_characters,
            "failed": len(report.failures),
            "failures": failures_table(report.failures),
            "preview": preview(cut),
            "bots": bots_table(bots),
            "run_bot": config.bot or "all",
            "seconds": step.seconds,
        },
    )
