"""Notices new, changed and deleted files, and asks for the runs that they need; nothing else."""

# No `from __future__ import annotations`: Dagster reads the annotations of this file as objects.

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial

import dagster as dg

from rag_assets.automation.history import WORK_TAG, attempts_at, busy_now, leave_lanes
from rag_assets.automation.jobs import PAIR_JOB, SOURCES_JOB, ingest_pair, ingest_sources, run_request
from rag_assets.automation.looks import Looks
from rag_assets.automation.outcomes import note_ends
from rag_assets.automation.pending import look_at
from rag_assets.automation.work import (
    Busy,
    Look,
    PendingWork,
    SensorMemory,
    in_lane,
    next_attempt,
    next_try,
    note,
    retry_key,
    rotated,
    run_key,
    work_key,
)
from rag_assets.errors import DatabaseUnavailable
from rag_assets.partitions import TENANT_TAG, missing_partitions, pair_key, profiles, tenants
from rag_assets.printing import counted
from rag_assets.resources import Postgres
from rag_assets.runs.lanes import AFTER_TAG, LANE_TAG, longest_s
from rag_assets.runs.processes import report_dead_runs
from rag_assets.store.attempts import record_success
from rag_assets.store.database import Database
from rag_assets.store.tenants import list_tenants

_NAMED = 10  # pieces of work, or tenants, that a tick names
_BUDGET_S = 5.0  # of one tick; Dagster ends one after 60 s
_WAIT_S = 1.0  # for one tenant
_looks = Looks()


@dg.sensor(
    jobs=[ingest_sources, ingest_pair],
    minimum_interval_seconds=5,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Looks under the remembered roots of every tenant, and requests runs for what has changed.",
)
def new_sources(context: dg.SensorEvaluationContext, postgres: Postgres) -> dg.SensorResult | dg.SkipReason:
    now, instance = time.time(), context.instance
    for run_id in report_dead_runs(instance, (SOURCES_JOB, PAIR_JOB)):
        context.log.warning(f"run {run_id} is marked as failed: its process is gone")
    leave_lanes(instance, now)
    memory = SensorMemory.load(context.cursor)
    try:
        database = postgres.database()
        names = list_tenants(database)
        observations = note_ends(instance, database, names, memory, now)
    except DatabaseUnavailable as error:
        return dg.SkipReason(f"the database is not available: {error}")
    for observation in observations:  # each failure once
        context.log.warning(f"{observation.partition}: {observation.description}")
    tick = _look_at_all(context, database, names, memory)
    memory.seen = note(memory, tick.found.works, set(names) - tick.looked, now)
    requests, waiting = _requests(instance, tick.found.works, memory, now)
    return dg.SensorResult(
        run_requests=requests,
        skip_reason=None if requests else dg.SkipReason(_told(tick, waiting)),
        cursor=memory.model_dump_json(),
        dynamic_partitions_requests=_new_partitions(instance, names, {profile for _, profile in tick.found.pairs}),
        asset_events=observations,
    )


@dataclass
class _Tick:
    """What one tick has seen: of the tenants `looked` at together, and who could not be looked at."""

    found: Look = field(default_factory=Look)
    looked: set[str] = field(default_factory=set)
    failed: list[str] = field(default_factory=list)
    slow: list[str] = field(default_factory=list)
    left: int = 0  # tenants that the next tick begins with


def _look_at_all(
    context: dg.SensorEvaluationContext, database: Database, names: Sequence[str], memory: SensorMemory
) -> _Tick:
    """Look at one tenant after the other, from where the last tick ended, for some seconds.

    Raises the last error if no tenant could be looked at.
    """
    tick, until = _Tick(), time.monotonic() + _BUDGET_S
    order = rotated(names, memory.resume)
    memory.resume = ""
    last: Exception | None = None
    for number, tenant in enumerate(order):
        left = until - time.monotonic()
        if left <= 0 and number:
            memory.resume, tick.left = tenant, len(order) - number
            break
        try:
            look = _looks.look(database.url, tenant, partial(look_at, database, tenant), min(_WAIT_S, left))
        except Exception as error:  # whatever is wrong with one tenant, the others are looked at
            context.log.warning(f"tenant {tenant} could not be looked at: {error}")
            tick.failed.append(tenant)
            last = error
            continue
        going_on = _looks.going_on(database.url, tenant)
        if going_on is not None and going_on > _WAIT_S:
            tick.slow.append(f"{tenant} (for {going_on:.0f} s)")
        if look is not None:
            _add(context, database, tick, tenant, look, memory)
    if last is not None and len(tick.failed) == len(names):
        raise last
    return tick


