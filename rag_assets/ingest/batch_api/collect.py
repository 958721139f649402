"""Batch jobs that exist: looked at, collected, cancelled, and cleared away at the provider.

Nothing that a job returns is believed before it is checked: the keys have to be those that were sent, each once, every
vector has to be one, and a few are compared with vectors that are asked for directly. Results that fail are thrown away
as a whole, and their texts are embedded directly.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from rag_assets.embedding.cached import embed_documents_cached
from rag_assets.embedding.check import checked
from rag_assets.embedding.profiles import EmbeddingProfile
from rag_assets.embedding.protocol import BatchAnswer, BatchEmbedder, Caller, RemoteJob, Usage
from rag_assets.embedding.registry import batch_embedder_for, embedder_for
from rag_assets.errors import CostCeilingReached, EmbeddingError, ProviderRefused, ProviderUnavailable, UsageError
from rag_assets.printing import counted
from rag_assets.store import batch_jobs as store
from rag_assets.store.batch_jobs import BatchJob
from rag_assets.store.cache import PgVectorCache
from rag_assets.store.database import Database
from rag_assets.store.limits import PgGate
from rag_assets.store.profiles import get_spec
from rag_assets.store.refused import PgRefusedTexts

_log = logging.getLogger(__name__)

# Of the texts that are kept to compare vectors with. Two tell that keys belong to their vectors; answers without keys
# are in the order of the texts only by the provider's word, so all that were kept are compared.
_SAMPLES_BY_KEY = 2
_SAME = 0.999  # cosine
_STUCK_S = 600  # a job whose creation is not confirmed for so long was left behind by a process that was killed


class Remotes:
    """The providers of jobs, one connection for each profile. Use as a context manager."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._open: dict[str, tuple[EmbeddingProfile, BatchEmbedder]] = {}
        self._stack = ExitStack()

    def of(self, profile: str) -> tuple[EmbeddingProfile, BatchEmbedder]:
        """A profile of the catalogue, and where its jobs are."""
        if profile not in self._open:
            with self._database.work() as connection:
                spec = get_spec(connection, profile)
            batches = batch_embedder_for(spec)
            self._stack.callback(batches.close)
            self._open[profile] = (spec, batches)
        return self._open[profile]

    def __enter__(self) -> Remotes:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()


def collect_jobs(database: Database, tenant: str, model_key: str, settle_seconds: float) -> None:
    """Bring everything that a model's jobs have made for a tenant into its cache, and clear what has ended.

    To be called by who is `alone_with_jobs`. `settle_seconds`: how long after a request to make a job, which was never
    answered, the provider's list of jobs is believed.

    Raises:
        ProviderUnavailable, ProviderRefused, CostCeilingReached: the jobs stay as they are; call it again later.
    """
    with database.work(tenant) as connection:
        found = store.list_jobs(connection, tenant, model_key=model_key, unfinished=True)
    with Remotes(database) as remotes:
        for job in found:
            if job.is_open:
                _Collection(database, remotes, job, settle_seconds).run()
            else:
                clear_job(database, remotes, job)


