"""What happens while `rag dev` runs, in a line each: runs that start and end."""

from __future__ import annotations

from datetime import UTC, datetime

import dagster as dg

from rag_assets.automation.jobs import SOURCES_JOB
from rag_assets.partitions import PROFILE_TAG, TENANT_TAG
from rag_assets.printing import duration

_TOLD = {
    dg.DagsterRunStatus.STARTED: "started",
    dg.DagsterRunStatus.SUCCESS: "done",
    dg.DagsterRunStatus.FAILURE: "failed",
    dg.DagsterRunStatus.CANCELED: "cancelled",
}
_COUNTS = {"ready": "new or changed", "deleted": "deleted", "failed": "failed"}
_AT_ONCE = 100  # runs that one look takes in


class Activity:
    """Reads the runs that have changed since the last look, or since it was made."""

    def __init__(self, instance: dg.DagsterInstance, address: str) -> None:
        """`address` is where a person opens the UI."""
        self._instance, self._address = instance, address
        self._since = datetime.now(UTC)
        self._told: dict[str, dg.DagsterRunStatus] = {}

    def news(self) -> list[str]:
        """A line for each run that has started or ended since the last look."""
        records = self._instance.get_run_records(
            dg.RunsFilter(updated_after=self._since), limit=_AT_ONCE, order_by="update_timestamp", ascending=True
        )
        lines = []
        for record in records:
            run = record.dagster_run
            self._since = max(self._since, record.update_timestamp.replace(tzinfo=UTC))
            if run.status in _TOLD and self._told.get(run.run_id) != run.status:
                self._told[run.run_id] = run.status
                lines.append(self._line(record))
            if run.is_finished:
                self._told.pop(run.run_id, None)
        return lines

    def _line(self, record: dg.RunRecord) -> str:
        run = record.dagster_run
        whom = " ".join(run.tags[tag] for tag in (TENANT_TAG, PROFILE_TAG) if tag in run.tags)
        said = f"{datetime.now():%H:%M:%S} {run.job_name} {whom}".rstrip() + f": {_TOLD[run.status]}"
        if record.start_time and record.end_time:
            said += f" in {duration(record.end_time - record.start_time)}"
        if run.is_success:
            return said + self._counts(run)
        return said if run.status is dg.DagsterRunStatus.STARTED else f"{said}, see {self._address}/runs/{run.run_id}"

    def _counts(self, run: dg.DagsterRun) -> str:
        """How many files a run that read sources met, as far as anything was new."""
        if run.job_name != SOURCES_JOB:
            return ""
        metadata = {
            name: value.value
            for entry in self._instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION)
            if entry.asset_materialization
            for name, value in entry.asset_materialization.metadata.items()
            if name in _COUNTS
        }
        found = [f"{metadata[name]} {what}" for name, what in _COUNTS.items() if metadata.get(name)]
        return f" ({', '.join(found) or 'nothing new'})"
