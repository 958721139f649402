"""The jobs. A tenant's sources and a pair of tenant and profile cannot share a run."""

from __future__ import annotations

import warnings
from typing import Any

import dagster as dg

SOURCES_JOB = "ingest_sources"
PAIR_JOB = "ingest_pair"

ingest_sources = dg.define_asset_job(
    SOURCES_JOB,
    selection=["sources"],
    description="Reads what is new or changed under the roots of one tenant.",
)

EVAL_JOB = "eval_gate"
PROMOTION_JOB = "promote_profile"

eval_gate = dg.define_asset_job(
    EVAL_JOB,
    selection=["eval_dataset", "retrieval_run", "eval_metrics"],
    description="Measures one profile of one tenant on its labelled queries, and judges it against the active one.",
)

promote_profile = dg.define_asset_job(
    PROMOTION_JOB,
    selection=["eval_dataset", "retrieval_run", "eval_metrics", "active_profile"],
    description="Measures and judges a profile and, if every criterion of the gate holds, makes it the active one.",
)

ingest_pair = dg.define_asset_job(
    PAIR_JOB,
    selection=["chunks", "profile_embeddings", "knowledge_chunks", "gin_index", "hnsw_index"],
    description="Brings one embedding profile of one tenant up to date with the tenant's sources.",
)


def run_request(**fields: Any) -> dg.RunRequest:
    """A `RunRequest` with tags that Dagster puts on runs of partitions itself, and warns of where anybody else does."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Non-compliant tag keys")
        return dg.RunRequest(**fields)
