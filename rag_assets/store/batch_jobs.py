"""Batch jobs: which texts a provider has been given to embed at leisure, and which sources wait for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal
from uuid import UUID, uuid4

import numpy as np
from numpy.typing import NDArray
from psycopg.rows import class_row, dict_row

from rag_assets.embedding.profiles import EmbeddingProfile
from rag_assets.embedding.protocol import Usage
from rag_assets.printing import counted
from rag_assets.store.cache import count_usage, put_vectors
from rag_assets.store.database import Connection, Database
from rag_assets.store.profiles import BuiltProfile
from rag_assets.store.sql import query, rows, scalar, scalars

JobState = Literal["submitting", "running", "done", "failed", "cancelled"]
_LOOKUP = 2000  # hashes in one query


@dataclass(frozen=True)
class BatchJob:
    """A row of `rag.embedding_jobs`.

    `submitting` until the provider has confirmed it; `running` until its results are in the cache (`done`) or it is
    given up (`failed`, `cancelled`). `ended_at` is when the provider was seen to be done with it. `submitted_at` and no
    `remote_name` means that nobody knows whether the provider has it.
    """

    id: UUID
    tenant: str
    bot: str
    profile: str
    model_key: str
    route: str
    display_name: str
    remote_name: str | None
    remote_state: str | None
    result_file: str | None
    state: JobState
    uploads: int
    items: int
    tokens: int
    created_at: datetime
    submitted_at: datetime | None
    ended_at: datetime | None
    deadline: datetime
    error: str | None

    @property
    def is_open(self) -> bool:
        return self.state in ("submitting", "running")

    @property
    def is_over(self) -> bool:
        """Whether it is open and there is nothing to wait for any more."""
        return self.is_open and (self.ended_at is not None or self.deadline <= datetime.now(UTC))

    def files(self) -> list[str]:
        """The names of the files that were, or may have been, uploaded for it."""
        return [file_name(self.id, number) for number in range(1, self.uploads + 1)]


@dataclass(frozen=True)
class NewItem:
    """A text that a new job is to hold; `sample` is the text itself, where it is to be kept for comparison."""

    digest: bytes
    sample: str | None


@dataclass(frozen=True)
class Waiting:
    """A source, in one version, that cannot be published before a job has ended."""

    source_id: UUID
    checksum: str
    job: UUID


def file_name(job: UUID, number: int) -> str:
    """The name of one uploaded file of a job. Each upload has its own: a part of a failed one may be there."""
    return f"files/{job.hex}-{number}"


def route_of(profile: EmbeddingProfile) -> str:
    """What limits hold for: a model of a provider, asked with one key."""
    return f"{profile.provider}/{profile.model} {profile.options.key_env or ''}".rstrip()


def tenants_with_open_jobs(connection: Connection) -> list[str]:
    """All tenants that have jobs which are not collected, whoever is in scope."""
    return scalars(connection, query("tenants_with_open_jobs"))


def list_jobs(
    connection: Connection,
    tenant: str,
    bot: str | None = None,
    *,
    model_key: str | None = None,
    job: UUID | None = None,
    unfinished: bool = False,
) -> list[BatchJob]:
    """A tenant's jobs, oldest first. `unfinished`: those that are open or left something at the provider."""
    values = {"tenant": tenant, "bot": bot, "model_key": model_key, "id": job, "unfinished": unfinished}
    return rows(connection, class_row(BatchJob), query("list_embedding_jobs"), values)


@contextmanager
def alone_with_jobs(database: Database, tenant: str, model_key: str) -> Iterator[None]:
    """Wait until nobody else submits or collects jobs of this model for the tenant, and keep others out.

    The database frees the place of a process that is killed.
    """
    with database.session("owner") as connection:  # the lock is a session's, and a pooler may stand before ingest
        connection.execute(query("lock_embedding_jobs"), {"tenant": tenant, "model_key": model_key})
        yield


def room_in_queue(connection: Connection, route: str, most: int) -> int:
    """How many tokens fit into the provider's queue beside those of all tenants' jobs, if it holds `most`.

    Nobody else adds a job of this route before the transaction ends.
    """
    connection.execute(query("lock_batch_route"), {"route": route})
    return most - int(scalar(connection, query("enqueued_tokens"), {"route": route}))


def add_job(
    connection: Connection, built: BuiltProfile, items: Sequence[NewItem], tokens: int, deadline_hours: int
) -> BatchJob:
    """Write a job down before anything of it is sent. Items keep their order."""
    job = uuid4()
    values = {
        "id": job, "tenant": built.tenant, "bot": built.bot, "profile": built.profile.name,
        "model_key": built.profile.model_key, "route": route_of(built.profile), "display_name": f"rag-{job}",
        "items": len(items), "tokens": tokens, "hours": deadline_hours,
    }  # fmt: skip
    connection.execute(query("add_embedding_job"), values)
    texts = {"hashes": [item.digest for item in items], "samples": [item.sample for item in items]}
    connection.execute(query("add_embedding_job_items"), {**values, **texts})
    return list_jobs(connection, built.tenant, job=job)[0]


