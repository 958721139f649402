"""The two runs of an ingest in this process, and what they did."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg
from dagster._core.definitions.metadata import TableMetadataValue

from rag_assets import errors
from rag_assets.automation.history import COMMAND_LINE, ORIGIN_TAG
from rag_assets.automation.jobs import PAIR_JOB, SOURCES_JOB
from rag_assets.definitions import defs
from rag_assets.launch.instance import IngestOutcome
from rag_assets.partitions import TENANT_TAG, ensure_partitions, pair_key
from rag_assets.runs.pools import free_slots_of_ended_runs
from rag_assets.runs.processes import PROCESS_TAG, report_dead_runs, this_process

_STEPS = {
    SOURCES_JOB: ("sources",),
    PAIR_JOB: ("chunks", "profile_embeddings", "knowledge_chunks", "gin_index", "hnsw_index"),
}
_RAISED = re.compile(r"rag_assets\.errors\.(\w+): (.*)", re.DOTALL)


def run_both(
    instance: dg.DagsterInstance, tenant: str, bot: str, profile: str, batch: bool = False
) -> list[dg.ExecuteInProcessResult]:
    """Execute the two jobs, one after the other.

    Raises:
        RagError: the first one that failed, with the reason.
    """
    ensure_partitions(instance, [tenant], [profile])
    report_dead_runs(instance, (SOURCES_JOB, PAIR_JOB))
    free_slots_of_ended_runs(instance)
    keys = {SOURCES_JOB: tenant, PAIR_JOB: pair_key(tenant, profile)}
    results = []
    for job, key in keys.items():
        result = defs.resolve_job_def(job).execute_in_process(
            instance=instance,
            partition_key=key,
            run_config={
                "ops": {step: {"config": {"bot": bot, "batch": batch}} for step in _STEPS[job]},
                # The terminal shows progress of its own; the run's log is in the UI.
                "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
            },
            tags={TENANT_TAG: tenant, ORIGIN_TAG: COMMAND_LINE, PROCESS_TAG: this_process()},
            raise_on_error=False,
        )
        if not result.success:
            raise failure_of(result)
        results.append(result)
    return results


def failure_of(result: dg.ExecuteInProcessResult) -> errors.RagError:
    """Why a run failed, as the error that its step raised, as far as it was one of ours."""
    for event in result.filter_events(lambda event: event.is_step_failure):
        data = event.step_failure_data
        error = data.error
        while error is not None and error.cause is not None:
            error = error.cause
        text = error.message.strip() if error is not None else "no reason is known"
        raised = _RAISED.fullmatch(text)
        kind = getattr(errors, raised[1], errors.RagError) if raised else errors.RagError
        return kind(f"{raised[2] if raised else text} (step {event.step_key}, run {result.run_id})")
    return errors.RagError(f"run {result.run_id} of {result.job_def.name} failed before its first step")


def outcome_of(results: Sequence[dg.ExecuteInProcessResult], bot: str, wall_seconds: float) -> IngestOutcome:
    """The numbers of two successful runs."""
    found: dict[str, Mapping[str, Any]] = {}
    work = 0.0
    for result in results:
        for event in result.get_asset_materialization_events():
            metadata = event.materialization.metadata
            found[event.step_key or ""] = metadata
            work += sum(_seconds(metadata, name) for name in ("seconds", "write_seconds"))
    sources, published = found["sources"], found["knowledge_chunks"]
    embedded = found["profile_embeddings"]
    stages = [sources, found["chunks"], embedded, published]
    ready = _number(published, "sources_ready")
    return IngestOutcome(
        sources={
            "ready": ready,
            "unchanged": _number(published, "serving_sources") - ready,
            "failed": sum(_number(stage, "failed") for stage in stages),
            "no_text": _number(sources, "no_text"),
            "deleted": _number(sources, "deleted"),
        },
        chunks_written=_number(published, "chunks_written"),
        embedded=_number(embedded, "embedded"),
        cache_hits=_number(embedded, "cache_hits"),
        pending_chunks=_number(embedded, "pending_chunks"),
        batch_jobs=_number(embedded, "batch_jobs"),
        seconds=round(work, 3),
        startup_seconds=round(wall_seconds - work, 3),
        run_ids=tuple(result.run_id for result in results),
        failures=tuple(failure for stage in stages for failure in _failures(stage)),
        activated=bot in str(published["activated"].value).split(", "),
    )


def _seconds(metadata: Mapping[str, Any], name: str) -> float:
    return float(metadata[name].value) if name in metadata else 0.0


def _number(metadata: Mapping[str, Any], name: str) -> int:
    return int(metadata[name].value)


def _failures(metadata: Mapping[str, Any]) -> list[Mapping[str, str]]:
    table = metadata["failures"]
    if not isinstance(table, TableMetadataValue):
        return []
    return [{name: str(value) for name, value in record.data.items()} for record in table.records]
