"""Stage 1: what lies under a tenant's roots is read into the database."""

# No `from __future__ import annotations`: Dagster reads the annotations of this file as objects.

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

import dagster as dg
from dagster._core.storage.tags import SENSOR_NAME_TAG

from rag_assets.assets.metadata import MAX_FAILURES, bots_table, failures_table, records_table
from rag_assets.assets.steps import OWNERS, IngestConfig, working
from rag_assets.ingest.losses import HeldLoss, held_losses
from rag_assets.ingest.sources import sync_sources
from rag_assets.partitions import tenants
from rag_assets.printing import counted, printable
from rag_assets.resources import Postgres
from rag_assets.runs.reports import hand_over
from rag_assets.store.overview import BotSources, FailedSource, PoorSource, failed_sources, poor_sources, sources_by_bot
from rag_assets.store.roots import Root, RootScan, list_roots
from rag_assets.store.tenants import SHARED_BOT

_WORST, _MAX_WORST = 20, 200  # poor sources that a check names, of a bot and in all


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
        ),
        dg.AssetCheckSpec(
            "sources_quality",
            asset="sources",
            description="No source was read poorly: with pages without text, a guessed encoding and the like.",
            partitions_def=tenants,
        ),
        dg.AssetCheckSpec(
            "no_mass_loss",
            asset="sources",
            description="Nothing is held back: of no root so many sources are gone that a fault is likelier.",
            partitions_def=tenants,
        ),
    ],
)
# Where an asset has checks, Dagster knows the bare class alone.
def sources(context: dg.AssetExecutionContext, config: IngestConfig, postgres: Postgres) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """Documents under the remembered roots of a tenant's bots: new and changed ones are read, missing ones
    are marked as deleted. What cannot be read is recorded and stays as it was."""
    with working(context) as step:
        database, tenant = postgres.database(), context.partition_key
        # The sensor asks for a run as soon as a file has changed, and that is no reason to ask a web site again.
        due_only = SENSOR_NAME_TAG in context.run.tags
        report = sync_sources(database, tenant, config.bot or None, confirm_loss=config.confirm_loss, due_only=due_only)
        hand_over(report)
        with database.work(tenant) as connection:
            bots = sources_by_bot(connection, tenant)
            failures = failed_sources(connection, tenant, MAX_FAILURES)
            poor = poor_sources(connection, tenant)
            roots = list_roots(connection, tenant)
    for root in report.unreadable_roots:
        context.log.warning(printable(f"root {root.name} of bot {root.bot} is kept as it was: {root.error}"))
    held = held_losses(roots)
    for loss in held:
        context.log.warning(printable(loss))
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
            "root_states": records_table([_root_row(root) for root in roots]),
            "held": sum(loss.held.sources for loss in held),
            "run_bot": config.bot or "all",
            "seconds": step.seconds,
        },
        check_results=[_readable(bots, failures), _quality(poor), _no_mass_loss(held)],
    )


def _root_row(root: Root) -> dict[str, str | int]:
    scan = root.scan or RootScan()
    skipped = [f"{reason}: {one.count} ({', '.join(one.examples)})" for reason, one in scan.skipped.items()]
    return {
        "bot": root.bot,
        "root": root.shown,
        "visible to": "tenant"
        if root.bot == SHARED_BOT
        else root.options.visibility,  # not which user: all see Dagster
        "last scan": f"{root.scanned_at:%Y-%m-%d %H:%M:%S}" if root.scanned_at else "never",
        "next scan": f"{root.next_scan_at:%Y-%m-%d %H:%M:%S}" if root.next_scan_at else "at each look",
        "files": scan.files,
        "sources": scan.sources,
        "bytes": scan.bytes,
        "held": scan.held.sources if scan.held else 0,
        "skipped": "; ".join(skipped),
        "error": root.last_error or "",
    }


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


def _quality(poor: Sequence[PoorSource]) -> dg.AssetCheckResult:
    # Also of the whole partition, and a warning: a poor source is served, and somebody may make it better.
    counts = Counter((one.bot, reason.figure) for one in poor for reason in one.reasons)
    of_bots = [list(own)[:_WORST] for _, own in groupby(poor, key=lambda one: one.bot)]
    worst = [one for own in of_bots for one in own][:_MAX_WORST]
    return dg.AssetCheckResult(
        check_name="sources_quality",
        passed=not poor,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"{counted(len(poor), 'source was', 'sources were')} read poorly" if poor else None,
        metadata={
            "poor": len(poor),
            "reasons": records_table(
                [{"bot": bot, "reason": figure, "sources": count} for (bot, figure), count in sorted(counts.items())]
            ),
            "worst": records_table(
                [{"bot": one.bot, "source": one.name, "why": "; ".join(map(str, one.reasons))} for one in worst]
            ),
        },
    )


def _no_mass_loss(held: Sequence[HeldLoss]) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        check_name="no_mass_loss",
        passed=not held,
        severity=dg.AssetCheckSeverity.ERROR,
        description="; ".join(map(str, held)) or None,
        metadata={
            "held": sum(loss.held.sources for loss in held),
            "roots": records_table(
                [{"bot": one.bot, "root": one.root, "held": one.held.sources, "of": one.held.of} for one in held]
            ),
        },
    )
