"""Notices batch jobs that have ended, and asks for the runs that publish what they made."""

# No `from __future__ import annotations`: Dagster reads the annotations of this file as objects.

import time
from collections import defaultdict
from collections.abc import Sequence

import dagster as dg

from rag_assets.automation.history import attempts_at, busy_now
from rag_assets.automation.jobs import ingest_pair
from rag_assets.automation.new_sources import request_of
from rag_assets.automation.work import PendingWork, digest, next_attempt
from rag_assets.errors import DatabaseUnavailable
from rag_assets.ingest.batch_api.collect import poll_jobs
from rag_assets.partitions import ensure_partitions
from rag_assets.resources import Postgres
from rag_assets.store.batch_jobs import BatchJob, tenants_with_open_jobs
from rag_assets.store.database import Database
from rag_assets.store.profiles import built_profiles

_POLL_S = 30.0  # of one tick, which may take 60 s


@dg.sensor(
    job=ingest_pair,
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Looks at the batch jobs of every tenant, and requests a run of the pair when one has ended.",
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
    works = _works(context, database, names)
    requests = _requests(context.instance, works)
    if requests:
        return dg.SensorResult(run_requests=requests)
    waiting = ", ".join(work.name for work in works)
    return dg.SkipReason(f"waiting for a run that is under way, or for their next try: {waiting}" if works else
                         f"no batch job has ended yet, of {len(names)} tenants")  # fmt: skip


def _works(context: dg.SensorEvaluationContext, database: Database, names: Sequence[str]) -> list[PendingWork]:
    """The pairs that have something to collect. A tenant that cannot be looked at does not stop the others."""
    began = time.monotonic()
    works = []
    for tenant in names:
        try:
            works += _of_tenant(database, tenant, poll_jobs(database, tenant, _POLL_S - (time.monotonic() - began)))
        except Exception as error:  # whatever is wrong with one tenant, the others are looked at
            context.log.warning(f"the batch jobs of tenant {tenant} could not be looked at: {error}")
    return works


def _of_tenant(database: Database, tenant: str, due: Sequence[BatchJob]) -> list[PendingWork]:
    with database.work(tenant) as connection:
        built = built_profiles(connection, tenant) if due else []
    ended = defaultdict(list)
    for job in due:
        for name in _collectors(job, {(one.profile.name, one.profile.model_key) for one in built}):
            ended[name].append(str(job.id))
    return [
        PendingWork(tenant, name, digest(jobs), f"{len(jobs)} batch jobs to collect")
        for name, jobs in sorted(ended.items())
    ]


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
        attempt = None if busy.blocks(work) else next_attempt(attempts_at(instance, key), time.time())
        if attempt is not None:
            ensure_partitions(instance, [work.tenant], [work.profile or ""])
            requests.append(request_of(work, key, attempt))
    return requests
