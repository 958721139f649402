"""Notices new, changed and deleted files, and asks for the runs that they need; nothing else."""

# No `from __future__ import annotations`: Dagster reads the annotations of this file as objects.

import time
import warnings
from collections.abc import Sequence

import dagster as dg

from rag_assets.automation.history import WORK_TAG, attempts_at, busy_now, unfinished_pairs
from rag_assets.automation.jobs import PAIR_JOB, SOURCES_JOB, ingest_pair, ingest_sources
from rag_assets.automation.pending import look_at
from rag_assets.automation.work import Busy, Look, PendingWork, SensorMemory, next_attempt, note, run_key, work_key
from rag_assets.errors import DatabaseUnavailable
from rag_assets.partitions import TENANT_TAG, missing_partitions, pair_key, profiles, tenants
from rag_assets.resources import Postgres
from rag_assets.runs.processes import report_dead_runs
from rag_assets.store.database import Database
from rag_assets.store.tenants import list_tenants

_NAMED = 10  # pieces of work that a skipped tick names


@dg.sensor(
    jobs=[ingest_sources, ingest_pair],
    minimum_interval_seconds=5,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Looks under the remembered roots of every tenant, and requests runs for what has changed.",
)
def new_sources(context: dg.SensorEvaluationContext, postgres: Postgres) -> dg.SensorResult | dg.SkipReason:
    now = time.time()
    instance = context.instance
    for run_id in report_dead_runs(instance, (SOURCES_JOB, PAIR_JOB)):
        context.log.warning(f"run {run_id} is marked as failed: its process is gone")
    try:
        database = postgres.database()
        names = list_tenants(database)
    except DatabaseUnavailable as error:
        return dg.SkipReason(f"the database is not available: {error}")
    memory = SensorMemory.load(context.cursor)
    found, failed = _look_at_all(context, database, names, memory, now)
    found.works += _unfinished(instance, found, names)
    memory = SensorMemory(seen=note(memory, found.works, failed, now), looked=found.looked)
    requests = _requests(instance, found.works, memory, now)
    skipped = f"nothing new under {found.roots} roots"
    if found.works:
        waiting = ", ".join(sorted(work.name for work in found.works)[:_NAMED])
        skipped = f"{len(found.works)} waiting for a run that is under way, or for their next try: {waiting}"
    if failed:
        skipped += f"; could not look at: {', '.join(failed)}"
    return dg.SensorResult(
        run_requests=requests,
        skip_reason=None if requests else dg.SkipReason(skipped),
        cursor=memory.model_dump_json(),
        dynamic_partitions_requests=_new_partitions(instance, names, {profile for _, profile in found.pairs}),
    )


def _unfinished(instance: dg.DagsterInstance, found: Look, names: Sequence[str]) -> list[PendingWork]:
    waiting = {work.name for work in found.works}
    return [
        work
        for work in unfinished_pairs(instance)
        if work.name not in waiting and work.tenant in names and (work.tenant, work.profile) in found.pairs
    ]


def _look_at_all(
    context: dg.SensorEvaluationContext, database: Database, names: Sequence[str], memory: SensorMemory, now: float
) -> tuple[Look, list[str]]:
    """What is waiting for all tenants together, and the tenants that could not be looked at.

    Raises the last error if no tenant could be looked at.
    """
    total, failed = Look(), []
    last: Exception | None = None
    for tenant in names:
        try:
            look = look_at(database, tenant, memory.looked, now)
        except Exception as error:  # whatever is wrong with one tenant, the others are looked at
            context.log.warning(f"tenant {tenant} could not be looked at: {error}")
            failed.append(tenant)
            last = error
            continue
        for warning in look.warnings:
            context.log.warning(warning)
        total.works += look.works
        total.roots += look.roots
        total.pairs |= look.pairs
        total.looked |= look.looked
    if last is not None and len(failed) == len(names):
        raise last
    return total, failed


def _requests(
    instance: dg.DagsterInstance, works: Sequence[PendingWork], memory: SensorMemory, now: float
) -> list[dg.RunRequest]:
    if not works:
        return []
    busy = busy_now(instance)
    requests = []
    # Sources first: a tenant whose files are about to be read again has its pairs built after that.
    for work in sorted(works, key=lambda work: (work.profile is not None, work.name)):
        if busy.blocks(work):
            continue
        key = work_key(work, memory.seen)
        attempt = next_attempt(attempts_at(instance, key), now)
        if attempt is None:
            continue
        requests.append(request_of(work, key, attempt))
        if work.profile is None:
            busy = Busy(busy.tenants | {work.tenant}, busy.pairs, busy.handed_over)
    return requests


def request_of(work: PendingWork, key: str, attempt: int) -> dg.RunRequest:
    """The run that one attempt at a piece of work asks for."""
    with warnings.catch_warnings():
        # Dagster puts this tag on runs of pairs itself, and warns where anybody else does.
        warnings.filterwarnings("ignore", message="Non-compliant tag keys")
        return dg.RunRequest(
            job_name=PAIR_JOB if work.profile else SOURCES_JOB,
            run_key=run_key(key, attempt),
            partition_key=pair_key(work.tenant, work.profile) if work.profile else work.tenant,
            # One rule of the run queue keeps all runs of a tenant apart, so sources carry its tag too.
            tags={TENANT_TAG: work.tenant, WORK_TAG: key, "rag/reason": work.reason},
        )


def _new_partitions(
    instance: dg.DagsterInstance, names: Sequence[str], profile_names: set[str]
) -> list[dg.AddDynamicPartitionsRequest]:
    new_tenants, new_profiles = missing_partitions(instance, names, profile_names)
    requests = []
    if new_tenants:
        requests.append(tenants.build_add_request(new_tenants))
    if new_profiles:
        requests.append(profiles.build_add_request(new_profiles))
    return requests
