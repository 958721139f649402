"""How the replica stands to its primary, for `GET /ready` and `GET /metrics`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from opentelemetry.metrics import CallbackOptions, Observation

from rag_assets.errors import RagError
from rag_assets.observing.started import Telemetry
from rag_assets.store.database import Database
from rag_assets.store.replica import Replication, replication

_ANSWER_S = 2.0


class ReplicaWatch:
    """Asks when somebody wants to know; without a replica there is nothing to tell."""

    def __init__(self, database: Database, telemetry: Telemetry | None) -> None:
        self._database = database
        self._is_measured = telemetry is not None and database.search_url is not None
        self._seen: Replication | None = None  # None where the replica gave no answer
        if telemetry is not None and self._is_measured:
            meter = telemetry.meters.get_meter("rag_assets.doors.http")
            about = "Whether a database answers"
            meter.create_observable_gauge("rag.database.available", [self._available], "1", about)
            about = "How far the replica is behind its primary"
            meter.create_observable_gauge("rag.replica.lag", [self._lag], "s", about)

    async def told(self) -> dict[str, Any]:
        """The fields of `Ready` beside the status.

        Raises:
            DatabaseUnavailable, DatabaseRefused, DatabaseFailed: the replica does not answer as it should.
        """
        found = self._seen = await replication(self._database)
        if found is None:
            return {}
        return {
            "primary": "ok" if found.primary_answers else "unavailable",
            "replica": "ok" if found.is_replica else "promoted",
            "replica_lag_s": found.lag_s,
        }

    async def measure(self) -> None:
        """Bring the gauges up to date, in two seconds or not at all."""
        if not self._is_measured:
            return
        try:
            async with asyncio.timeout(_ANSWER_S):
                await self.told()
        except (TimeoutError, RagError):
            self._seen = None

    def _available(self, _: CallbackOptions) -> Iterator[Observation]:
        yield Observation(int(self._seen is not None), {"rag.database": "replica"})
        if self._seen is not None:
            yield Observation(int(self._seen.primary_answers), {"rag.database": "primary"})

    def _lag(self, _: CallbackOptions) -> Iterator[Observation]:
        if self._seen is not None and self._seen.lag_s is not None:
            yield Observation(self._seen.lag_s)
