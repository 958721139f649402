"""Stage 5: the indexes and statistics that make search fast and its scores right."""

# No `from __future__ import annotations`: Dagster reads the annotations of this file as objects.

from dataclasses import asdict

import dagster as dg

from rag_assets.assets.metadata import records_table
from rag_assets.assets.steps import OWNERS, IngestConfig, profiles_of, working
from rag_assets.partitions import tenant_profile
from rag_assets.resources import Postgres
from rag_assets.store.database import Database
from rag_assets.store.indexes import MIN_RECALL, ensure_hnsw, refresh_lexical, tune_recall
from rag_assets.store.profiles import BuiltProfile


@dg.asset(
    partitions_def=tenant_profile,
    deps=["knowledge_chunks"],
    group_name="indexes",
    owners=OWNERS,
    kinds={"postgres"},
)
def gin_index(
    context: dg.AssetExecutionContext, config: IngestConfig, postgres: Postgres
) -> dg.MaterializeResult[None]:
    """The full-text index and the BM25 statistics; weights are rebuilt where the mean length has drifted."""
    with working(context) as step:
        database = postgres.database()
        built = profiles_of(context, database, config)
        reports = [refresh_lexical(database, one) for one in built]
    return dg.MaterializeResult(
        metadata={
            "chunks": sum(report.chunks for report in reports),
            "lexemes": sum(report.lexemes for report in reports),
            "index_bytes": sum(report.index_bytes for report in reports),
            "index_built": any(report.index_built for report in reports),
            "statistics_refreshed": any(report.statistics_refreshed for report in reports),
            "weights_rebuilt": any(report.weights_rebuilt for report in reports),
            "bots": records_table(
                [{"bot": one.bot, **asdict(report)} for one, report in zip(built, reports, strict=True)]
            ),
            "seconds": step.seconds,
        }
    )


@dg.asset(
    partitions_def=tenant_profile,
    # Rebuilt weights rewrite every row, which would grow a graph that is already built.
    deps=["knowledge_chunks", "gin_index"],
    group_name="indexes",
    owners=OWNERS,
    kinds={"postgres", "pgvector"},
    check_specs=[
        dg.AssetCheckSpec(
            "hnsw_recall",
            asset="hnsw_index",
            description=f"The index finds at least {MIN_RECALL:.0%} of the ten nearest chunks.",
            partitions_def=tenant_profile,
        )
    ],
)
# Where an asset has checks, Dagster knows the bare class alone.
def hnsw_index(context: dg.AssetExecutionContext, config: IngestConfig, postgres: Postgres) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """The vector index where the profile is large enough for one; smaller ones are searched exactly."""
    with working(context) as step:
        database = postgres.database()
        built = profiles_of(context, database, config)
        reports = [ensure_hnsw(database, one) for one in built]
        check = _recall(database, built)
    return dg.MaterializeResult(
        metadata={
            "chunks": sum(report.chunks for report in reports),
            "index_bytes": sum(report.index_bytes for report in reports),
            "index_built": any(report.index_built for report in reports),
            "searched": ", ".join(sorted({report.searched for report in reports})),
            "bots": records_table(
                [{"bot": one.bot, **asdict(report)} for one, report in zip(built, reports, strict=True)]
            ),
            "seconds": step.seconds,
        },
        check_results=[check],
    )


def _recall(database: Database, built: list[BuiltProfile]) -> dg.AssetCheckResult:
    """The lowest recall@10 of the pair's indexes; without an index the search is exact, and recall is 1."""
    reports = [report for report in (tune_recall(database, one) for one in built) if report is not None]
    recall = min((report.recall for report in reports), default=1.0)
    return dg.AssetCheckResult(
        check_name="hnsw_recall",
        passed=recall >= MIN_RECALL,
        severity=dg.AssetCheckSeverity.ERROR,
        metadata={
            "recall": float(recall),
            "searched": "hnsw" if reports else "exact",
            "ef_search": max((report.ef_search for report in reports), default=0),
            "queries": sum(report.queries for report in reports),
        },
    )
