"""Has batch jobs looked at while they are open, and asks for the runs that publish what they made."""

# No `from __future__ import annotations`: Dagster reads the annotations of this file as objects.

import time
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime

import dagster as dg
from dagster._core.storage.dagster_run import NOT_FINISHED_STATUSES
from pydantic import TypeAdapter, ValidationError

from rag_assets.automation.history import busy_now
from rag_assets.automation.jobs import ingest_pair, run_request
from rag_assets.automation.new_sources import due_key, request_of
from rag_assets.automation.work import PendingWork, digest, in_lane
from rag_assets.errors import DatabaseUnavailable
from rag_assets.ingest.batch_api.collect import open_jobs, poll_jobs, settled_jobs
from rag_assets.partitions import TENANT_TAG, ensure_partitions, tenants
from rag_assets.printing import counted
from rag_assets.resources import Postgres
from rag_assets.runs.lanes import AFTER_TAG, LANE_TAG, longest_s
from rag_assets.store.attempts import failed_work
from rag_assets.store.batch_jobs import BatchJob, tenants_with_open_jobs
from rag_assets.store.database import Database
from rag_assets.store.profiles import built_profiles

WATCH_JOB = "watch_batches"
_POLL_S = 300.0  # for all jobs of a tenant
# A job is looked at each time it has grown older by a tenth, but within these bounds.
_SOONEST_S, _LATEST_S = 60.0, 900.0
_asked = TypeAdapter(dict[str, float])


@dg.op(description="Asks the providers of one tenant how its batch jobs are, and notes what they say.")
def look_at_batches(context: dg.OpExecutionContext, postgres: Postgres) -> None:
    settled = poll_jobs(postgres.database(), context.partition_key, _POLL_S)
    context.log.info(f"batch jobs of {context.partition_key} that have ended: {len(settled)}")


@dg.job(
    name=WATCH_JOB,
    partitions_def=tenants,
    executor_def=dg.in_process_executor,
    description="Looks at the open batch jobs of one tenant. What has ended is collected by a run of its pair.",
)
def watch_batches() -> None:
    look_at_batches()


@dg.sensor(
    jobs=[ingest_pair, watch_batches],
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Has open batch jobs looked at, and requests a run of the pair when one has ended.",
)
def embedding_batches(context: dg.SensorEvaluationContext, postgres: Postgres) -> dg.SensorResult | dg.SkipReason:
    try:
        database = postgres.database()
        with database.work() as connection:
            names = tenants_with_open_jobs(connection)
    except DatabaseUnavailable as error:
        return dg.SkipReason(f"the database is not available: {error}")
    if not names:
        return dg.SkipReason("no batch job is open")
    works, due = [], []
    asked = {name: at for name, at in _asked_before(context.cursor).items() if name in names}
    for tenant in names:
        try:
            works += _of_tenant(database, tenant, settled_jobs(database, tenant))
            if _is_due(open_jobs(database, tenant), asked.get(tenant, 0.0)):
                due.append(tenant)
        except Exception as error:  # whatever is wrong with one tenant, the others are looked at
            context.log.warning(f"the batch jobs of tenant {tenant} could not be looked at: {error}")
    requests = [*_requests(context.instance, works), *_watches(context.instance, due, asked)]
    waiting = ", ".join(work.name for work in works)
    skipped = (f"waiting for a run that is under way, or for their next try: {waiting}" if works else
               f"no batch job has ended yet, of {counted(len(names), 'tenant')}")  # fmt: skip
    return dg.SensorResult(
        run_requests=requests,
        skip_reason=None if requests else dg.SkipReason(skipped),
        cursor=_asked.dump_json(asked).decode(),
    )


def _asked_before(cursor: str | None) -> dict[str, float]:
    """When each tenant's jobs were last asked for; an unreadable cursor costs no more than a run."""
    try:
        return _asked.validate_json(cursor or "{}")
    except ValidationError:
        return {}


def _is_due(jobs: Sequence[BatchJob], asked: float) -> bool:
    """Whether the youngest of the jobs has grown older enough since they were looked at."""
    if not jobs:
        return False
    age = min((datetime.now(UTC) - job.created_at).total_seconds() for job in jobs)
    return time.time() - asked >= min(_LATEST_S, max(_SOONEST_S, age / 10))


def _watches(instance: dg.DagsterInstance, due: Sequence[str], asked: dict[str, float]) -> list[dg.RunRequest]:
    """A run for each tenant whose jobs are due to be looked at, and notes in `asked` that it was asked for."""
    if not due:
        return []
    ensure_partitions(instance, due, [])
    under_way = instance.get_runs(dg.RunsFilter(job_name=WATCH_JOB, statuses=NOT_FINISHED_STATUSES))
    busy = {run.tags.get(TENANT_TAG) for run in under_way}
    requests = []
    for tenant in due:
        if tenant in busy:
            continue
        asked[tenant] = round(time.time(), 1)
        requests.append(
            run_request(
                job_name=WATCH_JOB,
                run_key=f"watch:{tenant}:{asked[tenant]}",
                partition_key=tenant,
                tags={
                    TENANT_TAG: tenant,
                    LANE_TAG: "outside",
                    AFTER_TAG: f"{tenant}/batches",
                    "dagster/max_runtime": str(longest_s("outside")),
                },
            )
        )
    return requests


def _of_tenant(database: Database, tenant: str, due: Sequence[BatchJob]) -> list[PendingWork]:
    """The pairs that have something to collect."""
    with database.work(tenant) as connection:
        built = built_profiles(connection, tenant) if due else []
        failed = {one.profile: one for one in failed_work(connection, tenant)} if due else {}
    ended = defaultdict(list)
    for job in due:
        for name in _collectors(job, {(one.profile.name, one.profile.model_key) for one in built}):
            ended[name].append(str(job.id))
    works = [
        PendingWork(
            tenant,
            name,
            digest(jobs),
            f"{counted(len(jobs), 'batch job')} to collect",
            "outside",
            failed=failed.get(name),
        )
        for name, jobs in sorted(ended.items())
    ]
    return [in_lane(work, {}) for work in works]


def _collectors(job: BatchJob, enabled: set[tuple[str, str]]) -> list[str]:
    """The profile whose run is to collect a job: its own, or if that is retired one of the same model, if any."""
    able = sorted((name != job.profile, name) for name, model_key in enabled if model_key == job.model_key)
    return [name for _, name in able[:1]]


def _requests(instance: dg.DagsterInstance, works: Sequence[PendingWork]) -> list[dg.RunRequest]:
    if not works:
        return []
    busy = busy_now(instance)
    requests = []
    for work in works:
        # Jobs never come back, so their ids name the work: no time is needed to tell two appearances apart.
        key = f"batches:{work.tenant}:{work.profile}:{work.digest[:16]}"
        if busy.blocks(work):
            continue
        ensure_partitions(instance, [work.tenant], [work.profile or ""])
        name = due_key(instance, work, key, time.time())
        if name is not None:
            requests.append(request_of(work, key, name))
    return requests