def change_job(
    connection: Connection,
    job: BatchJob,
    *,
    remote_name: str | None = None,
    remote_state: str | None = None,
    result_file: str | None = None,
    state: JobState | None = None,
    upload: bool = False,
    submitted: bool = False,
    ended: bool = False,
    error: str | None = None,
) -> None:
    """Note what is known of a job; what is None stays. `upload`: one more file may lie at the provider."""
    values = {
        "id": job.id, "remote_name": remote_name, "remote_state": remote_state, "result_file": result_file,
        "state": state, "uploads": int(upload), "submitted": submitted, "ended": ended, "error": error,
    }  # fmt: skip
    connection.execute(query("change_embedding_job"), values)


def job_keys(connection: Connection, job: BatchJob) -> list[bytes]:
    """The content hashes of a job's items, in the order in which they were sent."""
    return [bytes(digest) for digest in scalars(connection, query("embedding_job_keys"), {"id": job.id})]


def job_samples(connection: Connection, job: BatchJob) -> list[tuple[bytes, str]]:
    """Content hash and text of the items whose texts were kept, in the order in which they were sent."""
    kept = rows(connection, dict_row, query("embedding_job_samples"), {"id": job.id})
    return [(bytes(row["content_hash"]), row["sample"]) for row in kept]


def texts_in_jobs(
    connection: Connection, tenant: str, model_key: str, hashes: Sequence[bytes]
) -> tuple[dict[bytes, UUID], set[bytes]]:
    """Which texts an open job of the tenant holds, and which ones a job that has ended failed to embed."""
    held: dict[bytes, UUID] = {}
    failed: set[bytes] = set()
    for start in range(0, len(hashes), _LOOKUP):
        values = {"tenant": tenant, "model_key": model_key, "hashes": list(hashes[start : start + _LOOKUP])}
        for row in rows(connection, dict_row, query("open_job_of_text"), values):
            if row["job"] is None:
                failed.add(bytes(row["content_hash"]))
            else:
                held[bytes(row["content_hash"])] = row["job"]
    return held, failed


def finish_job(
    connection: Connection,
    job: BatchJob,
    hashes: Sequence[bytes],
    vectors: NDArray[np.float32],
    usage: Usage,
    failed: Mapping[bytes, str],
) -> bool:
    """Put a job's vectors into the cache, count what they cost and close the job, all in the open transaction.

    `failed` are the items without a vector, and why. False if the job was closed before: then nothing is written.
    """
    error = f"{len(failed):,} of {counted(job.items, 'text')} failed" if failed else None
    closed = connection.execute(query("close_embedding_job"), {"id": job.id, "state": "done", "error": error})
    if not closed.rowcount:
        return False
    put_vectors(connection, _entry(job), job.model_key, hashes, vectors, usage)
    values = {"id": job.id, "hashes": list(failed), "errors": list(failed.values())}
    connection.execute(query("close_embedding_job_items"), values)
    return True


def give_up_job(
    connection: Connection, job: BatchJob, error: str, state: JobState = "failed", usage: Usage | None = None
) -> bool:
    """Close a job without results: all of its items count as failed. `usage` is what it has cost all the same.
    False if it was closed before."""
    closed = connection.execute(query("close_embedding_job"), {"id": job.id, "state": state, "error": error})
    if not closed.rowcount:
        return False
    connection.execute(query("fail_embedding_job_items"), {"id": job.id, "error": error})
    if usage is not None:
        count_usage(connection, _entry(job), job.model_key, usage)
    return True


def drop_job(connection: Connection, job: BatchJob) -> None:
    """Forget a job that never came to be at the provider, so that its texts go into another one."""
    connection.execute(query("forget_embedding_job"), {"id": job.id})
    connection.execute(query("delete_embedding_job"), {"id": job.id})


def job_is_cleared(connection: Connection, job: BatchJob) -> None:
    """Note that nothing of an ended job is left at the provider."""
    connection.execute(query("embedding_job_is_cleared"), {"id": job.id})


def wait_for_jobs(connection: Connection, built: BuiltProfile, waiting: Iterable[Waiting]) -> None:
    """Replace what is noted of the sources of a profile that wait for jobs."""
    noted = list(waiting)
    connection.execute(query("forget_waiting_sources"), {"profile": built.id})
    values = {
        "profile": built.id, "tenant": built.tenant, "bot": built.bot,
        "sources": [one.source_id for one in noted], "checksums": [one.checksum for one in noted],
        "jobs": [one.job for one in noted],
    }  # fmt: skip
    connection.execute(query("add_waiting_sources"), values)


def _entry(job: BatchJob) -> dict[str, str]:
    return {"tenant": job.tenant, "bot": job.bot, "profile": job.profile, "role": "document"}
