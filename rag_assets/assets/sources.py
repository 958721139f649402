"""Stage 1: what lies under a tenant's roots is read into the database."""

# No `from __future__ import annotations`: Dagster reads the annotations of this file as objects.

import dagster as dg

from rag_assets.assets.metadata import failures_table
from rag_assets.assets.steps import OWNERS, IngestConfig, working
from rag_assets.ingest.sources import SyncReport, sync_sources
from rag_assets.partitions import tenants
from rag_assets.resources import Postgres
from rag_assets.runs.reports import hand_over


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
        report = sync_sources(postgres.database(), context.partition_key, config.bot or None)
        hand_over(report)
    for root in report.unreadable_roots:
        context.log.warning(f"root {root.name} of bot {root.bot} is kept as it was: {root.error}")
    return dg.MaterializeResult(
        metadata={
            "ready": report.changed,
            "unchanged": report.unchanged,
            "failed": report.failed,
            "no_text": report.no_text,
            "deleted": report.deleted,
            "files": report.files,
            "roots": report.roots,
            "bytes_read": report.bytes_read,
            "unreadable_roots": len(report.unreadable_roots),
            "failures": failures_table([*report.unreadable_roots, *report.failures]),
            "seconds": step.seconds,
        },
        check_results=[_readable(report)],
    )


def _readable(report: SyncReport) -> dg.AssetCheckResult:
    # A warning, not an error: what could be read is served, and nothing that was served is lost.
    return dg.AssetCheckResult(
        check_name="sources_readable",
        passed=not (report.failed or report.failures or report.unreadable_roots),
        severity=dg.AssetCheckSeverity.WARN,
        metadata={
            "failed": report.failed,
            "unreadable_roots": len(report.unreadable_roots),
            "failures": failures_table([*report.unreadable_roots, *report.failures]),
        },
    )
