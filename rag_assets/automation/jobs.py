"""The jobs. A tenant's sources and a pair of tenant and profile cannot share a run."""

# No `from __future__ import annotations`: Dagster reads the annotations of this file as objects.

import warnings
from typing import Any

import dagster as dg

from rag_assets.printing import counted
from rag_assets.resources import Postgres
from rag_assets.runs.lanes import LANE_TAG, longest_s
from rag_assets.settings import load_settings
from rag_assets.store.query_log import purge_all_queries

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


PURGE_JOB = "purge_query_log"


@dg.op(description="Deletes what is older than the query log is kept.")
def delete_old_queries(context: dg.OpExecutionContext, postgres: Postgres) -> None:
    days = load_settings().query_log_days
    deleted = purge_all_queries(postgres.database(), days)
    context.log.info(f"deleted from the query log what is older than {counted(days, 'day')}: {deleted:,}")


@dg.job(
    name=PURGE_JOB,
    executor_def=dg.in_process_executor,
    tags={LANE_TAG: "quick", "dagster/max_runtime": str(longest_s("quick"))},
    description="Deletes what is older than the query log is kept, of all tenants.",
)
def purge_query_log() -> None:
    delete_old_queries()


def run_request(**fields: Any) -> dg.RunRequest:
    """A `RunRequest` with tags that Dagster puts on runs of partitions itself, and warns of where anybody else does."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Non-compliant tag keys")
        return dg.RunRequest(**fields)