@dataclass
class _Collection:
    """The next step of one open job."""

    database: Database
    remotes: Remotes
    job: BatchJob
    settle_seconds: float
    profile: EmbeddingProfile = field(init=False)
    batches: BatchEmbedder = field(init=False)

    def __post_init__(self) -> None:
        self.profile, self.batches = self.remotes.of(self.job.profile)

    def run(self) -> None:
        name = self.job.remote_name or self._recovered()
        if name is None:
            drop_unmade(self.database, self.batches, self.job)
            return
        remote = self.batches.get(name)
        if remote is None:
            self._give_up("the provider has no such job any more")
        elif remote.outcome == "succeeded":
            self._take(remote)
        elif remote.outcome == "failed":
            self._give_up(f"the provider has ended the job: {remote.state}")
        elif self.job.deadline <= datetime.now(UTC):
            self.batches.cancel(name)
            self._give_up(f"the job has not ended in time: {remote.state}")
        else:
            note_state(self.database, self.job, remote)

    def _recovered(self) -> str | None:
        """The name of a job whose creation was not confirmed, if the provider has it."""
        asked = self.job.submitted_at
        if asked is None:
            return None
        time.sleep(max(0.0, self.settle_seconds - (datetime.now(UTC) - asked).total_seconds()))
        name = self.batches.find(self.job.display_name)
        if name is not None:
            with self.database.work(self.job.tenant) as connection:
                store.change_job(connection, self.job, remote_name=name, state="running")
        return name

    def _take(self, remote: RemoteJob) -> None:
        with self.database.work(self.job.tenant) as connection:
            store.change_job(connection, self.job, result_file=remote.result_file, ended=True)
            keys = store.job_keys(connection, self.job)
            samples = dict(store.job_samples(connection, self.job))
        try:
            answers = _answers_by_key(keys, self.batches, remote)
            good = {key: answer for key, answer in answers.items() if answer.values}
            vectors = checked([answer.values for answer in good.values()], len(good), self.profile.dimensions)
            self._compare(dict(zip(good, vectors, strict=True)), samples, by_key=remote.result_file is not None)
        except (ProviderUnavailable, ProviderRefused, CostCeilingReached):
            raise
        except EmbeddingError as error:
            _log.warning("batch job %s: %s; nothing of it is stored", self.job.id, error)
            self._give_up(f"its results must not be stored: {error}", self._usage())
            return
        unanswered = BatchAnswer(error="no answer")
        failed = {key: answers.get(key, unanswered).error or "no answer" for key in keys if key not in good}
        with self.database.work(self.job.tenant, self.job.bot) as connection:
            store.finish_job(connection, self.job, list(good), vectors, self._usage(list(good.values())), failed)
        self._clear()

    def _compare(
        self, vectors: Mapping[bytes, NDArray[np.float32]], samples: Mapping[bytes, str], by_key: bool
    ) -> None:
        """Compare a few vectors with those that are made directly, at the full price, and kept.

        Raises:
            EmbeddingError: they are not the same.
        """
        comparable = [(key, text) for key, text in samples.items() if key in vectors]
        if by_key:
            comparable = comparable[:: max(1, len(comparable) - 1)][:_SAMPLES_BY_KEY]
        if not vectors:
            return
        job = self.job
        cache = PgVectorCache(self.database, job.tenant, job.bot, job.profile)
        gate = PgGate(self.database, job.tenant, job.bot, self.profile)
        caller = Caller(job.tenant, job.bot, gate)
        texts = [text for _, text in comparable]
        memory = PgRefusedTexts(self.database, job.tenant, job.bot, job.model_key)
        direct = embed_documents_cached(embedder_for(self.profile), texts, cache, caller, memory=memory)
        batch = np.array([vectors[key] for key, _ in comparable]).reshape(len(comparable), -1)
        cosines = [float(batch[n] @ direct.vectors[n]) for n in range(len(texts)) if n not in direct.refused]
        if not cosines:
            raise EmbeddingError("none of the texts kept for comparison came back")
        if min(cosines) < _SAME:
            raise EmbeddingError(
                f"a vector differs from the one that the model makes of its text (cosine {min(cosines):.3f}): "
                "it may be that of another text"
            )

    def _usage(self, good: Sequence[BatchAnswer] = ()) -> Usage:
        """What the job has cost: by the provider's count, or by the estimate where that is missing or not believed."""
        counted = [answer.tokens for answer in good if answer.tokens is not None]
        estimate = round(self.job.tokens * len(good) / self.job.items) if good else self.job.tokens
        tokens = sum(counted) if good and len(counted) == len(good) else estimate
        cost = self.profile.model_info.cost_usd(tokens, batch=True)
        return Usage(self.job.tenant, self.job.bot, len(good), tokens, cost)

    def _give_up(self, reason: str, usage: Usage | None = None) -> None:
        with self.database.work(self.job.tenant, self.job.bot) as connection:
            store.give_up_job(connection, self.job, reason, usage=usage)
        self._clear()

    def _clear(self) -> None:
        with self.database.work(self.job.tenant) as connection:
            (job,) = store.list_jobs(connection, self.job.tenant, job=self.job.id)
        clear_job(self.database, self.remotes, job)


def _answers_by_key(keys: Sequence[bytes], batches: BatchEmbedder, remote: RemoteJob) -> dict[bytes, BatchAnswer]:
    """The answers of a job, each to the text that it is said to belong to.

    Raises:
        EmbeddingError: a key that was not sent, or was answered twice; or answers without keys in another number.
    """
    if remote.result_file is None and remote.inline is not None:
        if len(remote.inline) != len(keys):
            raise EmbeddingError(
                f"{counted(len(remote.inline), 'answer')} without keys came back for {counted(len(keys), 'text')}"
            )
        return dict(zip(keys, remote.inline, strict=True))
    sent = {key.hex(): key for key in keys}
    answers: dict[bytes, BatchAnswer] = {}
    for name, answer in batches.results(remote):
        key = sent.get(name)
        if key is None:
            raise EmbeddingError("an answer came back under a key that was not sent")
        if key in answers:
            raise EmbeddingError("two answers came back under one key")
        answers[key] = answer
    return answers


def drop_unmade(database: Database, batches: BatchEmbedder, job: BatchJob) -> None:
    """Forget a job that the provider does not have, and what was uploaded for it."""
    for file in job.files():
        batches.delete_file(file)
    with database.work(job.tenant) as connection:
        store.drop_job(connection, job)


def clear_job(database: Database, remotes: Remotes, job: BatchJob) -> str | None:
    """Delete a job and its files at the provider; why that was not possible, or None.

    What is left is remembered: the next call for it tries again.
    """
    try:
        _, batches = remotes.of(job.profile)
        if job.remote_name:
            batches.delete(job.remote_name)
        for file in [*job.files(), *([job.result_file] if job.result_file else [])]:
            batches.delete_file(file)
    except EmbeddingError as error:
        _log.warning("batch job %s could not be deleted at the provider: %s", job.id, error)
        return str(error)
    with database.work(job.tenant) as connection:
        store.job_is_cleared(connection, job)
    return None


