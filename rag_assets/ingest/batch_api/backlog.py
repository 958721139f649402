"""Embedding many texts through a provider's batch API: half the price, and not now.

A run collects what earlier jobs have made, hands over what is missing, and goes on; a later run publishes it. Jobs are
written down before anything is sent, so a process may be killed at any point: the next run finds out what the provider
has, and no text is handed over twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from rag_assets.embedding.cached import VectorCache, content_hash
from rag_assets.embedding.profiles import EmbeddingProfile
from rag_assets.errors import UsageError
from rag_assets.ingest.batch_api.collect import collect_jobs
from rag_assets.ingest.batch_api.limits import BatchLimits
from rag_assets.ingest.batch_api.submit import submit_missing
from rag_assets.store import batch_jobs as store
from rag_assets.store.database import Database
from rag_assets.store.limits import PgGate, profile_settings
from rag_assets.store.profiles import BuiltProfile


@dataclass(frozen=True)
class Held:
    """A text has to be waited for: `job` holds it, or None does, because the provider's queue is full."""

    job: UUID | None


@dataclass
class Backlog:
    """The texts that have to be waited for, by content hash. `jobs` counts the jobs that go on."""

    held: dict[bytes, Held] = field(default_factory=dict)
    jobs: int = 0

    def held_by(self, text: str) -> Held | None:
        """What a text waits for; None if it can be embedded now."""
        return self.held.get(content_hash(text)) if self.held else None


def require_batches(profile: EmbeddingProfile) -> None:
    """Refuse to embed by batch what cannot be.

    Raises:
        UsageError: the provider has no batch API.
    """
    if not profile.model_info.has_batch_api:
        raise UsageError(f"profile {profile.name!r}: {profile.provider} has no batch API; leave out --batch")


def concerns_jobs(database: Database, built: BuiltProfile, batch: bool) -> bool:
    """Whether any of a profile's texts may go through the batch API, or wait for it."""
    return any(_asked(database, built, batch))


def _asked(database: Database, built: BuiltProfile, batch: bool) -> tuple[bool, bool]:
    """Whether texts are to be handed over, and whether jobs are under way."""
    if not built.profile.model_info.has_batch_api:
        return False, False
    with database.work(built.tenant) as connection:
        submit = batch or profile_settings(connection, built.profile.name).mode == "batch"
        unfinished = store.list_jobs(connection, built.tenant, model_key=built.profile.model_key, unfinished=True)
    return submit, bool(unfinished)


def settle_backlog(
    database: Database, built: BuiltProfile, texts: Sequence[str], cache: VectorCache, gate: PgGate, batch: bool
) -> Backlog:
    """Collect the jobs of the profile's model, hand over what is missing if the profile or `batch` says so, and return
    what has to be waited for. Everything else can be embedded directly: it is in the cache, or too little or too long
    for a job, or a job has failed at it.

    Raises:
        UsageError: `batch`, and the provider has no batch API.
        ProviderUnavailable, ProviderRefused, CostCeilingReached: what was collected and handed over is kept.
    """
    if batch:
        require_batches(built.profile)
    submit, unfinished = _asked(database, built, batch)
    if not submit and not unfinished:
        return Backlog()
    model_key = built.profile.model_key
    limits = BatchLimits.from_settings()
    by_hash = {content_hash(text): text for text in texts}
    with store.alone_with_jobs(database, built.tenant, model_key):
        collect_jobs(database, built.tenant, model_key, limits.settle_seconds)
        with database.work(built.tenant) as connection:
            held, failed = store.texts_in_jobs(connection, built.tenant, model_key, list(by_hash))
        waiting: dict[bytes, UUID | None] = dict(held)
        if submit:
            left = {digest: text for digest, text in by_hash.items() if digest not in held and digest not in failed}
            waiting |= submit_missing(database, built, left, cache, gate, limits)
        with database.work(built.tenant) as connection:
            jobs = store.list_jobs(connection, built.tenant, model_key=model_key, unfinished=True)
    going_on = [job for job in jobs if job.is_open]
    # What found no room is looked at again when one of the jobs ends.
    one = going_on[0].id if going_on else None
    return Backlog({digest: Held(job or one) for digest, job in waiting.items()}, len(going_on))
