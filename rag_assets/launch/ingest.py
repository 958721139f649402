"""The two runs of an ingest in this process, and what they did."""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field

import dagster as dg
from dagster._core.errors import DagsterExecutionInterruptedError
from dagster._core.utils import make_new_run_id

from rag_assets.addresses import masked
from rag_assets.assets.metadata import shown
from rag_assets.automation.history import COMMAND_LINE, ORIGIN_TAG
from rag_assets.automation.jobs import PAIR_JOB, SOURCES_JOB
from rag_assets.definitions import defs
from rag_assets.errors import RagError, was_interrupted
from rag_assets.ingest.chunks import ChunkReport
from rag_assets.ingest.embeddings import EmbedReport
from rag_assets.ingest.extraction import ExtractReport
from rag_assets.ingest.losses import HeldLoss
from rag_assets.ingest.pairs import enable_pair
from rag_assets.ingest.publication import PublishReport
from rag_assets.ingest.sources import Failure, SyncReport
from rag_assets.launch.instance import dagster_instance
from rag_assets.partitions import TENANT_TAG, ensure_partitions, pair_key
from rag_assets.resources import sharing
from rag_assets.runs.pools import free_slots_of_ended_runs
from rag_assets.runs.processes import PROCESS_TAG, report_dead_runs, this_process
from rag_assets.runs.reports import Reports, collecting
from rag_assets.settings import Settings
from rag_assets.store.database import Database

_STEPS = {
    SOURCES_JOB: ("sources",),
    PAIR_JOB: ("chunks", "profile_embeddings", "knowledge_chunks", "gin_index", "hnsw_index"),
}


@dataclass(frozen=True)
class IngestOutcome:
    """What one ingest did for one bot and profile.

    Attributes:
        sources: number of sources `ready` (published now), `unchanged` (served as they were), `failed`,
            `no_text` and `deleted`.
        seconds: time of the assets' own work, Parquet included; `startup_seconds` is what Dagster needed around it.
        failures: at most 50 of each stage, their errors shortened.
        activated: whether this profile became the bot's active one.
        held: what is gone from roots and kept until it is confirmed; `skipped` is the number of files that are not
            read, by reason, and `unreadable_roots` are those that could not be listed, with the reasons.
        forgotten_roots: roots that were given for this ingest, could not be read and are not remembered.
        failed_served: sources that failed and of which the profile serves what it published before.
        extraction: texts that the profile's chat model was asked about for triples, if it has one, and what that took.
        pending_chunks: chunks of sources that wait for a batch job; `batch_jobs` is how many of those go on.
    """

    sources: Mapping[str, int]
    chunks_written: int
    embedded: int
    cache_hits: int
    seconds: float
    startup_seconds: float
    run_ids: tuple[str, ...]
    failures: tuple[Failure, ...] = ()
    activated: bool = False
    extraction: ExtractReport = field(default_factory=ExtractReport)
    pending_chunks: int = 0
    batch_jobs: int = 0
    held: tuple[HeldLoss, ...] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)
    unreadable_roots: tuple[Failure, ...] = ()
    forgotten_roots: tuple[str, ...] = ()
    failed_served: int = 0


def materialize_ingest(
    database: Database,
    settings: Settings,
    tenant: str,
    bot: str,
    profile: str,
    batch: bool = False,
    confirm_loss: bool = False,
) -> IngestOutcome:
    """Materialize the assets for one bot and profile: a run for its sources, and one for the pair.

    Both runs happen in this process and are recorded on the project's Dagster instance. Nothing is printed.

    Raises:
        UsageError: tenant, bot or profile is unknown; no run was started.
        RagError: a run failed: what its step raised, with the step and the run.
    """
    began = time.monotonic()
    enable_pair(database, tenant, bot, profile)
    with dagster_instance(settings) as instance, sharing(database), collecting() as reports:
        run_ids = _run_both(instance, tenant, bot, profile, {"batch": batch, "confirm_loss": confirm_loss})
    return _outcome(reports, bot, run_ids, time.monotonic() - began)


