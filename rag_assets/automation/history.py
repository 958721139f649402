"""What Dagster's run storage says about work: tried before, under way, ended."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import dagster as dg
from dagster._core.storage.dagster_run import NOT_FINISHED_STATUSES

from rag_assets.automation.jobs import PAIR_JOB, SOURCES_JOB
from rag_assets.automation.work import SLOW_RUN_S, Attempt, Busy, Outcome
from rag_assets.partitions import PROFILE_TAG, TENANT_TAG
from rag_assets.runs.lanes import LANE_TAG

WORK_TAG = "rag/work"
ORIGIN_TAG = "rag/origin"
COMMAND_LINE = "command line"
_HAND_OVER = timedelta(seconds=30)
_LEFT_WHEN_SLOW = frozenset({"quick", "outside", "retry"})
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
            record.end_time or _seconds(record.update_timestamp),
        )
        for record in records
    ]


def busy_now(instance: dg.DagsterInstance) -> Busy:
    """Tenants and pairs with a run that is queued or in progress."""
    tenants, pairs = set(), set()
    for run in instance.get_runs(dg.RunsFilter(statuses=NOT_FINISHED_STATUSES)):
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


@dataclass(frozen=True)
class Ended:
    """A run of ours that is over; `at` in seconds since the epoch. `profile` is None where it read sources."""

    run: dg.DagsterRun
    tenant: str
    profile: str | None
    at: float
    seconds: float

    @property
    def succeeded(self) -> bool:
        return self.run.status == dg.DagsterRunStatus.SUCCESS


def ended_runs(instance: dg.DagsterInstance, since: float, limit: int = 200) -> list[Ended]:
    """The runs of sources and pairs that ended after `since`, first those that ended first."""
    ended = []
    for job in (SOURCES_JOB, PAIR_JOB):
        records = instance.get_run_records(
            dg.RunsFilter(job_name=job, statuses=list(_OUTCOMES), updated_after=datetime.fromtimestamp(since, UTC)),
            order_by="update_timestamp",
            ascending=True,
            limit=limit,
        )
        for record in records:
            run = record.dagster_run
            at = record.end_time or _seconds(record.update_timestamp)
            tenant = run.tags.get(TENANT_TAG) or run.tags.get("dagster/partition", "")
            profile = run.tags.get(PROFILE_TAG) if job == PAIR_JOB else None
            if tenant and (job == SOURCES_JOB or profile):
                ended.append(Ended(run, tenant, profile, at, at - (record.start_time or at)))
    return sorted(ended, key=lambda one: one.at)[:limit]


def error_of(instance: dg.DagsterInstance, run: dg.DagsterRun) -> str:
    """Why a run failed, in one line: the error that its step raised, or what is said of the run as a whole."""
    if run.status == dg.DagsterRunStatus.CANCELED:
        return "the run was cancelled"
    for kind in (dg.DagsterEventType.STEP_FAILURE, dg.DagsterEventType.RUN_FAILURE):
        for entry in instance.all_logs(run.run_id, of_type=kind):
            event = entry.dagster_event
            data = event.event_specific_data if event else None
            error = getattr(data, "error", None)
            while error is not None and error.cause is not None:
                error = error.cause
            told = error.message if error is not None else event.message if event else None
            if told:
                return " ".join(told.split())
    return "the run failed before its first step"


def leave_lanes(instance: dg.DagsterInstance, now: float, most: int = 3) -> list[str]:
    """Move runs that have been at work for more than a minute to the lane of those with much to do, so that their
    places are free for others; at most `most` are in that lane. Returns their ids."""
    records = instance.get_run_records(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
    bulk = sum(record.dagster_run.tags.get(LANE_TAG) == "bulk" for record in records)
    moved: list[str] = []
    for record in sorted(records, key=lambda record: record.start_time or now):
        run = record.dagster_run
        slow = now - (record.start_time or now) > SLOW_RUN_S
        if slow and bulk + len(moved) < most and run.tags.get(LANE_TAG) in _LEFT_WHEN_SLOW:
            instance.add_run_tags(run.run_id, {LANE_TAG: "bulk"})
            moved.append(run.run_id)
    return moved


def _seconds(moment: datetime) -> float:
    return moment.replace(tzinfo=UTC).timestamp()
