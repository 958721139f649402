"""The two jobs of ingestion. A tenant's sources and a pair of tenant and profile cannot share a run."""

from __future__ import annotations

import dagster as dg

SOURCES_JOB = "ingest_sources"
PAIR_JOB = "ingest_pair"

ingest_sources = dg.define_asset_job(
    SOURCES_JOB,
    selection=["sources"],
    description="Reads what is new or changed under the roots of one tenant.",
)

ingest_pair = dg.define_asset_job(
    PAIR_JOB,
    selection=["chunks", "profile_embeddings", "knowledge_chunks", "gin_index", "hnsw_index"],
    description="Brings one embedding profile of one tenant up to date with the tenant's sources.",
)