def _add(
    context: dg.SensorEvaluationContext,
    database: Database,
    tick: _Tick,
    tenant: str,
    look: Look,
    memory: SensorMemory,
) -> None:
    tick.looked.add(tenant)
    for warning in look.warnings:
        context.log.warning(warning)
    tick.found.works += _with_failures(database, tenant, look, memory)
    tick.found.roots += look.roots
    tick.found.pairs |= look.pairs


def _with_failures(database: Database, tenant: str, look: Look, memory: SensorMemory) -> list[PendingWork]:
    """The tenant's work with how it failed before; and what has failed with nothing else waiting.

    What a failed run of a pair published is served, but an index may be missing. Sources that nobody waits for, and
    pairs that are not enabled any more, have nothing left to be done.
    """
    failed = {one.profile: one for one in look.failed}
    works = [replace(work, failed=failed.pop(work.profile, None)) for work in look.works]
    for profile, one in failed.items():
        if profile is not None and (tenant, profile) in look.pairs:
            works.append(PendingWork(tenant, profile, "unfinished", "the last run failed", failed=one))
        else:
            with database.work(tenant) as connection:
                record_success(connection, tenant, profile, datetime.fromtimestamp(look.began, UTC))
    return [in_lane(work, memory.slow) for work in works]


def _requests(
    instance: dg.DagsterInstance, works: Sequence[PendingWork], memory: SensorMemory, now: float
) -> tuple[list[dg.RunRequest], list[str]]:
    """The runs to ask for now, and what waits, each with why and until when."""
    if not works:
        return [], []
    busy = busy_now(instance)
    requests, waiting = [], []
    for work in sorted(works, key=lambda work: work.order):
        if busy.blocks(work):
            waiting.append(f"{work.name}: waiting for a run that is under way")
            continue
        key = work_key(work, memory.seen)
        name = due_key(instance, work, key, now)
        if name is None:
            waiting.append(f"{work.name}: {work.failed or 'its last run left it undone; next try within the hour'}")
            continue
        requests.append(request_of(work, key, name))
        if work.profile is None:
            busy = Busy(busy.tenants | {work.tenant}, busy.pairs, busy.handed_over)
    return requests, waiting


def due_key(instance: dg.DagsterInstance, work: PendingWork, key: str, now: float) -> str | None:
    """The run key of the attempt at a piece of work that is due now, or None to wait."""
    if work.failed is not None:
        return retry_key(key, work.failed) if now >= next_try(work.failed, key) else None
    attempt = next_attempt(attempts_at(instance, key), now)
    return None if attempt is None else run_key(key, attempt)


def request_of(work: PendingWork, key: str, name: str) -> dg.RunRequest:
    """The run that one attempt at a piece of work asks for; `name` is its run key."""
    return run_request(
        job_name=PAIR_JOB if work.profile else SOURCES_JOB,
        run_key=name,
        partition_key=pair_key(work.tenant, work.profile) if work.profile else work.tenant,
        tags={
            TENANT_TAG: work.tenant,
            WORK_TAG: key,
            LANE_TAG: work.lane,
            AFTER_TAG: work.after,
            "dagster/priority": str(work.priority),
            "dagster/max_runtime": str(longest_s(work.lane)),
            "rag/reason": work.reason[:200],
        },
    )


def _told(tick: _Tick, waiting: Sequence[str]) -> str:
    parts = []
    if waiting:
        more = f" and {len(waiting) - _NAMED} more" if len(waiting) > _NAMED else ""
        parts.append(f"{len(waiting)} waiting: {'; '.join(sorted(waiting)[:_NAMED])}{more}")
    else:
        parts.append(f"nothing new under {counted(tick.found.roots, 'root')}")
    if tick.failed:
        parts.append(f"could not look at: {', '.join(tick.failed[:_NAMED])}")
    if tick.slow:
        parts.append(f"still looking at: {', '.join(tick.slow[:_NAMED])}")
    if tick.left:
        parts.append(f"{counted(tick.left, 'tenant is', 'tenants are')} looked at by the next ticks")
    return "; ".join(parts)


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
