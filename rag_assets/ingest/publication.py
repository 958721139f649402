"""Stage 4: embedded chunks replace what is served."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rag_assets.errors import SourceError
from rag_assets.ingest.ahead import ahead
from rag_assets.ingest.chunk_files import ChunkFile
from rag_assets.ingest.columns import numbers, strings
from rag_assets.ingest.embeddings import vectors_of
from rag_assets.ingest.extraction import ExtractReport, extract_triples, triples_of_chunks
from rag_assets.ingest.repeated_pages import duplicate_versions
from rag_assets.ingest.sources import Failure
from rag_assets.processors import given_processors
from rag_assets.progress import stage
from rag_assets.store.database import Database
from rag_assets.store.profiles import BuiltProfile
from rag_assets.store.publication import Publisher, StagedChunk, StagedVersion

TRANSACTION_CHUNKS = 500
_SAMPLED = 5000  # chunks of which the mean length of a fresh profile is taken


@dataclass
class PublishReport:
    """What was published, for one tenant and profile; `serving_*` is what the profile holds afterwards."""

    ready: int = 0
    duplicates: int = 0  # pages that add nothing to another one, and are served by it
    chunks_written: int = 0
    withdrawn: int = 0
    superseded: int = 0
    serving_sources: int = 0
    serving_chunks: int = 0
    activated: list[str] = field(default_factory=list)  # bots whose active profile this became
    failures: list[Failure] = field(default_factory=list)
    extraction: ExtractReport = field(default_factory=ExtractReport)  # of triples, where a profile asks for it

    def add(self, part: PublishReport) -> None:
        """Count in what a part of the work did."""
        self.ready += part.ready
        self.chunks_written += part.chunks_written
        self.superseded += part.superseded
        self.failures += part.failures


def publish_chunks(database: Database, profiles: Sequence[BuiltProfile], chunks: ChunkFile) -> PublishReport:
    """Publish staged sources, take away deleted ones, and mark profiles that are complete.

    Whole sources go in, about `TRANSACTION_CHUNKS` chunks a transaction, over as many connections as there
    are processors (at most 4). Where a transaction is refused by the data of one source, its sources are
    tried one by one and only that one is recorded as failed.
    """
    report = PublishReport()
    rows = chunks.rows_by_profile()
    for built in profiles:
        publisher = Publisher(database, built)
        if not publisher.has_length():
            publisher.assume_length(_sample(chunks, built.id, rows[built.id]))
        _publish_all(database, publisher, built, chunks, rows[built.id], report)
        if repeats := duplicate_versions(database, built):
            report.duplicates += publisher.publish(repeats).sources
        report.withdrawn += publisher.withdraw()
        if publisher.complete():
            report.activated.append(built.bot)
        sources, served = publisher.counts()
        report.serving_sources += sources
        report.serving_chunks += served
    return report


def _sample(chunks: ChunkFile, profile: int, rows: int) -> list[tuple[str, str]]:
    """Ids of sources and what their chunks are found by, of all chunks of a profile or evenly of more than a few."""
    found: list[tuple[str, str]] = []
    step = max(1, rows // _SAMPLED)
    offset = 0  # of the next row that is taken, in the part
    for part in chunks.parts_of(profile, ["profile_id", "source_id", "words", "content"]):
        taken = part.take(numbers(range(offset, part.num_rows, step), pa.int64()))
        offset = (offset - part.num_rows) % step
        words = pc.coalesce(taken["words"], taken["content"])
        found += [one for one in zip(taken["source_id"].to_pylist(), words.to_pylist(), strict=True) if one[1]]
    return found


def _publish_all(
    database: Database,
    publisher: Publisher,
    built: BuiltProfile,
    chunks: ChunkFile,
    rows: int,
    report: PublishReport,
) -> None:
    workers = max(1, min(given_processors(), 4, rows // TRANSACTION_CHUNKS))

    def work(batch: tuple[list[StagedVersion], pa.Table]) -> tuple[PublishReport, int]:
        versions, part = batch
        mine = PublishReport()
        _publish(publisher, built, _with_triples(database, built, versions, part), mine)
        return mine, sum(len(version.chunks) for version in versions)

    again: dict[UUID, datetime] = {}

    def batches() -> Iterator[tuple[list[StagedVersion], pa.Table]]:
        for mine in chunks.parts_of(built.id):
            extraction = extract_triples(database, built, mine)
            report.extraction.add(extraction)
            again.update(extraction.again)
            yield from ((versions, mine) for versions in _batches(mine))

    with (
        stage(f"publish {built.bot}", rows) as bar,
        ThreadPoolExecutor(workers, thread_name_prefix="publish") as pool,
    ):
        for done, size in ahead(pool, work, batches(), 2 * workers):
            report.add(done)
            bar.advance(size)
    publisher.try_again(again)


def _with_triples(
    database: Database, built: BuiltProfile, versions: list[StagedVersion], chunks: pa.Table
) -> list[StagedVersion]:
    """The versions with what the profile's model found in them, where it has one."""
    if built.profile.options.graph is None:
        return versions
    ids = strings([str(version.source_id) for version in versions])
    mine = chunks.filter(pc.is_in(chunks["source_id"], value_set=ids))
    columns = ("source_id", "checksum", "context", "content", "citation", "media")
    found = triples_of_chunks(database, built, mine.select(columns).to_pylist())
    return [replace(version, triples=found.get(version.source_id, ())) for version in versions]


