"""Take a tenant out of Dagster's storage, whose metadata holds previews of chunks and names of files."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import dagster as dg
import sqlalchemy as sa
from dagster._core.storage.event_log.schema import (
    AssetCheckExecutionsTable,
    AssetKeyTable,
    SqlEventLogStorageTable,
)
from dagster._core.storage.event_log.sql_event_log import SqlEventLogStorage
from dagster._core.storage.tags import PARTITION_NAME_TAG
from dagster._serdes import serialize_value

from rag_assets.partitions import TENANT_TAG

_BATCH = 200


def purge_tenant(
    instance: dg.DagsterInstance, tenant: str, home: Path | None = None, *, keep_partition: bool = False
) -> dict[str, int]:
    """Delete the tenant's runs with their events, check results and logs, and its partition.

    `home` is DAGSTER_HOME, where logs lie. `keep_partition` is for a tenant that stays and whose one bot
    goes: runs are made for a tenant, so all of their records go.

    Returns:
        Counts of `runs`, `logs` (folders) and `partitions` removed.
    """
    counts = {"runs": 0, "logs": 0, "partitions": 0}
    while runs := _runs_of(instance, tenant):
        ids = [run.run_id for run in runs]
        for run_id in ids:
            instance.delete_run(run_id)
            counts["logs"] += _remove_logs(home, run_id)
        _forget_checks(instance, ids)
        counts["runs"] += len(ids)
    _forget_last_materializations(instance)
    if not keep_partition and instance.has_dynamic_partition("tenant", tenant):
        instance.delete_dynamic_partition("tenant", tenant)
        counts["partitions"] = 1
    return counts


def _runs_of(instance: dg.DagsterInstance, tenant: str) -> list[dg.DagsterRun]:
    runs = instance.get_runs(dg.RunsFilter(tags={TENANT_TAG: tenant}), limit=_BATCH)
    # A run of `sources` that was started in the UI has no tag but its partition.
    return [*runs] or [*instance.get_runs(dg.RunsFilter(tags={PARTITION_NAME_TAG: tenant}), limit=_BATCH)]


def _remove_logs(home: Path | None, run_id: str) -> int:
    folder = home / "storage" / run_id if home else None
    if folder is None or not folder.is_dir():
        return 0
    shutil.rmtree(folder, ignore_errors=True)
    return 1


def _storage(instance: dg.DagsterInstance) -> SqlEventLogStorage | None:
    storage = instance.event_log_storage
    return storage if isinstance(storage, SqlEventLogStorage) else None


def _forget_checks(instance: dg.DagsterInstance, run_ids: Sequence[str]) -> None:
    """Deleting a run leaves its check results, and their metadata names files."""
    storage = _storage(instance)
    if storage is None:
        return
    table = AssetCheckExecutionsTable
    with storage.index_connection() as connection:
        connection.execute(table.delete().where(table.c.run_id.in_(run_ids)))


def _forget_last_materializations(instance: dg.DagsterInstance) -> None:
    """Each asset keeps a copy of its newest materialization, whose run may be one of those deleted."""
    storage = _storage(instance)
    if storage is None:
        return
    keys, events = AssetKeyTable, SqlEventLogStorageTable
    with storage.index_connection() as connection:
        rows = connection.execute(
            sa.select(keys.c.asset_key)
            .where(keys.c.last_run_id.isnot(None))
            .where(~sa.exists().where(events.c.run_id == keys.c.last_run_id))
        ).fetchall()
    for (text,) in rows:
        key = dg.AssetKey.from_db_string(text)
        newest = instance.fetch_materializations(key, limit=1).records if key else []
        values = {
            "last_materialization": serialize_value(newest[0]) if newest else None,
            "last_run_id": newest[0].run_id if newest else None,
            "cached_status_data": None,
        }
        with storage.index_connection() as connection:
            connection.execute(keys.update().where(keys.c.asset_key == text).values(**values))
