"""Publication: whole sources replace their old versions, in one transaction.

A reader sees all of the old version or all of the new one. Small sources share a transaction, because a
commit costs more than they do; a source is never split over two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any
from uuid import UUID

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import Cursor, sql
from psycopg.rows import scalar_row

from rag_assets.errors import SourceError
from rag_assets.store.copying import BINARY_COPY, END_OF_COPY, copied_row
from rag_assets.store.database import Connection, Database
from rag_assets.store.failures import first_line
from rag_assets.store.profiles import BuiltProfile, complete_profile
from rag_assets.store.sql import query, scalar, scalars
from rag_assets.store.tenants import Space
from rag_assets.store.term_weights import as_sparsevecs, weigh
from rag_assets.store.triples import Analysis, Place, Triple, write_triples
from rag_assets.terms import TermsVersion, prepare

_SAMPLE = 200  # chunks whose mean length stands for all of a fresh profile
_STAGED_TOGETHER = 1000  # chunks whose words are in memory at once: a source may have tens of thousands


@dataclass(frozen=True)
class StagedChunk:
    """A chunk with its vector (d,) float32, ready to be published. `words` is what lexical search finds it by, where
    that is not its content; `terms`, what `prepare` makes of that, where it has been made already."""

    id: UUID
    chunk_index: int
    content: str
    token_count: int
    citation: str  # JSON
    metadata: str  # JSON
    embedding: NDArray[np.float32]
    words: str | None = None
    terms: str | None = None

    def prepared(self, version: TermsVersion) -> str:
        """The terms of its words."""
        if self.terms is not None:
            return self.terms
        return prepare(self.content if self.words is None else self.words, version)


@dataclass(frozen=True)
class StagedVersion:
    """All chunks of one version of one source; none where it adds nothing to a version of another source."""

    source_id: UUID
    checksum: str
    chunks: Sequence[StagedChunk]
    duplicate_of: UUID | None = None
    duplicate_checksum: str | None = None
    triples: Sequence[tuple[Triple, Place]] = ()  # that the profile's model found in them


@dataclass(frozen=True)
class Published:
    """What one transaction did."""

    sources: int
    chunks: int
    superseded: int  # staged versions that were no longer current, and were left alone


@dataclass(frozen=True)
class _Transaction:
    """A transaction of a publisher, and what it gives to all named queries."""

    connection: Connection
    values: Mapping[str, Any]

    def execute(self, name: str, **values: Any) -> Cursor[Any]:
        """Run a named query; the profile id goes in as a literal, so that one partition is planned."""
        return self.connection.execute(self._statement(name), {**self.values, **values})

    def scalars(self, name: str, **values: Any) -> list[Any]:
        """The only column of a named query's rows."""
        return scalars(self.connection, self._statement(name), {**self.values, **values})

    def scalar(self, name: str, **values: Any) -> Any:
        """The only column of a named query's only row; None where there is none."""
        return scalar(self.connection, self._statement(name), {**self.values, **values})

    def _statement(self, name: str) -> sql.SQL | sql.Composed:
        statement = sql.SQL(query(name))
        return (
            statement.format(profile=sql.Literal(self.values["profile"])) if "{profile}" in query(name) else statement
        )