def note_state(database: Database, job: BatchJob, remote: RemoteJob | None) -> None:
    """Write down how the provider shows a job; None: it has none of this name any more."""
    with database.work(job.tenant) as connection:
        state = remote.state if remote else "GONE"
        store.change_job(connection, job, remote_state=state, ended=remote is None or remote.outcome != "open")


def open_jobs(database: Database, tenant: str) -> list[BatchJob]:
    """The jobs of a tenant that are at a provider, or on their way, as they were when somebody last asked."""
    with database.work(tenant) as connection:
        return [job for job in store.list_jobs(connection, tenant, unfinished=True) if job.is_open]


def settled_jobs(database: Database, tenant: str) -> list[BatchJob]:
    """Those of a tenant's open jobs that a run has to deal with, by what is known of them; no provider is asked."""
    return [job for job in open_jobs(database, tenant) if job.is_over or _is_stuck(job)]


def poll_jobs(database: Database, tenant: str, seconds: float) -> list[BatchJob]:
    """Ask the providers for the open jobs of a tenant, for about so many seconds, and return those that have settled.

    One that cannot be looked at now is left for the next time.
    """
    began = time.monotonic()
    with Remotes(database) as remotes:
        for job in open_jobs(database, tenant):
            if job.remote_name is None or job.is_over or time.monotonic() - began > seconds:
                continue
            try:
                note_state(database, job, remotes.of(job.profile)[1].get(job.remote_name, briefly=True))
            except EmbeddingError as error:
                _log.warning("batch job %s cannot be looked at: %s", job.id, error)
    return settled_jobs(database, tenant)


def _is_stuck(job: BatchJob) -> bool:
    return job.state == "submitting" and (datetime.now(UTC) - job.created_at).total_seconds() > _STUCK_S


def cancel_job(database: Database, tenant: str, job_id: UUID) -> BatchJob:
    """Cancel one job: the provider is told to stop, and the next ingest embeds its texts directly.

    Raises:
        UsageError: there is no such job, it is closed, or the provider has finished it.
        ProviderUnavailable, ProviderRefused: nobody knows whether it goes on; it stays as it is.
    """
    with database.work(tenant) as connection:
        found = store.list_jobs(connection, tenant, job=job_id)
    if not found:
        raise UsageError(f"tenant {tenant!r} has no batch job {job_id}")
    with store.alone_with_jobs(database, tenant, found[0].model_key), Remotes(database) as remotes:
        with database.work(tenant) as connection:
            (job,) = store.list_jobs(connection, tenant, job=job_id)
        if not job.is_open:
            raise UsageError(f"batch job {job_id} is {job.state}: there is nothing to cancel")
        _, batches = remotes.of(job.profile)
        name = job.remote_name or batches.find(job.display_name)
        remote = batches.get(name) if name else None
        if remote is not None and remote.outcome == "succeeded":
            raise UsageError(f"batch job {job_id} has ended and is paid for: `rag ingest` publishes its results")
        if name is not None and remote is not None:
            batches.cancel(name)
        with database.work(tenant, job.bot) as connection:
            store.change_job(connection, job, remote_name=name)
            store.give_up_job(connection, job, "cancelled", "cancelled")
            (job,) = store.list_jobs(connection, tenant, job=job_id)
        clear_job(database, remotes, job)
        return job


def abandon_jobs(database: Database, tenant: str, bot: str | None = None) -> tuple[int, list[str]]:
    """Stop and delete at the provider whatever a tenant, or one bot of it, has there, before its rows are erased.

    Returns how many jobs were deleted, and for each of the others why it was not: its files hold texts, which stay
    there until the provider deletes them.
    """
    with database.work(tenant) as connection:
        found = store.list_jobs(connection, tenant, bot, unfinished=True)
    left: list[str] = []
    with Remotes(database) as remotes:
        for job in found:
            try:
                _stop(database, remotes, job)
            except EmbeddingError as error:
                left.append(f"{job.id}: {error}")
    return len(found) - len(left), left


def _stop(database: Database, remotes: Remotes, job: BatchJob) -> None:
    _, batches = remotes.of(job.profile)
    name = job.remote_name or (batches.find(job.display_name) if job.submitted_at and job.is_open else None)
    with database.work(job.tenant, job.bot) as connection:
        store.change_job(connection, job, remote_name=name)
    if name is not None and job.is_open:
        batches.cancel(name)
    with database.work(job.tenant, job.bot) as connection:
        store.give_up_job(connection, job, "erased", "cancelled")
        (now,) = store.list_jobs(connection, job.tenant, job=job.id)
    reason = clear_job(database, remotes, now)
    if reason:
        raise EmbeddingError(reason)