def _publish(
    publisher: Publisher, built: BuiltProfile, versions: Sequence[StagedVersion], report: PublishReport
) -> None:
    try:
        done = publisher.publish(versions)
    except SourceError as error:
        if len(versions) > 1:
            for version in versions:
                _publish(publisher, built, [version], report)
            return
        reason = str(error)
        name = publisher.fail(versions[0].source_id, versions[0].checksum, reason)
        report.failures.append(Failure(built.bot, name, reason))
        return
    report.ready += done.sources
    report.chunks_written += done.chunks
    report.superseded += done.superseded


def _batches(chunks: pa.Table) -> Iterator[list[StagedVersion]]:
    """Whole sources, in the order of the table, about `TRANSACTION_CHUNKS` chunks at a time."""
    batch: list[StagedVersion] = []
    size = 0
    for version in _versions(chunks):
        if batch and size + len(version.chunks) > TRANSACTION_CHUNKS:
            yield batch
            batch, size = [], 0
        batch.append(version)
        size += len(version.chunks)
    if batch:
        yield batch


def _versions(chunks: pa.Table) -> Iterator[StagedVersion]:
    """Group the rows of each source, which stand together."""
    vectors = vectors_of(chunks) if chunks.num_rows else np.empty((0, 0), np.float32)
    row = 0
    key: tuple[str, str] | None = None
    staged: list[StagedChunk] = []
    for part in chunks.drop_columns(["embedding"]).to_batches(max_chunksize=TRANSACTION_CHUNKS):
        for values in part.to_pylist():
            this = (values["source_id"], values["checksum"])
            if key is not None and this != key:
                yield StagedVersion(UUID(key[0]), key[1], staged)
                staged = []
            key = this
            staged.append(_staged(values, vectors[row]))
            row += 1
    if key is not None:
        yield StagedVersion(UUID(key[0]), key[1], staged)


def _staged(values: dict[str, Any], vector: NDArray[np.float32]) -> StagedChunk:
    return StagedChunk(
        id=UUID(str(values["chunk_id"])),
        chunk_index=int(values["chunk_index"]),
        content=str(values["content"]),
        token_count=int(values["token_count"]),
        citation=str(values["citation"]),
        metadata=str(values["metadata"]),
        embedding=vector,
        words=None if values["words"] is None else str(values["words"]),
        terms=values["terms"],
    )
