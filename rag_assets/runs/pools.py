"""The pool that bounds how many runs embed at once, over all tenants.

Its limit is set on the instance: Dagster's default for pools ends every run on Postgres that meets a change of it.
"""

from __future__ import annotations

from contextlib import suppress

import dagster as dg
from sqlalchemy.exc import IntegrityError

from rag_assets.settings import load_settings

EMBEDDING_POOL = "embedding"
# More than go on at once beside each other (the lanes of dagster.yaml): a slot that a provider which does not answer
# holds is missing to all tenants, so that only who sets a number has a limit.
DEFAULT_SLOTS = 16
_FORMER_DEFAULT = 2


def prepare_pool(instance: dg.DagsterInstance) -> None:
    """Give the pool the slots that `RAG_EMBEDDING_POOL` says, else 16 unless somebody has given it others.

    Two were the default once, and are not taken for somebody's choice.

    Raises:
        UsageError: the variable is no number from 1 to 1000.
    """
    storage = instance.event_log_storage
    wanted = load_settings().embedding_pool
    if not storage.supports_global_concurrency_limits:
        return
    found = {limit.name: limit.limit for limit in storage.get_pool_limits()}.get(EMBEDDING_POOL)
    if found in (None, _FORMER_DEFAULT) or wanted not in (None, found):
        with suppress(IntegrityError):  # another process is setting it, for the first time as well
            storage.set_concurrency_slots(EMBEDDING_POOL, wanted or DEFAULT_SLOTS)


def free_slots_of_ended_runs(instance: dg.DagsterInstance) -> list[str]:
    """Take back the slots of runs that are over, or gone; returns their ids.

    A run that was killed or cancelled keeps its slots. The daemon takes them back after a while, as dagster.yaml
    says, but nobody does where only commands are run: the next one would wait for ever.
    """
    storage = instance.event_log_storage
    if not storage.supports_global_concurrency_limits:
        return []
    freed = []
    for run_id in sorted(storage.get_concurrency_run_ids()):
        run = instance.get_run_by_id(run_id)
        if run is None or run.is_finished:
            storage.free_concurrency_slots_for_run(run_id)
            freed.append(run_id)
    return freed
