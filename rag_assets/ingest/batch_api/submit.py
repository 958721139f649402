"""Batch jobs come to be: written down, uploaded, and confirmed by the provider."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from uuid import UUID

from rag_assets.embedding.cached import VectorCache
from rag_assets.embedding.protocol import BatchEmbedder
from rag_assets.embedding.registry import batch_embedder_for
from rag_assets.errors import ProviderUnavailable, TextRefused
from rag_assets.ingest.batch_api.collect import Remotes, clear_job, drop_unmade
from rag_assets.ingest.batch_api.limits import BatchLimits
from rag_assets.store import batch_jobs as store
from rag_assets.store.batch_jobs import BatchJob, NewItem
from rag_assets.store.database import Connection, Database
from rag_assets.store.limits import PgGate
from rag_assets.store.profiles import BuiltProfile

_log = logging.getLogger(__name__)

SAMPLES = 8  # texts of a job that are kept to compare their vectors with, from the first to the last
_UPLOADS = 3
_UPLOAD_PAUSE_S = 2.0
_LOOKUP = 2000  # hashes in one look into the cache


def submit_missing(
    database: Database,
    built: BuiltProfile,
    texts: Mapping[bytes, str],
    cache: VectorCache,
    gate: PgGate,
    limits: BatchLimits,
) -> dict[bytes, UUID | None]:
    """Hand over what neither the cache nor a job has, if it is enough for a job; returns the job of each text that has
    to be waited for, or None where there was no room for it.

    Raises:
        ProviderUnavailable, ProviderRefused, CostCeilingReached: what was handed over before is kept.
    """
    with closing(batch_embedder_for(built.profile)) as batches:
        known = _known(cache, built.profile.model_key, list(texts))
        lines = [
            _Line(digest, text, sendable, batches.tokens(text))
            for digest, text in texts.items()
            if digest not in known and (sendable := batches.sendable(text)) is not None
        ]
        if len(lines) < limits.min_items:
            return {}
        return _Submission(database, built, batches, gate, limits).run(lines)


def _known(cache: VectorCache, model_key: str, hashes: Sequence[bytes]) -> set[bytes]:
    known: set[bytes] = set()
    for start in range(0, len(hashes), _LOOKUP):
        known |= set(cache.get(model_key, hashes[start : start + _LOOKUP]))
    return known


@dataclass(frozen=True)
class _Line:
    """A text on its way into a job; `sent` is what the model reads of it."""

    digest: bytes
    text: str
    sent: str
    tokens: int


@dataclass
class _Submission:
    """Hands texts over, job by job."""

    database: Database
    built: BuiltProfile
    batches: BatchEmbedder
    gate: PgGate
    limits: BatchLimits

    def run(self, lines: Sequence[_Line]) -> dict[bytes, UUID | None]:
        """The job of each text; None for those that found no room. Those of a job that was refused are left out."""
        held: dict[bytes, UUID | None] = {}
        start = 0
        while start < len(lines):
            added = self._add_job(lines[start:])
            if added is None:
                break
            job, part = added
            try:
                if not self._hand_over(job, part):
                    break
                held |= {line.digest: job.id for line in part}
            except TextRefused as error:
                self._give_up(job, str(error))
            start += len(part)
        return held | {line.digest: None for line in lines[start:]}

    def _add_job(self, lines: Sequence[_Line]) -> tuple[BatchJob, Sequence[_Line]] | None:
        """Write the next job down, with as many of the lines as there is room for; None if it is too little."""
        with self._writing() as connection:
            room = store.room_in_queue(connection, store.route_of(self.built.profile), self.limits.enqueued_tokens)
            part = self._fitting(lines, room)
            if not part:
                return None
            tokens = sum(line.tokens for line in part)
            mine = store.list_jobs(connection, self.built.tenant, unfinished=True)
            open_tokens = sum(job.tokens for job in mine if job.is_open and job.profile == self.built.profile.name)
            # What goes on is not in the count of what was spent before it is collected.
            self.gate.check_ceiling(open_tokens + tokens, batch=True)
            samples = {round(n * (len(part) - 1) / (SAMPLES - 1)) for n in range(SAMPLES)}
            items = [NewItem(line.digest, line.text if row in samples else None) for row, line in enumerate(part)]
            return store.add_job(connection, self.built, items, tokens, self.limits.deadline_hours), part

    def _fitting(self, lines: Sequence[_Line], room: int) -> Sequence[_Line]:
        n = tokens = 0
        for line in lines[: self.limits.job_items]:
            tokens += line.tokens
            if tokens > room:
                break
            n += 1
        if room >= self.limits.enqueued_tokens:  # nothing is in the queue, so there will never be more room
            return lines[: max(1, n)]
        # Not a job for each little gap that another leaves behind: that would be many jobs for few texts.
        return lines[:n] if n >= min(self.limits.min_items, len(lines)) else []

    def _hand_over(self, job: BatchJob, part: Sequence[_Line]) -> bool:
        """Give the provider what has been written down; False where its queue is full: then the job is forgotten."""
        number = self._upload(job, [self.batches.line(line.digest.hex(), line.sent) for line in part])
        with self._writing() as connection:
            store.change_job(connection, job, submitted=True)
        name = self.batches.create(job.display_name, store.file_name(job.id, number))
        if name is None:
            _log.warning("%s: the batch queue is full; the rest waits", self.built.profile.name)
            drop_unmade(self.database, self.batches, self._now(job))
            return False
        with self._writing() as connection:
            store.change_job(connection, job, remote_name=name, state="running")
        return True

    def _upload(self, job: BatchJob, lines: Sequence[bytes]) -> int:
        """Upload a job's lines; the number of the file."""
        for number in range(1, _UPLOADS + 1):
            with self._writing() as connection:
                store.change_job(connection, job, upload=True)
            try:
                self.batches.upload(store.file_name(job.id, number), lines)
                break
            except ProviderUnavailable:
                if number == _UPLOADS:
                    raise
                time.sleep(_UPLOAD_PAUSE_S * number)
        return number

    def _give_up(self, job: BatchJob, reason: str) -> None:
        _log.warning("batch job %s was refused: %s", job.id, reason)
        with self._writing() as connection:
            store.give_up_job(connection, job, reason)
        with Remotes(self.database) as remotes:
            clear_job(self.database, remotes, self._now(job))

    def _now(self, job: BatchJob) -> BatchJob:
        with self._writing() as connection:
            return store.list_jobs(connection, job.tenant, job=job.id)[0]

    def _writing(self) -> AbstractContextManager[Connection]:
        return self.database.work(self.built.tenant, self.built.bot)
