"""Chunks in one file, searched exactly by SQLite with sqlite-vec: for development without a server, and for tests.

Python is often built without SQLite's extensions (pyenv's, macOS'), so SQLite comes with `apsw`. What stands here is
SQLite's SQL, which nothing else of this product speaks. It needs `pip install apsw sqlite-vec`.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from rag_assets.errors import DatabaseFailed, DatabaseUnavailable, RagError, UsageError
from rag_assets.retrieval.results import RetrievalResult
from rag_assets.vector_stores.local import Held, LocalStore, Part, profile_of, to_found
from rag_assets.vector_stores.matching import MATCHED, lets_through
from rag_assets.vector_stores.protocol import StoredChunk, StoredSource

try:
    import apsw
    import sqlite_vec
except ImportError as error:
    raise ImportError(
        f"rag_assets.vector_stores.sqlite needs apsw and sqlite-vec: pip install apsw sqlite-vec ({error})",
        name=error.name,
    ) from error

_OURS = 0x72616701  # in the header of the file, so that another database is not taken for ours
_VERSION = 1
_WAIT_MS = 30_000  # for another process that writes
_CACHE_KIB = 64 * 1024  # of a connection: the vectors, which every search reads, should stay there
_TABLES = """
    CREATE TABLE parts (
        id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL, bot TEXT NOT NULL, space TEXT NOT NULL,
        profile_id INTEGER NOT NULL, profile TEXT NOT NULL, origin TEXT, floors TEXT NOT NULL,
        is_shared INTEGER NOT NULL, written INTEGER NOT NULL);
    CREATE TABLE sources (
        id INTEGER PRIMARY KEY, part INTEGER NOT NULL REFERENCES parts, source_id BLOB NOT NULL, name TEXT NOT NULL,
        source_type TEXT NOT NULL, locale TEXT, content_type TEXT, metadata TEXT NOT NULL, space TEXT NOT NULL,
        user_id TEXT, UNIQUE (part, source_id));
    CREATE INDEX private_sources ON sources (part) WHERE user_id IS NOT NULL;
    CREATE TABLE chunks (
        id INTEGER PRIMARY KEY, source INTEGER NOT NULL REFERENCES sources ON DELETE CASCADE, content TEXT NOT NULL,
        token_count INTEGER NOT NULL, citation TEXT NOT NULL, metadata TEXT NOT NULL);
    CREATE INDEX chunks_of_source ON chunks (source);
    CREATE TABLE vectors (
        chunk INTEGER PRIMARY KEY REFERENCES chunks ON DELETE CASCADE, part INTEGER NOT NULL, source INTEGER NOT NULL,
        chunk_id BLOB NOT NULL, vector BLOB NOT NULL);
    CREATE INDEX vectors_of_part ON vectors (part);
"""
_SOURCE = "source_id, name, source_type, locale, content_type, metadata, space, user_id"
_NEAREST = """
    SELECT v.chunk, vec_distance_cosine(v.vector, :vector) AS distance FROM vectors v
    WHERE v.part = :part AND (:sources IS NULL OR v.source IN (SELECT value FROM json_each(:sources)))
    ORDER BY distance, v.chunk_id LIMIT :top_k
