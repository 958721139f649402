"""Publication: whole sources replace their old versions, in one transaction.

A reader sees all of the old version or all of the new one. Small sources share a transaction, because a
commit costs more than they do; a source is never split over two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from psycopg import Cursor, sql
from psycopg.rows import scalar_row

from rag_assets.store.database import Connection, Database, set_scope
from rag_assets.store.lexical import lexical_text
from rag_assets.store.profiles import BuiltProfile, complete_profile
from rag_assets.store.sql import query

_SAMPLE = 200  # chunks whose mean length stands for all of a fresh profile


@dataclass(frozen=True)
class StagedChunk:
    """A chunk with its vector (d,) float32, ready to be published. `words` is what lexical search finds it by, where
    that is not its content."""

    id: UUID
    chunk_index: int
    content: str
    token_count: int
    citation: str  # JSON
    metadata: str  # JSON
    embedding: NDArray[np.float32]
    words: str | None = None


@dataclass(frozen=True)
class StagedVersion:
    """All chunks of one version of one source; none where it adds nothing to a version of another source."""

    source_id: UUID
    checksum: str
    chunks: Sequence[StagedChunk]
    duplicate_of: UUID | None = None
    duplicate_checksum: str | None = None


@dataclass(frozen=True)
class Published:
    """What one transaction did."""

    sources: int
    chunks: int
    superseded: int  # staged versions that were no longer current, and were left alone


class Publisher:
    """Publishes into one profile, over one connection. Use as a context manager."""

    def __init__(self, database: Database, built: BuiltProfile) -> None:
        self._built = built
        self._scope = {"tenant": built.tenant, "bot": built.bot}
        self._values: dict[str, Any] = {
            "profile": built.id,
            "space": built.space_id,
            "language": built.profile.lexical.language,
            **self._scope,
        }
        self._connection: Connection = database.connect("ingest")

    def __enter__(self) -> Publisher:
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()

    def _execute(self, name: str, **values: Any) -> Cursor[Any]:
        """Run a named query, of one column if it returns rows; the profile id goes in as a literal, so that one
        partition is planned."""
        statement = sql.SQL(query(name))
        composed = statement.format(profile=sql.Literal(self._built.id)) if "{profile}" in query(name) else statement
        return self._connection.cursor(row_factory=scalar_row).execute(composed, {**self._values, **values})

    def _begin(self, lock: str = "lock_profile") -> None:
        set_scope(self._connection, self._scope)
        self._execute(lock)

    def assume_length(self, texts: Sequence[str]) -> None:
        """Fix the mean chunk length of a fresh profile from what is about to be published in it."""
        with self._connection.transaction():
            self._begin()
            if self._execute("average_length").fetchone() is not None or not texts:
                return
            step = max(1, len(texts) // _SAMPLE)
            sample = [lexical_text(text) for text in texts[::step]]
            length = self._execute("sample_length", texts=sample).fetchone()
            self._execute("set_average_length", length=float(length or 1))

    def publish(self, versions: Sequence[StagedVersion]) -> Published:
        """Replace what is served of these sources by the staged versions; all of them or none."""
        with self._connection.transaction():
            # Publishers share the profile; what one publishes, it locks source by source.
            self._begin("share_profile")
            # Flushed with the transaction that completes the publication. What a crash takes back before that is
            # taken back whole, and published again by the next run.
            self._connection.execute("SET LOCAL synchronous_commit = off")
            current = set(
                self._execute(
                    "current_versions",
                    sources=[version.source_id for version in versions],
                    checksums=[version.checksum for version in versions],
                )
            )
            live = [version for version in versions if version.source_id in current]
            sources = [version.source_id for version in live]
            self._copy(live)
            length = self._execute("average_length").fetchone()
            self._execute("delete_chunks_of_sources", sources=sources)
            inserted = self._execute("insert_staged_chunks", sources=sources, length=length or 1.0)
            self._execute(
                "publish_sources",
                sources=sources,
                checksums=[version.checksum for version in live],
                counts=[len(version.chunks) for version in live],
                originals=[version.duplicate_of for version in live],
                original_checksums=[version.duplicate_checksum for version in live],
            )
            self._execute("sources_ready", sources=sources)
            self._execute("drop_old_documents", sources=sources)
            return Published(len(live), inserted.rowcount, len(versions) - len(live))

    def _copy(self, versions: Sequence[StagedVersion]) -> None:
        self._connection.execute(query("staged_chunks_table"))
        with self._connection.cursor().copy(query("copy_staged_chunks")) as copy:
            copy.set_types(["uuid", "uuid", "int4", "text", "text", "int4", "text", "text", "vector"])
            for version in versions:
                for chunk in version.chunks:
                    copy.write_row(
                        (
                            chunk.id,
                            version.source_id,
                            chunk.chunk_index,
                            chunk.content,
                            lexical_text(chunk.content if chunk.words is None else chunk.words),
                            chunk.token_count,
                            chunk.citation,
                            chunk.metadata,
                            chunk.embedding,
                        )
                    )

    def fail(self, source_id: UUID, checksum: str, error: str) -> str:
        """Note that this version cannot be published; an older one stays served. Returns the source's name."""
        with self._connection.transaction():
            self._begin()
            self._execute("source_failed_in_profile", source=source_id, checksum=checksum, error=error)
            self._execute("source_failed", source=source_id, checksum=checksum, error=error)
            return str(self._execute("source_name", source=source_id).fetchone() or source_id)

    def withdraw(self) -> int:
        """Take away the chunks of deleted and emptied sources, and texts that nothing serves or will serve;
        returns how many sources."""
        with self._connection.transaction():
            self._begin()
            sources = self._execute("withdrawn_sources").fetchall()
            if sources:
                self._execute("delete_chunks_of_sources", sources=sources)
                self._execute("withdraw_sources", sources=sources)
            self._execute("drop_leftover_documents")
            return len(sources)

    def complete(self) -> bool:
        """Mark the profile ready if nothing is missing; True if it became the bot's active one."""
        with self._connection.transaction():
            self._begin()
            return complete_profile(self._connection, self._built)

    def counts(self) -> tuple[int, int]:
        """Sources and chunks that the profile serves."""
        with self._connection.transaction():
            self._begin()
            (sources,), (chunks,) = self._execute("ready_sources"), self._execute("chunk_count")
            return sources, chunks
