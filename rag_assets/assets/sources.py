"""Stage 1: what lies under a tenant's roots is read into the database."""

# No `from __future__ import annotations`: Dagster reads the annotations of this file as objects.

from collections.abc import Sequence

import dagster as dg

from rag_assets.assets.metadata import MAX_FAILURES, bots_table, failures_table
from rag_assets.assets.steps import OWNERS, IngestConfig, working
from rag_assets.ingest.sources import sync_sources
from rag_assets.partitions import tenants
from rag_assets.resources import Postgres
from rag_assets.runs.reports import hand_over
from rag_assets.store.overview import BotSources, FailedSource, failed_sources, sources_by_bot


@dg.asset(
    partitions_def=tenants,
    group_name="sources",
    owners=OWNERS,
    kinds={"python", "postgres"},
    check_specs=[
        dg.AssetCheckSpec(
            "sources_readable",
            asset="sources",
            description="Every root could be listed and every file in it could be read.",
            partitions_def=tenants,
        )
    ],
)
# Where an asset has checks, Dagster knows the bare class alone.
def sources(context: dg.AssetExecutionContext, config: IngestConfig, postgres: Postgres) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """Documents under the remembered roots of a tenant's bots: new and changed ones are read, missing ones
    are marked as deleted. What cannot be read is recorded and stays as it was."""
    with working(context) as step:
        database, tenant = postgres.database(), context.partition_key
        report = sync_sources(database, tenant, config.bot or None)
        hand_over(report)
        with database.work(tenant) as connection:
            bots = sources_by_bot(connection, tenant)
            failures = failed_sources(connection, tenant, MAX_FAILURES)
    for root in report.unreadable_roots:
        context.log.warning(f"root {root.name} of bot {root.bot} is kept as it was: {root.error}")
    return dg.MaterializeResult(
        metadata={
            "ready": report.changed,
            "unchanged": report.unchanged,
            "failed": sum(bot.failed for bot in bots),
            "no_text": sum(bot.no_text for bot in bots),
            "deleted": report.deleted,
            "files": report.files,
            "roots": report.roots,
            "bytes_read": report.bytes_read,
            "unreadable_roots": sum(bot.unreadable_roots for bot in bots),
            "failures": failures_table(failures),
            "sources": sum(bot.sources for bot in bots),
            "bots": bots_table(bots),
            "run_bot": config.bot or "all",
            "seconds": step.seconds,
        },
        check_results=[_readable(bots, failures)],
    )


def _readable(bots: Sequence[BotSources], failures: Sequence[FailedSource]) -> dg.AssetCheckResult:
    # Of the whole partition, also where the run was for one bot. A warning, not an error: what could be read is served,
    # and nothing that was served is lost.
    return dg.AssetCheckResult(
        check_name="sources_readable",
        passed=not failures,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={
            "failed": sum(bot.failed for bot in bots),
            "unreadable_roots": sum(bot.unreadable_roots for bot in bots),
            "failures": failures_table(failures),
        },
    )