"""


class SqliteStore(LocalStore):
    """Everything in one file, of which a write is kept whole or not at all. Several processes may read it, while one
    writes."""

    filters = MATCHED

    def __init__(self, path: str | Path) -> None:
        """The store in this file, which is made if it is not there, readable by its owner alone.

        Raises:
            UsageError: the file is something else, or of a later version.
            DatabaseUnavailable, DatabaseFailed: it cannot be opened.
        """
        self._path = Path(path)
        self._idle: list[apsw.Connection] = []
        self._lock = threading.Lock()
        with _as_ours(self._path):
            if not self._path.exists():
                os.close(os.open(self._path, os.O_CREAT, 0o600))
            with self._lent() as connection:
                self._prepare(connection)

    def close(self) -> None:
        """See `VectorStore.close`. A search that is running ends first, and closes its own connection."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _prepare(self, connection: apsw.Connection) -> None:
        def header(name: str) -> int:
            return int(connection.pragma(name))

        with connection:
            connection.execute("SELECT count(*) FROM sqlite_schema")
            if header("application_id") == 0 and not connection.execute("SELECT 1 FROM sqlite_schema").fetchone():
                connection.execute(_TABLES)
                connection.pragma("application_id", _OURS)
                connection.pragma("user_version", _VERSION)
            if header("application_id") != _OURS or header("user_version") != _VERSION:
                raise UsageError(f"{self._path} is no store of this version: name another file, or make it anew")
        # Readers see the last write, and wait for none. It is written into the file: ours alone may get it.
        connection.pragma("journal_mode", "wal")

    @contextmanager
    def _lent(self) -> Iterator[apsw.Connection]:
        """A connection for one operation; the file's errors are ours."""
        with _as_ours(self._path):
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            connection = connection or self._connected()
            try:
                yield connection
            finally:
                with self._lock:
                    keep = not self._is_closed
                    if keep:
                        self._idle.append(connection)
                if not keep:
                    connection.close()

    def _connected(self) -> apsw.Connection:
        # Whole, so that SQLite takes no name for another meaning, as ":memory:".
        connection = apsw.Connection(str(self._path.absolute()), flags=apsw.SQLITE_OPEN_READWRITE)
        connection.set_busy_timeout(_WAIT_MS)
        connection.enable_load_extension(True)
        connection.load_extension(sqlite_vec.loadable_path())
        connection.enable_load_extension(False)
        connection.pragma("foreign_keys", True)
        connection.pragma("cache_size", -_CACHE_KIB)
        connection.transaction_mode = "IMMEDIATE"  # a writer waits at its start, and not in the middle
        return connection

    def _held(self, part: Part) -> Held | None:
        with self._lent() as connection:
            found = _held_rows(connection, "WHERE key = ?", (part.key,))
        return found[0] if found else None

    def _all_held(self) -> list[Held]:
        with self._lent() as connection:
            return _held_rows(connection, "ORDER BY written", ())

    def _nearest(
        self, part: Part, vector: NDArray[np.float32], top_k: int, user_id: str | None, filters: Mapping[str, Any]
    ) -> list[RetrievalResult]:
        with self._lent() as connection, _reading(connection):
            sources = _visible(connection, part, user_id, filters)
            values = {"part": _number(connection, part), "vector": vector.tobytes(), "top_k": top_k, "sources": sources}
            best = connection.execute(_NEAREST, values).fetchall()
            return [_found(connection, *one) for one in best]

    def _count(self, part: Part, user_id: str | None) -> int:
        with self._lent() as connection:
            query = (
                "SELECT count(*) FROM chunks c JOIN sources s ON s.id = c.source "
                "WHERE s.part = ? AND (s.user_id IS NULL OR s.user_id = ?)"
            )
            return int(connection.execute(query, (_number(connection, part), user_id)).get)

    def _source_ids(self, part: Part) -> set[UUID]:
        with self._lent() as connection:
            query = "SELECT source_id FROM sources WHERE part = ?"
            return {UUID(bytes=row[0]) for row in connection.execute(query, (_number(connection, part),))}

    def _write(self, held: Held, sources: Sequence[StoredSource]) -> None:
        with self._lent() as connection, connection:
            _put_part(connection, held)
            number = _number(connection, held.part)
            _drop(connection, number, {source.id for source in sources})
            for source in sources:
                _put_source(connection, number, source)

    def _delete(self, part: Part, source_ids: set[UUID]) -> int:
        with self._lent() as connection, connection:
            dropped = _drop(connection, _number(connection, part), source_ids)
        return dropped


@contextmanager
def _as_ours(path: Path) -> Iterator[None]:
    try:
        yield
    except RagError:
        raise
    except (apsw.BusyError, apsw.LockedError, apsw.CantOpenError, OSError) as error:
        raise DatabaseUnavailable(f"{path} cannot be opened, or another process holds it: {error}") from error
    except apsw.NotADBError as error:
        raise UsageError(f"{path} is no SQLite file: name another one") from error
    except (apsw.Error, ValueError) as error:  # or a value in it is none of ours: the file is damaged
        raise DatabaseFailed(f"{path}: {error}") from error


@contextmanager
def _reading(connection: apsw.Connection) -> Iterator[None]:
    """One state of the file for all that is read: not half of another process' write."""
    connection.execute("BEGIN DEFERRED")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _held_rows(connection: apsw.Connection, where: str, values: tuple[Any, ...]) -> list[Held]:
    rows = connection.execute(
        f"SELECT tenant, bot, space, profile_id, profile, origin, floors, is_shared FROM parts {where}", values
    )
    return [
        Held(Part(tenant, bot, UUID(space), id_), profile_of(profile), origin, json.loads(floors), bool(is_shared))
        for tenant, bot, space, id_, profile, origin, floors, is_shared in rows
    ]


