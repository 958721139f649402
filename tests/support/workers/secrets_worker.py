"""The jobs of several tenants, one after the other in one process, with compute logs and all logging on.

Run as a script with bot, profile and tenants; RAG_HOME names the rest. Prints the jobs that failed.
"""

from __future__ import annotations

import json
import logging
import os
import sys

import dagster as dg

from rag_assets.automation.jobs import PAIR_JOB, SOURCES_JOB
from rag_assets.definitions import defs
from rag_assets.launch.instance import dagster_environment
from rag_assets.partitions import ensure_partitions, pair_key
from rag_assets.settings import load_settings

STEPS = {
    SOURCES_JOB: ("sources",),
    PAIR_JOB: ("chunks", "profile_embeddings", "knowledge_chunks", "gin_index", "hnsw_index"),
}


def main(bot: str, profile: str, *tenants: str) -> list[tuple[str, str]]:
    logging.basicConfig(level=logging.DEBUG)
    os.environ.update(dagster_environment(load_settings()))
    failed = []
    with dg.DagsterInstance.get() as instance:
        for tenant in tenants:
            ensure_partitions(instance, [tenant], [profile])
            for job, key in ((SOURCES_JOB, tenant), (PAIR_JOB, pair_key(tenant, profile))):
                done = defs.resolve_job_def(job).execute_in_process(
                    instance=instance,
                    partition_key=key,
                    run_config={
                        "ops": {step: {"config": {"bot": bot}} for step in STEPS[job]},
                        "loggers": {"console": {"config": {"log_level": "DEBUG"}}},
                    },
                    raise_on_error=False,
                )
                failed += [] if done.success else [(tenant, job)]
    return failed


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
