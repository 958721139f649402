"""Every night: measures what serves, so that somebody is told when it got worse, and purges the query log."""

# No `from __future__ import annotations`: Dagster reads the annotations of this file as objects.

import dagster as dg

from rag_assets.automation.jobs import EVAL_JOB, eval_gate, purge_query_log, run_request
from rag_assets.errors import DatabaseUnavailable
from rag_assets.partitions import TENANT_TAG, ensure_partitions, pair_key
from rag_assets.resources import Postgres
from rag_assets.runs.lanes import LANE_TAG, longest_s
from rag_assets.store.evals import pairs_to_evaluate


@dg.schedule(
    job=eval_gate,
    cron_schedule="0 3 * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Measures the active profile of every tenant that has labelled queries; its check tells a fall.",
)
def nightly_eval(context: dg.ScheduleEvaluationContext, postgres: Postgres) -> list[dg.RunRequest] | dg.SkipReason:
    try:
        pairs = pairs_to_evaluate(postgres.database())
    except DatabaseUnavailable as error:
        return dg.SkipReason(f"the database is not available: {error}")
    if not pairs:
        return dg.SkipReason("no bot has both an active profile and labelled queries")
    ensure_partitions(context.instance, {tenant for tenant, _ in pairs}, {profile for _, profile in pairs})
    day = context.scheduled_execution_time.strftime("%Y-%m-%d")
    return [_request(tenant, profile, day) for tenant, profile in pairs]


purge_nightly = dg.ScheduleDefinition(
    name="purge_nightly",
    job=purge_query_log,
    cron_schedule="30 3 * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Deletes what is older than the query log is kept.",
)


def _request(tenant: str, profile: str, day: str) -> dg.RunRequest:
    return run_request(
        job_name=EVAL_JOB,
        run_key=f"nightly:{tenant}:{profile}:{day}",
        partition_key=pair_key(tenant, profile),
        tags={
            TENANT_TAG: tenant,
            LANE_TAG: "evals",
            "dagster/max_runtime": str(longest_s("evals")),
            "rag/reason": "nightly",
        },
    )