def _number(connection: apsw.Connection, part: Part) -> int | None:
    """The row of a part; None, which equals nothing, where it is not there."""
    row = connection.execute("SELECT id FROM parts WHERE key = ?", (part.key,)).fetchone()
    return row[0] if row else None


def _visible(connection: apsw.Connection, part: Part, user_id: str | None, filters: Mapping[str, Any]) -> str | None:
    """The rows of the sources that may be searched, as JSON; None for all of the part."""
    number = _number(connection, part)
    private = "SELECT 1 FROM sources WHERE part = ? AND user_id IS NOT NULL"
    if not filters and not connection.execute(private, (number,)).fetchone():
        return None
    rows = connection.execute(f"SELECT id, {_SOURCE} FROM sources WHERE part = ?", (number,))
    return _json([row[0] for row in rows if lets_through(_source(row[1:]), user_id, filters)])


def _source(row: Sequence[Any]) -> StoredSource:
    id_, name, source_type, locale, content_type, metadata, space, user_id = row
    described = json.loads(metadata)
    return StoredSource(UUID(bytes=id_), name, [], source_type, locale, content_type, described, space, user_id)


def _found(connection: apsw.Connection, row: Any, distance: Any) -> RetrievalResult:
    query = (
        "SELECT v.chunk_id, c.content, c.token_count, c.citation, c.metadata, "
        f"{', '.join(f's.{name}' for name in _SOURCE.split(', '))} "
        "FROM vectors v JOIN chunks c ON c.id = v.chunk JOIN sources s ON s.id = c.source WHERE v.chunk = ?"
    )
    columns: Any = connection.execute(query, (row,)).fetchone()
    chunk_id, content, tokens, citation, metadata, *source = columns
    nothing = np.empty(0, dtype=np.float32)  # what is found has no vector with it
    chunk = StoredChunk(UUID(bytes=chunk_id), content, tokens, nothing, json.loads(citation), json.loads(metadata))
    return to_found(_source(source), chunk, 1 - distance)


def _put_part(connection: apsw.Connection, held: Held) -> None:
    part = held.part
    connection.execute(
        "INSERT INTO parts (key, tenant, bot, space, profile_id, profile, origin, floors, is_shared, written) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, (SELECT coalesce(max(written), 0) + 1 FROM parts)) "
        "ON CONFLICT (key) DO UPDATE SET profile = excluded.profile, origin = excluded.origin, "
        "floors = excluded.floors, is_shared = excluded.is_shared, written = excluded.written",
        (
            part.key, part.tenant, part.bot, str(part.space), part.profile_id, held.profile.model_dump_json(),
            held.origin, _json(held.floors), held.is_shared,
        ),
    )  # fmt: skip


def _put_source(connection: apsw.Connection, number: int | None, source: StoredSource) -> None:
    connection.execute(
        f"INSERT INTO sources (part, {_SOURCE}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            number, source.id.bytes, source.name, source.source_type, source.locale, source.content_type,
            _json(dict(source.metadata)), source.space, source.user_id,
        ),
    )  # fmt: skip
    row = connection.last_insert_rowid()
    for chunk in source.chunks:
        connection.execute(
            "INSERT INTO chunks (source, content, token_count, citation, metadata) VALUES (?, ?, ?, ?, ?)",
            (row, chunk.content, chunk.token_count, _json(dict(chunk.citation)), _json(dict(chunk.metadata))),
        )
        connection.execute(
            "INSERT INTO vectors (chunk, part, source, chunk_id, vector) VALUES (?, ?, ?, ?, ?)",
            (connection.last_insert_rowid(), number, row, chunk.id.bytes, chunk.vector.tobytes()),
        )


def _drop(connection: apsw.Connection, number: int | None, source_ids: set[UUID]) -> int:
    dropped = 0
    for id_ in source_ids:  # with their chunks, which are not counted
        connection.execute("DELETE FROM sources WHERE part = ? AND source_id = ?", (number, id_.bytes))
        dropped += connection.changes()
    return dropped
