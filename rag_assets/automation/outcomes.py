"""What the ends of runs say about work: what has failed is written down, what has succeeded is forgotten."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from datetime import UTC, datetime

import dagster as dg

from rag_assets.automation.history import WORK_TAG, Ended, ended_runs, error_of
from rag_assets.automation.work import SLOW_RUN_S, SensorMemory
from rag_assets.printing import counted
from rag_assets.store.attempts import record_failure, record_success
from rag_assets.store.database import Connection, Database

_AT_FIRST_S = 24 * 3600.0  # how far a sensor without memory looks back
_OVERLAP_S = 30.0  # a run may be seen a little later than its time says


def note_ends(
    instance: dg.DagsterInstance, database: Database, names: Collection[str], memory: SensorMemory, now: float
) -> list[dg.AssetObservation]:
    """Write down how the runs ended that have ended since the last tick, and remember in `memory` that it was done.

    Returns an observation of the asset for each new failure: attempts, the error, and the next try.
    """
    since = memory.noted - _OVERLAP_S if memory.noted else now - _AT_FIRST_S
    ended = [one for one in ended_runs(instance, since) if one.run.run_id not in memory.noted_runs]
    by_tenant: dict[str, list[Ended]] = defaultdict(list)
    for one in ended:
        _note_speed(memory, one)
        if one.tenant in names:
            by_tenant[one.tenant].append(one)
    observations = []
    for tenant, mine in by_tenant.items():
        errors = {one.run.run_id: error_of(instance, one.run) for one in mine if not one.succeeded}
        with database.work(tenant) as connection:
            for one in mine:
                observations += _note(connection, one, errors.get(one.run.run_id))
    memory.noted = max([memory.noted, *(one.at for one in ended)]) or now
    memory.noted_runs |= {one.run.run_id: one.at for one in ended}
    memory.noted_runs = {run: at for run, at in memory.noted_runs.items() if at > memory.noted - 2 * _OVERLAP_S}
    return observations


def _note(connection: Connection, one: Ended, error: str | None) -> list[dg.AssetObservation]:
    at = datetime.fromtimestamp(one.at, UTC)
    if error is None:
        record_success(connection, one.tenant, one.profile, at)
        return []
    attempts = record_failure(
        connection,
        one.tenant,
        one.profile,
        error=error,
        at=at,
        run_id=one.run.run_id,
        work=one.run.tags.get(WORK_TAG, ""),
    )
    if attempts is None:
        return []
    return [
        dg.AssetObservation(
            "knowledge_chunks" if one.profile else "sources",
            partition=one.run.tags.get("dagster/partition"),
            description=f"failed {counted(attempts, 'time')} in a row: {error}",
            metadata={"failed_attempts": attempts, "last_error": error, "last_run": one.run.run_id},
        )
    ]


def _note_speed(memory: SensorMemory, one: Ended) -> None:
    name = f"pair:{one.tenant}:{one.profile}" if one.profile else f"sources:{one.tenant}"
    memory.slow.pop(name, None)
    if one.seconds > SLOW_RUN_S:
        memory.slow[name] = round(one.seconds, 1)