def _run_both(
    instance: dg.DagsterInstance, tenant: str, bot: str, profile: str, flags: Mapping[str, bool]
) -> tuple[str, str]:
    ensure_partitions(instance, [tenant], [profile])
    report_dead_runs(instance, (SOURCES_JOB, PAIR_JOB))
    free_slots_of_ended_runs(instance)
    config = {"bot": bot, **flags}
    return (
        _run(instance, SOURCES_JOB, tenant, tenant, config),
        _run(instance, PAIR_JOB, tenant, pair_key(tenant, profile), config),
    )


def _run(instance: dg.DagsterInstance, job: str, tenant: str, partition: str, config: Mapping[str, object]) -> str:
    """Execute one job; returns the id of its run."""
    run_id = make_new_run_id()
    try:
        defs.resolve_job_def(job).execute_in_process(
            instance=instance,
            partition_key=partition,
            run_config={
                "ops": {step: {"config": config} for step in _STEPS[job]},
                # The terminal shows progress of its own; the run's log is in the UI.
                "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
            },
            tags={TENANT_TAG: tenant, ORIGIN_TAG: COMMAND_LINE, PROCESS_TAG: this_process()},
            run_id=run_id,
        )
    except (Exception, DagsterExecutionInterruptedError) as error:
        if was_interrupted(error):
            raise KeyboardInterrupt from error
        # A step that must not be tried again raises Dagster's Failure on top of its own error.
        reason = error.__cause__ if isinstance(error, dg.Failure) and error.__cause__ else error
        raise _with_place(reason, instance, run_id, job) from reason
    return run_id


def _with_place(error: BaseException, instance: dg.DagsterInstance, run_id: str, job: str) -> RagError:
    """The same kind of error, which also names step and run; one that is not ours becomes a RagError."""
    failed = instance.all_logs(run_id, of_type=dg.DagsterEventType.STEP_FAILURE)
    if not failed:
        return RagError(f"run {run_id} of {job} failed before its first step")
    place = f"(step {failed[0].step_key}, run {run_id})"
    if isinstance(error, RagError):
        return type(error)(f"{error} {place}")
    return RagError(f"{masked(''.join(traceback.format_exception_only(error)).strip())} {place}")


def _outcome(reports: Reports, bot: str, run_ids: tuple[str, ...], wall_seconds: float) -> IngestOutcome:
    """The numbers of two successful runs."""
    synced, chunked = reports.of(SyncReport), reports.of(ChunkReport)
    embedded, published = reports.of(EmbedReport), reports.of(PublishReport)
    seen = {(failure.bot, failure.name) for failure in synced.failures}
    # What a stage fails at again was known to have failed before.
    later = [
        [failure for failure in part.failures if (failure.bot, failure.name) not in seen]
        for part in (chunked, embedded, published)
    ]
    stages = ([*synced.unreadable_roots, *synced.failures], *later)
    return IngestOutcome(
        sources={
            "ready": published.ready,
            "unchanged": published.serving_sources - published.ready,
            "failed": synced.failed + sum(map(len, later)),
            "no_text": synced.no_text,
            "deleted": synced.deleted,
        },
        chunks_written=published.chunks_written,
        embedded=embedded.embedded,
        cache_hits=embedded.cache_hits,
        extraction=published.extraction,
        pending_chunks=embedded.pending_chunks,
        batch_jobs=embedded.jobs,
        seconds=round(reports.seconds, 3),
        startup_seconds=round(wall_seconds - reports.seconds, 3),
        run_ids=run_ids,
        failures=tuple(failure for stage in stages for failure in shown(stage)),
        activated=bot in published.activated,
        held=tuple(synced.held),
        skipped=synced.skipped,
        unreadable_roots=tuple(shown(synced.unreadable_roots)),
    )
