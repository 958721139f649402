"""Stage 4: embedded chunks replace what is served."""

# No `from __future__ import annotations`: Dagster reads the annotations of this file as objects.

import dagster as dg

from rag_assets.assets.metadata import bots_table, failures_table, preview
from rag_assets.assets.steps import OWNERS, IngestConfig, bots_of_pair, profiles_of, working
from rag_assets.ingest.chunk_files import ChunkFile
from rag_assets.ingest.publication import publish_chunks
from rag_assets.partitions import tenant_profile
from rag_assets.resources import Postgres
from rag_assets.runs.reports import hand_over


@dg.asset(
    partitions_def=tenant_profile,
    group_name="knowledge",
    owners=OWNERS,
    kinds={"postgres", "pgvector"},
)
def knowledge_chunks(
    context: dg.AssetExecutionContext, config: IngestConfig, postgres: Postgres, profile_embeddings: ChunkFile
) -> dg.MaterializeResult[None]:
    """What retrieval searches: each source's chunks replace its older ones in one transaction, and those of
    deleted sources go. The first profile that is complete for a bot becomes its active one."""
    with working(context) as step:
        database = postgres.database()
        report = publish_chunks(database, profiles_of(context, database, config), profile_embeddings)
        hand_over(report)
        bots = bots_of_pair(context, database)
    for bot in report.activated:
        context.log.info(f"bot {bot} is now served by this profile")
    return dg.MaterializeResult(
        metadata={
            "sources_ready": report.ready,
            "chunks_written": report.chunks_written,
            "sources_withdrawn": report.withdrawn,
            "sources_superseded": report.superseded,
            "serving_sources": sum(bot.serving_sources for bot in bots),
            "serving_chunks": sum(bot.serving_chunks for bot in bots),
            "activated": ", ".join(report.activated),
            "triples_asked": report.extraction.asked,
            "triples_tokens": report.extraction.tokens,
            "triples_cost_usd": report.extraction.cost_usd,
            "triples_unanswered": report.extraction.unanswered,
            "failed": len(report.failures),
            "failures": failures_table(report.failures),
            "preview": preview(profile_embeddings),
            "bots": bots_table(bots),
            "run_bot": config.bot or "all",
            "seconds": step.seconds,
        }
    )
