"""Stage 5: the indexes and statistics that make search fast and its scores right."""

# No `from __future__ import annotations`: Dagster reads the annotations of this file as objects.

from collections.abc import Sequence
from functools import partial

import dagster as dg

from rag_assets.assets.metadata import bots_table
from rag_assets.assets.steps import OWNERS, IngestConfig, indexes_of_pair, profiles_of, working
from rag_assets.ingest.found_weights import find_weight
from rag_assets.partitions import tenant_profile
from rag_assets.resources import Postgres
from rag_assets.store.database import Database
from rag_assets.store.indexes import ensure_hnsw, refresh_lexical
from rag_assets.store.overview import BotIndexes
from rag_assets.store.profiles import BuiltProfile
from rag_assets.store.recall import MIN_RECALL, tune_recall


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
    """The full-text index and the BM25 statistics; weights are rebuilt where the mean length has drifted. With new
    statistics the weight of meaning in hybrid search is found anew."""
    with working(context) as step:
        database = postgres.database()
        built = profiles_of(context, database, config)
        reports = [refresh_lexical(database, one, partial(find_weight, database, one)) for one in built]
        bots = indexes_of_pair(context, database)
    return dg.MaterializeResult(
        metadata={
            "chunks": sum(bot.chunks for bot in bots),
            "lexemes": sum(bot.lexemes for bot in bots),
            "index_bytes": sum(bot.gin_bytes for bot in bots),
            "index_built": any(report.index_built for report in reports),
            "statistics_refreshed": any(report.statistics_refreshed for report in reports),
            "weights_rebuilt": any(report.weights_rebuilt for report in reports),
            "bots": bots_table(bots),
            "run_bot": config.bot or "all",
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
        queries = _measured(database, built)
        bots = indexes_of_pair(context, database)
    return dg.MaterializeResult(
        metadata={
            "chunks": sum(bot.chunks for bot in bots),
            "index_bytes": sum(bot.hnsw_bytes for bot in bots),
            "index_built": any(report.index_built for report in reports),
            "searched": ", ".join(sorted({bot.searched for bot in bots})),
            "storage": ", ".join(sorted({bot.storage for bot in bots})),
            "bots": bots_table(bots),
            "run_bot": config.bot or "all",
            "seconds": step.seconds,
        },
        check_results=[recall_check(bots, queries)],
    )


def _measured(database: Database, built: Sequence[BuiltProfile]) -> int:
    """Tune the indexes of these; with how many queries."""
    return sum(report.queries for report in (tune_recall(database, one) for one in built) if report is not None)


def recall_check(bots: Sequence[BotIndexes], queries: int) -> dg.AssetCheckResult:
    """The lowest recall@10 of the pair's indexes; without an index the search is exact, and recall is 1."""
    recall = min((bot.recall for bot in bots if bot.recall is not None), default=1.0)
    indexed = [bot for bot in bots if bot.searched == "hnsw"]
    storages = sorted({bot.storage for bot in indexed})
    passed = recall >= MIN_RECALL
    return dg.AssetCheckResult(
        check_name="hnsw_recall",
        passed=passed,
        severity=dg.AssetCheckSeverity.ERROR,
        description=None if passed else _way_out(recall, storages),
        metadata={
            "recall": float(recall),
            "searched": "hnsw" if indexed else "exact",
            "storage": ", ".join(storages),
            "ef_search": max((bot.ef_search for bot in indexed), default=0),
            "oversampling": max((bot.oversampling for bot in indexed), default=1),
            "queries": queries,
        },
    )


def _way_out(recall: float, storages: Sequence[str]) -> str:
    found = f"The index ({', '.join(storages)}) finds {recall:.1%} of the ten nearest chunks however far it looks."
    if "bit" in storages:
        return f"{found} Bits do not fit this model: add a profile with --index-storage halfvec."
    return f"{found} Searches that must find all can be exact: add a profile with --index exact."
