"""What Dagster's run storage says about work: tried before, under way, left unfinished."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import dagster as dg
from dagster._core.storage.dagster_run import IN_PROGRESS_RUN_STATUSES

from rag_assets.automation.jobs import PAIR_JOB, SOURCES_JOB
from rag_assets.automation.work import Attempt, Busy, Outcome, PendingWork
from rag_assets.partitions import PROFILE_TAG, TENANT_TAG

WORK_TAG = "rag/work"
ORIGIN_TAG = "rag/origin"
COMMAND_LINE = "command line"
_HAND_OVER = timedelta(seconds=30)
_UNFINISHED_FOR = timedelta(days=1)
_OUTCOMES: dict[dg.DagsterRunStatus, Outcome] = {
    dg.DagsterRunStatus.SUCCESS: "success",
    dg.DagsterRunStatus.FAILURE: "failure",
    # Somebody's decision, and yet the work is still to be done: it comes back as slowly as a failure.
    dg.DagsterRunStatus.CANCELED: "failure",
}


def attempts_at(instance: dg.DagsterInstance, key: str) -> list[Attempt]:
    """The runs made for one appearance of a piece of work, retries included."""
    records = instance.get_run_records(dg.RunsFilter(tags={WORK_TAG: key}))
    return [
        Attempt(
            _OUTCOMES.get(record.dagster_run.status, "open"),
            record.end_time or record.update_timestamp.replace(tzinfo=UTC).timestamp(),
        )
        for record in records
    ]


def busy_now(instance: dg.DagsterInstance) -> Busy:
    """Tenants and pairs with a run that is queued or in progress."""
    tenants, pairs = set(), set()
    for run in instance.get_runs(dg.RunsFilter(statuses=IN_PROGRESS_RUN_STATUSES)):
        tenant, profile = run.tags.get(TENANT_TAG), run.tags.get(PROFILE_TAG)
        if tenant and profile:
            pairs.add((tenant, profile))
        elif tenant or run.job_name == SOURCES_JOB:
            tenants.add(tenant or run.tags.get("dagster/partition", ""))
    just_read = instance.get_runs(
        dg.RunsFilter(
            job_name=SOURCES_JOB,
            statuses=[dg.DagsterRunStatus.SUCCESS],
            tags={ORIGIN_TAG: COMMAND_LINE},
            updated_after=datetime.now(UTC) - _HAND_OVER,
        )
    )
    handed_over = {run.tags.get(TENANT_TAG, "") for run in just_read}
    return Busy(frozenset(tenants), frozenset(pairs), frozenset(handed_over))


def unfinished_pairs(instance: dg.DagsterInstance) -> list[PendingWork]:
    """Pairs whose last run failed in the past day. What it published is served, but an index may be missing
    and no source is waiting that would ask for another run."""
    failed = instance.get_runs(
        dg.RunsFilter(
            job_name=PAIR_JOB,
            statuses=[dg.DagsterRunStatus.FAILURE],
            updated_after=datetime.now(UTC) - _UNFINISHED_FOR,
        ),
        limit=500,
    )
    pairs = {(run.tags.get(TENANT_TAG, ""), run.tags.get(PROFILE_TAG, "")) for run in failed}
    return [
        PendingWork(tenant, profile, "unfinished", "the last run failed")
        for tenant, profile in sorted(pairs)
        if _last_status(instance, tenant, profile) == dg.DagsterRunStatus.FAILURE
    ]


def _last_status(instance: dg.DagsterInstance, tenant: str, profile: str) -> dg.DagsterRunStatus | None:
    runs = instance.get_runs(dg.RunsFilter(job_name=PAIR_JOB, tags={TENANT_TAG: tenant, PROFILE_TAG: profile}), limit=1)
    return runs[0].status if runs else None
