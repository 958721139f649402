"""Stage 3: chunks get their profile's vectors, from the cache where it has them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rag_assets.documents.model import embedding_text
from rag_assets.embedding.cached import CachedEmbedding, content_hash, embed_documents_cached
from rag_assets.embedding.models import estimated_tokens
from rag_assets.embedding.origins import Origin, check_origin
from rag_assets.embedding.protocol import Caller
from rag_assets.embedding.registry import embedder_for
from rag_assets.errors import EmbeddingError
from rag_assets.ingest.batch_api.backlog import Held, concerns_jobs, settle_backlog
from rag_assets.ingest.chunk_files import ChunkFile
from rag_assets.ingest.chunks import CHUNK_SCHEMA
from rag_assets.ingest.columns import as_numpy, numbers, strings
from rag_assets.ingest.media import embed_media
from rag_assets.ingest.refused import describe
from rag_assets.ingest.sources import Failure
from rag_assets.progress import stage
from rag_assets.settings import load_settings
from rag_assets.store.batch_jobs import Waiting, wait_for_jobs
from rag_assets.store.cache import PgVectorCache
from rag_assets.store.database import Database
from rag_assets.store.limits import PgGate
from rag_assets.store.profiles import BuiltProfile, note_embedding
from rag_assets.store.publication import Publisher
from rag_assets.store.refused import PgRefusedTexts
from rag_assets.store.sources import show_progress


@dataclass
class EmbedReport:
    """What was embedded, for one tenant and profile. `cost_usd` is what the provider charged now."""

    chunks: int = 0
    embedded: int = 0
    cache_hits: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    pending_chunks: int = 0  # of `pending_sources`, which have texts that wait for a batch job
    pending_sources: int = 0
    jobs: int = 0  # batch jobs that go on
    media: int = 0  # chunks of files embedded as such
    media_changed: int = 0  # files that are others now, and come with their next version
    media_refused: list[Failure] = field(default_factory=list)  # whose text is published without them
    failures: list[Failure] = field(default_factory=list)

    def add(self, result: CachedEmbedding) -> None:
        self.embedded += result.embedded
        self.cache_hits += result.cache_hits
        self.tokens += result.tokens
        self.cost_usd += result.cost_usd


def embed_chunks(
    database: Database,
    profiles: Sequence[BuiltProfile],
    chunks: ChunkFile,
    batch: bool = False,
    wait_s: float | None = None,
) -> tuple[Iterator[pa.Table], EmbedReport]:
    """The chunks with the column `embedding`, (n, d) float32 of unit length, in tables of whole sources of one profile.
    The report is complete when they are read to their end, and what is raised is raised while they are read.

    The chunks of a source with a text that the provider refuses are left out and the source is recorded as failed; the
    text is remembered, and not sent again. Left out are also the chunks of a source with a text that waits for a batch
    job, with nothing recorded against it. `batch` hands texts over to the provider's batch API whatever the profile's
    settings say: these are in memory all at once. `wait_s`: the most seconds that a request may go on failing; None:
    `RAG_PROVIDER_WAIT_S`.

    A file that is embedded as such and refused is left out, and its text is not.

    Raises:
        ProviderUnavailable, ProviderRefused, CostCeilingReached: nothing is recorded against any source, and what
            was embedded until then is kept: another run goes on from there.
        EmbeddingError: the provider's answers must not be stored, whatever it is sent. All of these are noted as the
            profile's last error.
        UsageError: `batch`, and a provider has no batch API.
    """
    report = EmbedReport()
    wait_s = load_settings().provider_wait_s if wait_s is None else wait_s
    rows = chunks.rows_by_profile()
    stages = [_Embedding(database, built, report, batch, wait_s, rows[built.id]) for built in profiles]
    return (table for one in stages for table in one.tables(chunks)), report


def embedded_schema(dimensions: int) -> pa.Schema:
    """The columns of chunks with their vectors."""
    return CHUNK_SCHEMA.append(pa.field("embedding", pa.list_(pa.float32(), dimensions)))


def require_origin(built: BuiltProfile, origin: Origin | None) -> None:
    """Refuse to put vectors of two origins into one profile.

    Raises:
        ProviderRefused: names both, and the ways out.
    """
    check_origin(f"profile {built.profile.name!r} of {built.tenant}/{built.bot}", built.origin, origin)


@dataclass
class _Embedding:
    """The stage for one profile of one bot, which has so many `rows` to embed."""

    database: Database
    built: BuiltProfile
    report: EmbedReport
    batch: bool
    wait_s: float
    rows: int

    def __post_init__(self) -> None:
        built = self.built
        self._embedder = embedder_for(built.profile)
        self._gate = PgGate(self.database, built.tenant, built.bot, built.profile)
        self._caller = Caller(built.tenant, built.bot, self._gate, self.wait_s)
        keeps = built.profile.model_info.cached
        self._cache = PgVectorCache(self.database, built.tenant, built.bot, built.profile.name, keeps=keeps)
        self._memory = PgRefusedTexts(self.database, built.tenant, built.bot, built.profile.model_key, keeps=keeps)
        self._origin = built.profile.origin
        self._waiting: list[Waiting] = []
        self._published_rows = 0

    def tables(self, chunks: ChunkFile) -> Iterator[pa.Table]:
        """The profile's chunks with their vectors, part by part; all at once where they may go through the provider's
        batch API, which is handed all of them."""
        with self.reported():
            parts: Iterable[pa.Table] = chunks.parts_of(self.built.id)
            if self.rows and concerns_jobs(self.database, self.built, self.batch):
                parts = [pa.concat_tables(parts)]
            for part in parts:
                table = self.run(part)
                self.report.chunks += table.num_rows
                yield table
            if not self.rows:
                self._held([])  # jobs are looked after where nothing is to be embedded, too

    @contextmanager
    def reported(self) -> Iterator[None]:
        """Around the work on all parts: one bar, what waits for jobs and what failed noted with the profile."""
        try:
            with stage(f"embed {self.built.bot}", self.rows) as self._bar:
                yield
            self._note_waiting()
        except EmbeddingError as error:
            note_embedding(self.database, self.built, None, str(error))
            raise
        place = self._origin.place if self._origin and self._published_rows else None
        note_embedding(self.database, self.built, place, None)

    def run(self, chunks: pa.Table) -> pa.Table:
        """Chunks of whole sources with their vectors."""
        require_origin(self.built, self._origin)
        table = self._with_media(chunks, self._texts(chunks.filter(pc.is_null(chunks["media"]))))
        self._published_rows += table.num_rows
        return table

    def _note_waiting(self) -> None:
        if self.built.profile.model_info.has_batch_api:
            with self.database.work(self.built.tenant, self.built.bot) as connection:
                wait_for_jobs(connection, self.built, self._waiting)

    def _texts(self, chunks: pa.Table) -> pa.Table:
        texts = embedding_texts(chunks)
        held = self._held(texts)
        # Whatever else the source of a waiting text needs is embedded now, so that it is not missing later.
        ready = [row for row, one in enumerate(held) if one is None]
        result = self._embedded([texts[row] for row in ready])
        self.report.add(result)
        table = with_vectors(chunks.take(numbers(ready, pa.int64())) if any(held) else chunks, result.vectors)
        if result.refused:
            table = self._without_refused(table, result.refused, [texts[row] for row in ready])
        if any(held):
            table = self._without_waiting(chunks, held, table)
        if self.built.profile.model_info.cached:  # else nobody could look so fast
            _progress(self.database, self.built, table)
        return table

    def _held(self, texts: Sequence[str]) -> list[Held | None]:
        """What each text waits for, None for those that are embedded now."""
        if not (self.batch or self.built.profile.model_info.has_batch_api):
            return [None] * len(texts)
        # What was refused once is no more liked in a batch job.
        refused = self._memory.get([content_hash(text) for text in dict.fromkeys(texts)])
        wanted = [text for text in texts if content_hash(text) not in refused] if refused else texts
        backlog = settle_backlog(self.database, self.built, wanted, self._cache, self._gate, self.batch)
        self.report.jobs += backlog.jobs
        return [backlog.held_by(text) for text in texts]

    def _embedded(self, texts: Sequence[str]) -> CachedEmbedding:
        # A request that is larger than a rate limit would never have its turn.
        size = self._gate.batch_items(self._embedder.batch_items, max(map(estimated_tokens, texts), default=0))
        info = self.built.profile.model_info
        return embed_documents_cached(
            self._embedder,
            texts,
            self._cache,
            self._caller,
            size,
            on_batch=self._bar.advance,
            memory=self._memory,
            batch_bytes=info.batch_tokens,  # as many tokens as a text has bytes are the most
            probe_first=not info.knows_dimensions,
        )

    def _with_media(self, chunks: pa.Table, texts: pa.Table) -> pa.Table:
        """Add the files among the chunks, embedded as such, to the embedded `texts`."""
        is_media = pc.is_valid(chunks["media"])
        with_text = pc.unique(chunks.filter(pc.invert(is_media))["source_id"])
        # Where a source's text failed or waits, its file does too.
        stays = pc.or_(
            pc.is_in(chunks["source_id"], pc.unique(texts["source_id"])),
            pc.invert(pc.is_in(chunks["source_id"], with_text)),
        )
        files = chunks.filter(pc.and_(is_media, stays))
        if not files.num_rows:
            return texts
        result = embed_media(
            self.database,
            self.built,
            files,
            set(with_text.to_pylist()),
            self._caller,
            self._cache,
            self._memory,
            self._bar.advance,
        )
        self.report.add(result.embedding)
        self.report.media += result.chunks.num_rows
        self.report.media_changed += result.changed
        self.report.media_refused += result.refused
        self.report.failures += result.failures
        left_out = strings(sorted(result.left_out))
        kept = texts.filter(pc.invert(pc.is_in(texts["source_id"], left_out)))
        table = pa.concat_tables([kept, with_vectors(result.chunks, result.vectors)])
        # The chunks of a source stand together.
        return table.sort_by([("source_id", "ascending"), ("chunk_index", "ascending")])

    def _without_refused(self, table: pa.Table, refused: Mapping[int, str], texts: Sequence[str]) -> pa.Table:
        """Record the sources that hold a refused text as failed, and return the chunks of the others."""
        rows = table.select(["source_id", "checksum", "chunk_index", "citation", "content"])
        by_source: dict[str, list[tuple[dict[str, Any], str]]] = {}
        hashes: dict[str, list[bytes]] = defaultdict(list)
        for number in sorted(refused):
            row = rows.slice(number, 1).to_pylist()[0]
            by_source.setdefault(row["source_id"], []).append((row, refused[number]))
            hashes[row["source_id"]].append(content_hash(texts[number]))
        publisher = Publisher(self.database, self.built)
        for source, failed in by_source.items():
            told = describe([row for row, _ in failed], failed[0][1])
            again = self._memory.next_try(hashes[source])
            name = publisher.fail(UUID(source), failed[0][0]["checksum"], told, again)
            self.report.failures.append(Failure(self.built.bot, name, told))
        return table.filter(pc.invert(pc.is_in(table["source_id"], strings(list(by_source)))))

    def _without_waiting(self, chunks: pa.Table, held: Sequence[Held | None], table: pa.Table) -> pa.Table:
        """Remember which sources wait for jobs, and return the chunks of the others."""
        sources, checksums = chunks["source_id"].to_pylist(), chunks["checksum"].to_pylist()
        waiting = {(sources[row], checksums[row], one.job) for row, one in enumerate(held) if one is not None}
        self._waiting += [Waiting(UUID(source), checksum, job) for source, checksum, job in waiting if job]
        pending = strings(sorted({source for source, _, _ in waiting}))
        self.report.pending_sources += len(pending)
        self.report.pending_chunks += pc.sum(pc.is_in(chunks["source_id"], pending)).as_py() or 0
        return table.filter(pc.invert(pc.is_in(table["source_id"], pending)))


def embedding_texts(chunks: pa.Table) -> list[str]:
    """What the model reads of each chunk: its context, if it has one, and its content."""
    rows = zip(chunks["context"].to_pylist(), chunks["content"].to_pylist(), strict=True)
    return [embedding_text(context, content) for context, content in rows]


def _progress(database: Database, built: BuiltProfile, chunks: pa.Table) -> None:
    sources = [UUID(source) for source in pc.unique(chunks["source_id"]).to_pylist()]
    with database.work(built.tenant) as connection:
        show_progress(connection, sources, 80)


def with_vectors(chunks: pa.Table, vectors: NDArray[np.float32]) -> pa.Table:
    """`chunks` with the column `embedding`, a fixed-size list of float32, from vectors (n, d)."""
    column = pa.FixedSizeListArray.from_arrays(numbers(vectors, pa.float32()), vectors.shape[1])
    return chunks.append_column("embedding", column)


def vectors_of(table: pa.Table) -> NDArray[np.float32]:
    """The column `embedding` as (n, d) float32."""
    column = table["embedding"].combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return as_numpy(column.flatten()).reshape(len(column), column.type.list_size)
