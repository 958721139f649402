"""Dagster's storage in Postgres over connections that are kept.

Dagster opens a connection for each statement, and asks the catalogue for its tables before many: a changed file took
360 connections and 510 statements in its two runs, most of the time that it waited for.
"""

from __future__ import annotations

import select
import time
from collections.abc import Mapping
from typing import Any, Self

import sqlalchemy as sa
from dagster._core.storage.base_storage import DagsterStorage
from dagster._serdes import ConfigurableClassData
from dagster_postgres.event_log import PostgresEventLogStorage
from dagster_postgres.run_storage import PostgresRunStorage
from dagster_postgres.schedule_storage import PostgresScheduleStorage
from dagster_postgres.storage import DagsterPostgresStorage
from dagster_postgres.utils import pg_url_from_config, retry_pg_connection_fn

# How dagster.yaml and an instance's overrides name it.
STORAGE = {"module": "rag_assets.runs.storage", "class": "KeptPostgresStorage"}
_KEPT, _MORE = 2, 30  # connections of one process
_REMEMBER_S, _MOST_REMEMBERED = 5.0, 10_000


class KeptPostgresStorage(DagsterPostgresStorage):
    """Dagster's storage of runs, events and schedules in one database, which share the connections of their process.

    A connection that the server has closed meanwhile is replaced, so that a server that was started anew is no error.
    """

    def __init__(
        self, postgres_url: str, should_autocreate_tables: bool = True, inst_data: ConfigurableClassData | None = None
    ) -> None:
        self.postgres_url = postgres_url
        self._inst_data = inst_data
        engine = sa.create_engine(postgres_url, isolation_level="AUTOCOMMIT", pool_size=_KEPT, max_overflow=_MORE)
        sa.event.listen(engine, "checkout", _require_open)
        # Each of the three would look for its tables over a connection of its own.
        self.should_autocreate_tables = should_autocreate_tables and not _is_complete(engine)
        create = self.should_autocreate_tables
        self._run_storage = _Runs(postgres_url, create)
        self._event_log_storage = _EventLogs(postgres_url, create)
        self._schedule_storage = PostgresScheduleStorage(postgres_url, create)
        for storage in (self._run_storage, self._event_log_storage, self._schedule_storage):
            storage._engine = engine
        DagsterStorage.__init__(self)  # type: ignore[arg-type, no-untyped-call]

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]) -> Self:
        return cls(
            pg_url_from_config(config_value),
            config_value.get("should_autocreate_tables", True),
            inst_data,
        )


def _is_complete(engine: sa.Engine) -> bool:
    """Whether the tables are there; the last that are made, of each of the three storages."""

    def ask() -> bool:
        with engine.connect() as connection:
            return bool(
                connection.execute(
                    sa.text("SELECT to_regclass('instance_info') IS NOT NULL AND to_regclass('event_logs') IS NOT NULL "
                            "AND to_regclass('jobs') IS NOT NULL")
                ).scalar()
            )  # fmt: skip

    return retry_pg_connection_fn(ask)


def _require_open(connection: Any, *_: object) -> None:
    """Have the pool open another connection where the server has ended this one: it has said so, and nothing else is
    said on a connection that is idle. To ask it each time was an eighth of what a run costs."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    if poll.poll(0):
        raise sa.exc.DisconnectionError


class _Runs(PostgresRunStorage):
    """What columns there are is asked once: they come by migrations, and never go."""

    def __init__(self, postgres_url: str, should_autocreate_tables: bool) -> None:
        self._has_stats = False
        super().__init__(postgres_url, should_autocreate_tables)

    def has_run_stats_index_cols(self) -> bool:
        self._has_stats = self._has_stats or super().has_run_stats_index_cols()
        return self._has_stats


class _EventLogs(PostgresEventLogStorage):
    """What tables and columns there are is asked once: they come by migrations, and never go."""

    _engine: sa.Engine

    def __init__(self, postgres_url: str, should_autocreate_tables: bool) -> None:
        self._seen: set[tuple[str, str]] = set()
        self._partitions: dict[tuple[str, str], float] = {}
        super().__init__(postgres_url, should_autocreate_tables)

    def has_table(self, table_name: str) -> bool:
        return self._is_there("table", table_name, lambda: super(_EventLogs, self).has_table(table_name))

    def _has_asset_key_col_on_connection(self, conn: sa.Connection, column_name: str) -> bool:
        before = super()._has_asset_key_col_on_connection
        return self._is_there("asset_keys", column_name, lambda: before(conn, column_name))

    def has_dynamic_partition(self, partitions_def_name: str, partition_key: str) -> bool:
        """A run asks for its own some thirty times; one that is deleted is known a little longer."""
        key, now = (partitions_def_name, partition_key), time.monotonic()
        if now - self._partitions.get(key, -_REMEMBER_S) < _REMEMBER_S:
            return True
        if len(self._partitions) >= _MOST_REMEMBERED:
            self._partitions.clear()
        if found := super().has_dynamic_partition(partitions_def_name, partition_key):
            self._partitions[key] = now
        return found

    def delete_dynamic_partition(self, partitions_def_name: str, partition_key: str) -> None:
        super().delete_dynamic_partition(partitions_def_name, partition_key)
        self._partitions.pop((partitions_def_name, partition_key), None)

    def _is_there(self, kind: str, name: str, ask: Any) -> bool:
        if (kind, name) not in self._seen and ask():
            self._seen.add((kind, name))
        return (kind, name) in self._seen

    def dispose(self) -> None:
        super().dispose()
        self._engine.dispose()
