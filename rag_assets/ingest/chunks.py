"""Stage 2: documents that a profile has not published yet become chunks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.chunking import ChunkingSpec
from rag_assets.documents.model import Chunk
from rag_assets.documents.reasons import in_words
from rag_assets.ingest.ahead import ahead
from rag_assets.ingest.columns import column, strings
from rag_assets.ingest.media import media_chunk, media_chunk_id, media_fields
from rag_assets.ingest.repeated_pages import Pages, pages_of
from rag_assets.ingest.sources import Failure
from rag_assets.processors import given_processors
from rag_assets.progress import stage
from rag_assets.store.database import Database
from rag_assets.store.profiles import BuiltProfile
from rag_assets.store.publication import Publisher
from rag_assets.store.sources import PendingSource, PendingVersion, StoredMedia, pending_sources, pending_versions
from rag_assets.terms.beside import TermsBeside, terms_beside

CHUNK_SCHEMA = pa.schema(
    [
        ("profile_id", pa.int64()),
        ("source_id", pa.string()),
        ("checksum", pa.string()),
        ("chunk_index", pa.int32()),
        ("chunk_id", pa.string()),
        ("content", pa.string()),
        ("context", pa.string()),  # what the model reads in front of it, and nobody is shown
        ("token_count", pa.int32()),
        ("citation", pa.string()),
        ("metadata", pa.string()),
        ("media", pa.string()),  # the file that is embedded instead of the content
        ("words", pa.string()),  # what lexical search finds it by, if that is not its content
        ("terms", pa.string()),  # what `prepare` makes of that, where it has been made already
    ]
)

_PORTION_SOURCES = 1000
_PORTION_BYTES = 2_000_000  # of text: some 2,000 chunks
_BESIDE_BYTES = 2_000_000  # of less text the terms are prepared before another process has started


@dataclass
class ChunkReport:
    """What was cut, for one tenant and profile: without `duplicates`, pages that add nothing to another one, and
    `boilerplate_characters`, in blocks that many pages repeat."""

    sources: int = 0
    duplicates: int = 0
    boilerplate_characters: int = 0
    chunks: int = 0
    characters: int = 0
    tokens: int = 0
    failures: list[Failure] = field(default_factory=list)

    def count(self, source: CutSource) -> None:
        """Count in what was cut of a source."""
        if source.is_duplicate:
            self.duplicates += 1
        elif source.error is None:
            self.sources += 1
            self.characters += len(source.source.document.text)
            self.boilerplate_characters += source.left_out


@dataclass(frozen=True)
class CutSource:
    """What came of a source: its chunks, without the `left_out` characters that other pages have too, or the error for
    which there are none. A duplicate has none either: it is published once the page that it repeats is served."""

    source: PendingSource
    chunks: tuple[Chunk, ...] = ()
    left_out: int = 0
    is_duplicate: bool = False
    error: str | None = None


def cut_source(source: PendingSource, pages: Pages, spec: ChunkingSpec) -> CutSource:
    """Cut one source, as one of the pages of its space where it is one."""
    if source.id in pages.duplicates:
        return CutSource(source, is_duplicate=True)
    try:
        chunks, left_out = pages.chunk(source, spec)
    except Exception as error:  # whatever one document does to the chunker, the others are cut
        return CutSource(source, error=f"cannot be chunked: {in_words(error)}")
    if not chunks and source.media is None:
        return CutSource(source, error="no chunk came out of its text")
    return CutSource(source, tuple(chunks), left_out)


def chunk_id(spec_hash: str, source: str, chunk: Chunk) -> str:
    """The same content at the same place of the same source, cut by the same profile, has the same id, as a UUID is
    written."""
    digits = hashlib.sha256(f"{spec_hash}|{source}|{chunk.index}|{chunk.content}".encode()).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:32]}"


def chunk_pending(database: Database, profiles: Sequence[BuiltProfile]) -> tuple[Iterator[pa.Table], ChunkReport]:
    """Chunks of every source that these profiles (of one tenant) have not published in its current version, in tables
    of whole sources of one profile. The report is complete when they are read to their end.

    A source that cannot be cut is recorded as failed, and the rest goes on.
    """
    report = ChunkReport()
    return (part for built in profiles for part in _chunk_profile(database, built, report)), report


def _chunk_profile(database: Database, built: BuiltProfile, report: ChunkReport) -> Iterator[pa.Table]:
    with database.work(built.tenant) as connection:
        pending = pending_versions(connection, built.id)
        pages = pages_of(connection, built, (version.content_type for version in pending))

    def read(ids: list[UUID]) -> tuple[int, list[PendingSource]]:
        with database.work(built.tenant) as connection:
            return len(ids), pending_sources(connection, built.id, ids)

    # The next portion comes from the database while this one is cut, and the terms of the last one are prepared.
    with (
        stage(f"chunk {built.bot}", len(pending)) as bar,
        ThreadPoolExecutor(1, thread_name_prefix="read") as pool,
        _terms_of(built, pending) as terms,
    ):
        cut = (
            (done, _chunk_sources(database, built, sources, pages, report))
            for done, sources in ahead(pool, read, _portions(pending), 2)
        )
        for done, table in _with_terms(cut, terms):
            yield table
            bar.advance(done)


def _terms_of(built: BuiltProfile, pending: Sequence[PendingVersion]) -> AbstractContextManager[TermsBeside | None]:
    """Where terms are prepared beside the cutting: of much text, if there is a processor for it."""
    much = sum(version.text_bytes for version in pending) > _BESIDE_BYTES
    return terms_beside(built.profile.terms) if much and given_processors() > 1 else nullcontext()


def _with_terms(parts: Iterable[tuple[int, pa.Table]], terms: TermsBeside | None) -> Iterator[tuple[int, pa.Table]]:
    """The parts with their terms, each of them while the next one is cut."""
    waiting: tuple[int, pa.Table, Callable[[], list[str]]] | None = None
    for done, table in parts:
        if terms is None:
            yield done, table
            continue
        asked = terms.ask(pc.coalesce(table["words"], table["content"]).to_pylist())
        if waiting is not None:
            yield _answered(*waiting)
        waiting = done, table, asked
    if waiting is not None:
        yield _answered(*waiting)


def _answered(done: int, table: pa.Table, terms: Callable[[], list[str]]) -> tuple[int, pa.Table]:
    place = table.schema.get_field_index("terms")
    return done, table.set_column(place, "terms", strings(terms()))


def _portions(pending: Iterable[PendingVersion]) -> Iterator[list[UUID]]:
    """Sources that are held in memory together."""
    ids: list[UUID] = []
    size = 0
    for version in pending:
        ids.append(version.id)
        size += version.text_bytes
        if len(ids) >= _PORTION_SOURCES or size >= _PORTION_BYTES:
            yield ids
            ids, size = [], 0
    if ids:
        yield ids


def _chunk_sources(
    database: Database, built: BuiltProfile, sources: Sequence[PendingSource], pages: Pages, report: ChunkReport
) -> pa.Table:
    rows: list[tuple[Any, ...]] = []
    failed: list[tuple[PendingSource, str]] = []
    spec_hash = built.profile.spec_hash  # made anew each time it is asked for
    for source in sources:
        cut = cut_source(source, pages, built.profile.chunking)
        report.count(cut)
        if cut.error is not None:
            failed.append((source, cut.error))
        else:
            rows += _rows(built, spec_hash, cut)
    if failed:
        publisher = Publisher(database, built)
        for source, error_text in failed:
            name = publisher.fail(source.id, source.checksum, error_text)
            report.failures.append(Failure(built.bot, name, error_text))
    report.chunks += len(rows)
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(CHUNK_SCHEMA)
    table = pa.table(
        [column(values, kind.type) for values, kind in zip(columns, CHUNK_SCHEMA, strict=True)],
        schema=CHUNK_SCHEMA,
    )
    report.tokens += pc.sum(table["token_count"], min_count=0).as_py()
    return table


def _rows(built: BuiltProfile, spec_hash: str, cut: CutSource) -> list[tuple[Any, ...]]:
    source = str(cut.source.id)
    rows = [_row(built, spec_hash, cut.source, source, chunk) for chunk in cut.chunks]
    if cut.source.media is not None and not cut.is_duplicate:
        rows.append(_media_row(built, spec_hash, cut.source, cut.source.media, cut.chunks))
    return rows


def _row(built: BuiltProfile, spec_hash: str, source: PendingSource, written_id: str, chunk: Chunk) -> tuple[Any, ...]:
    citation: dict[str, Any] = {"start": chunk.start, "end": chunk.end, "version": source.checksum}
    if source.document.title:
        citation["title"] = source.document.title
    if chunk.page is not None:
        citation |= {"page": chunk.page, "page_end": chunk.page_end}
    if chunk.heading_path:
        citation["heading"] = " › ".join(chunk.heading_path)
    return (
        built.id,
        written_id,
        source.checksum,
        chunk.index,
        chunk_id(spec_hash, written_id, chunk),
        chunk.content,
        chunk.context,
        chunk.token_count,
        json.dumps(citation, ensure_ascii=False),
        "{}",
        None,
        None,
        None,
    )


def _media_row(
    built: BuiltProfile, spec_hash: str, source: PendingSource, media: StoredMedia, chunks: Sequence[Chunk]
) -> tuple[Any, ...]:
    chunk = media_chunk(source, media, chunks)
    row = dict(zip(CHUNK_SCHEMA.names, _row(built, spec_hash, source, str(source.id), chunk), strict=True))
    row["chunk_id"] = str(media_chunk_id(spec_hash, source.id, media))
    return tuple((row | media_fields(source, media, chunk)).values())