class Publisher:
    """Publishes into one profile, a transaction at a time. May be shared between threads."""

    def __init__(self, database: Database, built: BuiltProfile) -> None:
        self._database, self._built = database, built
        self._values: dict[str, Any] = {
            "profile": built.id,
            "space": built.space_id,
            "tenant": built.tenant,
            "bot": built.bot,
            "language": built.profile.lexical.language,
        }

    @contextmanager
    def _begun(self, lock: str = "lock_profile") -> Iterator[_Transaction]:
        with self._database.work(self._built.tenant, self._built.bot) as connection:
            transaction = _Transaction(connection, self._values)
            transaction.execute(lock)
            yield transaction

    @property
    def bot(self) -> str:
        """Whose sources are published."""
        return self._built.bot

    def has_length(self) -> bool:
        """Whether the profile has a mean chunk length to weigh words by."""
        with self._begun("share_profile") as transaction:
            return transaction.scalar("average_length") is not None

    def assume_length(self, texts: Sequence[tuple[str, str]]) -> None:
        """Fix the mean chunk length of a fresh profile from what is about to be published in it, of shared sources if
        there are any: pairs of a source's id and a text of it."""
        with self._begun() as transaction:
            if transaction.scalar("average_length") is not None or not texts:
                return
            private = {str(source) for source in transaction.scalars("private_sources")}
            counted = [text for source, text in texts if source not in private] or [text for _, text in texts]
            step = max(1, len(counted) // _SAMPLE)
            sample = [prepare(text, self._built.profile.terms) for text in counted[::step]]
            length = transaction.scalar("sample_length", texts=sample)
            transaction.execute("set_average_length", length=float(length or 1))

    def publish(self, versions: Sequence[StagedVersion]) -> Published:
        """Replace what is served of these sources by the staged versions; all of them or none.

        Raises:
            SourceError: the database refuses the data of one of them.
        """
        # Publishers share the profile; what one publishes, it locks source by source.
        with self._begun("share_profile") as transaction:
            try:
                return _publish(transaction, versions, self._built)
            except (psycopg.DataError, psycopg.IntegrityError, psycopg.errors.ProgramLimitExceeded) as error:
                raise SourceError(f"cannot be stored: {first_line(error)}") from error

    def fail(self, source_id: UUID, checksum: str, error: str, next_try_at: datetime | None = None) -> str:
        """Note that this version cannot be published; an older one stays served. Returns the source's name.

        `next_try_at`: when a run is asked for that tries it again; None: not for this.
        """
        with self._begun() as transaction:
            failure = {"checksum": checksum, "error": error, "next_try_at": next_try_at}
            transaction.execute("source_failed_in_profile", source=source_id, **failure)
            transaction.execute("source_failed", source=source_id, checksum=checksum, error=error)
            return str(transaction.scalar("source_name", source=source_id) or source_id)

    def try_again(self, moments: Mapping[UUID, datetime]) -> None:
        """Have published sources, of which a part had no answer, published again at these times."""
        if moments:
            with self._begun("share_profile") as transaction:
                transaction.execute("try_again", sources=list(moments), moments=list(moments.values()))

    def withdraw(self) -> int:
        """Take away the chunks of deleted and emptied sources, and texts that nothing serves or will serve;
        returns how many sources."""
        with self._begun() as transaction:
            sources = transaction.scalars("withdrawn_sources")
            if sources:
                transaction.execute("delete_chunks_of_sources", sources=sources)
                transaction.execute("withdraw_sources", sources=sources)
            transaction.execute("drop_leftover_documents")
            return len(sources)

    def complete(self) -> bool:
        """Mark the profile ready if nothing is missing; True if it became the bot's active one."""
        with self._begun() as transaction:
            return complete_profile(transaction.connection, self._built)

    def counts(self) -> tuple[int, int]:
        """Sources and chunks that the profile serves."""
        with self._begun() as transaction:
            return transaction.scalar("ready_sources"), transaction.scalar("chunk_count")


def _publish(transaction: _Transaction, versions: Sequence[StagedVersion], built: BuiltProfile) -> Published:
    # Flushed with the transaction that completes the publication. What a crash takes back before that is
    # taken back whole, and published again by the next run.
    transaction.connection.execute("SET LOCAL synchronous_commit = off")
    current = set(
        transaction.scalars(
            "current_versions",
            sources=[version.source_id for version in versions],
            checksums=[version.checksum for version in versions],
        )
    )
    live = [version for version in versions if version.source_id in current]
    sources = [version.source_id for version in live]
    _stage(transaction, live, built.profile.terms)
    transaction.execute("delete_chunks_of_sources", sources=sources)
    inserted = transaction.execute("insert_staged_chunks", sources=sources)
    if built.profile.options.graph is not None:
        transaction.execute("clear_extracted_triples", sources=sources)
        triples = [triple for version in live for triple in version.triples]
        space = Space(built.space_id, built.tenant, built.bot, None)
        analysis = Analysis(built.profile.lexical.language, built.profile.terms)
        write_triples(transaction.connection, space, analysis, triples, built.id)
    transaction.execute(
        "publish_sources",
        sources=sources,
        checksums=[version.checksum for version in live],
        counts=[len(version.chunks) for version in live],
        originals=[version.duplicate_of for version in live],
        original_checksums=[version.duplicate_checksum for version in live],
    )
    transaction.execute("sources_ready", sources=sources)
    transaction.execute("drop_old_documents", sources=sources)
    return Published(len(live), inserted.rowcount, len(versions) - len(live))


def _stage(transaction: _Transaction, versions: Sequence[StagedVersion], terms: TermsVersion) -> None:
    """Copy chunks, with their words and the weights of these, to where they lie until they are inserted."""
    average_length = transaction.scalar("average_length") or 1.0
    transaction.connection.execute(query("staged_chunks_table"))
    chunks = ((version.source_id, chunk) for version in versions for chunk in version.chunks)
    while group := list(islice(chunks, _STAGED_TOGETHER)):
        words = [chunk.prepared(terms) for _, chunk in group]
        analysed = transaction.connection.cursor(binary=True, row_factory=scalar_row).execute(
            query("analysed_texts"), {**transaction.values, "texts": words}
        )
        found = analysed.fetchall()
        weights = as_sparsevecs(weigh(found, average_length))
        with transaction.connection.cursor().copy(query("copy_staged_chunks")) as copy:
            copy.write(BINARY_COPY)
            for (source, chunk), fts, lexical in zip(group, found, weights, strict=True):
                copy.write(_binary_row(source, chunk, fts, lexical))
            copy.write(END_OF_COPY)


def _binary_row(source: UUID, chunk: StagedChunk, fts: bytes, lexical: bytes) -> bytes:
    vector = np.asarray(chunk.embedding, dtype=">f4")
    return copied_row(
        chunk.id.bytes,
        source.bytes,
        chunk.chunk_index.to_bytes(4, "big", signed=True),
        chunk.content.encode(),
        chunk.token_count.to_bytes(4, "big", signed=True),
        chunk.citation.encode(),
        chunk.metadata.encode(),
        fts,
        lexical,
        len(vector).to_bytes(2, "big") + b"\0\0" + vector.tobytes(),
    )
