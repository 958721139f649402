"""Embedding many texts through a provider's batch API: half the price, and not now.

A run collects what earlier jobs have made, hands over what is missing, and goes on; a later run publishes it. Jobs are
written down before anything is sent, so a process may be killed at any point: the next run finds out what the provider
has, and no text is handed over twice.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from rag_assets.embedding.cached import VectorCache, content_hash
from rag_assets.embedding.profiles import EmbeddingProfile
from rag_assets.errors import UsageError
from rag_assets.store import batch_jobs as store
from rag_assets.store.database import Database
from rag_assets.store.limits import PgGate, profile_settings
from rag_assets.store.profiles import BuiltProfile


@dataclass(frozen=True)
class BatchLimits:
    """When texts go into jobs, and how many.

    Attributes:
        min_items: fewer missing texts than this are embedded at once (`RAG_BATCH_MIN_ITEMS`).
        job_items: of one job (`RAG_BATCH_JOB_ITEMS`); in larger ones, results were seen to be mixed up.
        enqueued_tokens: estimated tokens of all tenants' jobs of one model and key that go on (`RAG_BATCH_TOKENS`).
            Google allows 500,000, five or ten million, by the account's tier.
        deadline_hours: after so long a job is given up.
        settle_seconds: how long after a request to make a job, which was never answered, the provider's list of jobs
            is believed.
    """

    min_items: int = 200
    job_items: int = 1000
    enqueued_tokens: int = 500_000
    deadline_hours: int = 48
    settle_seconds: float = 30

    @classmethod
    def from_environment(cls) -> BatchLimits:
        """The defaults, but for what the environment says.

        Raises:
            UsageError: a value is no whole number of at least 1.
        """
        return cls(
            min_items=_whole_number("RAG_BATCH_MIN_ITEMS", cls.min_items),
            job_items=_whole_number("RAG_BATCH_JOB_ITEMS", cls.job_items),
            enqueued_tokens=_whole_number("RAG_BATCH_TOKENS", cls.enqueued_tokens),
        )


def _whole_number(name: str, default: int) -> int:
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and int(text) >= 1):
        raise UsageError(f"{name} has to be a whole number of at least 1")
    return int(text)


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


def has_batches(profile: EmbeddingProfile) -> bool:
    """Whether the profile's provider embeds by batch."""
    return profile.provider == "google"


def require_batches(profile: EmbeddingProfile) -> None:
    """Refuse to embed by batch what cannot be.

    Raises:
        UsageError: the provider has no batch API.
    """
    if not has_batches(profile):
        raise UsageError(f"profile {profile.name!r}: {profile.provider} has no batch API; leave out --batch")


def backfill(
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
    if not has_batches(built.profile):
        return Backlog()
    model_key = built.profile.model_key
    with database.transaction("ingest", {"tenant": built.tenant}) as connection:
        submit = batch or profile_settings(connection, built.profile.name).mode == "batch"
        unfinished = store.list_jobs(connection, built.tenant, model_key=model_key, unfinished=True)
    if not submit and not unfinished:
        return Backlog()
    # Google's SDK loads slowly, and most runs have no use for it.
    from rag_assets.ingest.batch_api.collect import collect_jobs
    from rag_assets.ingest.batch_api.submit import submit_missing

    limits = BatchLimits.from_environment()
    by_hash = {content_hash(text): text for text in texts}
    with store.alone_with_jobs(database, built.tenant, model_key):
        collect_jobs(database, built.tenant, model_key, limits.settle_seconds)
        with database.transaction("ingest", {"tenant": built.tenant}) as connection:
            held, failed = store.texts_in_jobs(connection, built.tenant, model_key, list(by_hash))
        waiting: dict[bytes, UUID | None] = dict(held)
        if submit:
            left = {digest: text for digest, text in by_hash.items() if digest not in held and digest not in failed}
            waiting |= submit_missing(database, built, left, cache, gate, limits)
        with database.transaction("ingest", {"tenant": built.tenant}) as connection:
            jobs = store.list_jobs(connection, built.tenant, model_key=model_key, unfinished=True)
    going_on = [job for job in jobs if job.is_open]
    # What found no room is looked at again when one of the jobs ends.
    one = going_on[0].id if going_on else None
    return Backlog({digest: Held(job or one) for digest, job in waiting.items()}, len(going_on))
