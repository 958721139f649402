"""Indexes and search statistics of one profile."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from psycopg import sql
from psycopg.errors import DiskFull
from psycopg.rows import class_row, dict_row

from rag_assets.embedding.profiles import Storage
from rag_assets.processors import given_processors
from rag_assets.store.database import Connection, Database, as_array
from rag_assets.store.partitions import build_index, index_is_valid, partition_name
from rag_assets.store.profiles import BuiltProfile
from rag_assets.store.sql import first_row, query, scalar, scalars

REFRESH_SHARE = 0.05  # statistics are counted anew once this share of chunks has come or gone
DRIFT_SHARE = 0.10  # BM25 weights are rebuilt once the mean length is off by this share
REBUILD_FACTOR = 2.0  # an HNSW graph that has grown by this factor since its build is built anew
ONLINE_CHUNKS = 100_000  # a smaller index is built in seconds, which publishers wait for and readers do not notice
_METRIC_OPS = {"cosine": "cosine_ops", "ip": "ip_ops", "l2": "l2_ops"}
_BYTES_PER_DIMENSION: Mapping[Storage, float] = {"vector": 4, "halfvec": 2, "bit": 1 / 8}
_LENGTH_SAMPLE = 1000  # chunks whose mean length stands for all
_REPEATED = 4  # times that a text of a sample may stand on average, before all are looked through
_FLOOR_SAMPLE, _MIN_FLOOR_SAMPLE = 200, 20
_COUNTED_PAGES = 8192  # of 8 kB and about four chunks, whose lexemes the server counts together: some 70 MB
_GIN_BYTES = 4000  # of a chunk's words while the index is built, about
_MAX_GIN_MEMORY = 512 << 20  # more makes it no faster
_MIN_BUILD_MEMORY = 64 << 20
_MAX_BUILD_MEMORY = 4 << 30


@dataclass(frozen=True)
class LexicalReport:
    """What was done for lexical search."""

    chunks: int
    lexemes: int
    average_length: float
    index_built: bool
    statistics_refreshed: bool
    weights_rebuilt: bool
    index_bytes: int


@dataclass(frozen=True)
class HnswReport:
    """What was done for dense search; `searched` is "exact" or "hnsw", and `storage` how an index keeps vectors."""

    chunks: int
    searched: str
    exact_below: int
    index_built: bool
    index_bytes: int
    storage: Storage


def _compose(name: str, built: BuiltProfile) -> sql.Composed:
    return sql.SQL(query(name)).format(profile=sql.Literal(built.id))


def _size(connection: Connection, index: str) -> int:
    return scalar(connection, "SELECT pg_relation_size(to_regclass(%(index)s))", {"index": f"rag.{index}"}) or 0


@dataclass(frozen=True)
class _IndexState:
    """What is kept of a profile's statistics and indexes."""

    average_length: float | None
    chunks_at_statistics: int
    chunks_at_hnsw: int
    counts_shared_only: bool


@dataclass(frozen=True)
class _Found:
    """A profile's chunks, and one of its indexes as it is: `valid` as `index_is_valid` has it."""

    chunks: int
    valid: bool | None
    bytes: int


def _look_at(database: Database, built: BuiltProfile, index: str) -> _Found:
    with database.work(built.tenant) as connection:
        chunks = scalar(connection, _compose("chunk_count", built))
        return _Found(chunks, index_is_valid(connection, index), _size(connection, index))


def refresh_lexical(
    database: Database, built: BuiltProfile, with_statistics: Callable[[], object] | None = None
) -> LexicalReport:
    """Make sure of the GIN index, and count lexemes anew or rebuild BM25 weights where they have drifted.

    `with_statistics`: work of the caller's that needs the counts, and nothing else of this: it need not wait for it.
    """
    values: dict[str, Any] = {"profile": built.id, "tenant": built.tenant}
    # The index and the counts are made of the same rows, and neither needs the other.
    with ThreadPoolExecutor(1, thread_name_prefix="gin") as pool:
        gin = pool.submit(_ensure_gin, database, built)
        with database.work(built.tenant) as connection:
            connection.execute(query("lock_profile"), values)
            chunks, length, changed, rebuilt = _refresh_statistics(connection, built, values)
            lexemes = scalar(connection, query("lexeme_count"), values)
        analyzed = pool.submit(_analyze, database, built, changed) if changed else None  # after the index
        if with_statistics is not None:
            with_statistics()
        built_now, index_bytes = gin.result()
        if analyzed is not None:
            analyzed.result()
    return LexicalReport(chunks, lexemes, length, built_now, changed > 0, rebuilt, index_bytes)


def _ensure_gin(database: Database, built: BuiltProfile) -> tuple[bool, int]:
    """Whether the index was built now, and its size in bytes."""
    index = f"{partition_name(built.id)}_fts"
    found = _look_at(database, built, index)
    if found.valid:
        return False, found.bytes
    # Without the pending list every search costs the same, whatever was inserted before it.
    definition = sql.SQL("{} USING gin (fts) WITH (fastupdate = off)").format(
        sql.Identifier("rag", partition_name(built.id))
    )
    with database.session("owner") as connection:
        _give_memory(connection, min(found.chunks * _GIN_BYTES, _MAX_GIN_MEMORY))
        built_now = build_index(connection, index, definition, online=found.chunks >= ONLINE_CHUNKS)
        return built_now, _size(connection, index)


def _refresh_statistics(
    connection: Connection, built: BuiltProfile, values: dict[str, Any]
) -> tuple[int, float, int, bool]:
    """Chunks, mean length, how many had changed if lexemes were counted (else 0), whether weights were rebuilt."""
    state = _index_state(connection, built)
    counted = first_row(connection, dict_row, _compose("chunks_since_statistics", built))
    assert counted is not None
    assumed = state.average_length or 0.0
    chunks, come = counted["chunks"], counted["uncounted"]
    gone = max(state.chunks_at_statistics - (chunks - come), 0)
    # An edit is one chunk gone and one come: the number alone would never show it.
    few = come + gone == 0 or come + gone < REFRESH_SHARE * state.chunks_at_statistics
    if few and (state.counts_shared_only or not state.chunks_at_statistics):
        return chunks, assumed, 0, False
    percent = 100.0 if chunks <= _LENGTH_SAMPLE else 100.0 * _LENGTH_SAMPLE / chunks
    length = float(scalar(connection, _compose("measured_length", built), {"percent": percent}) or 1.0)
    rebuilt = chunks > 0 and abs(length - assumed) > DRIFT_SHARE * max(assumed, 1e-9)
    if rebuilt:
        connection.execute(_compose("reweigh_chunks", built), {"length": length})
    connection.execute(query("forget_lexeme_stats"), values)
    connection.execute(_compose("count_lexemes", built), {**values, "pages": _COUNTED_PAGES})
    kept = length if rebuilt else assumed
    sample = sample_vectors(connection, built, _FLOOR_SAMPLE)
    connection.execute(
        query("statistics_refreshed"),
        {**values, "chunks": chunks, "length": kept, "dense_floor": dense_floor(sample)},
    )
    return chunks, kept, max(come + gone, 1), rebuilt


def _index_state(connection: Connection, built: BuiltProfile) -> _IndexState:
    state = first_row(connection, class_row(_IndexState), query("index_state"), {"profile": built.id})
    assert state is not None
    return state


def sample_vectors(connection: Connection, built: BuiltProfile, limit: int) -> list[NDArray[np.float32]]:
    """Up to `limit` vectors of the profile, each (d,) float32; the same ones each time."""
    found: list[Any] = []
    # An index has the first ones in order. To be sure of enough with different texts, all chunks would be sorted.
    for among in (_REPEATED * limit, None):
        found = scalars(connection, _compose("sample_vectors", built), {"limit": limit, "among": among})
        if len(found) == limit:
            break
    return [as_array(vector) for vector in found]


def dense_floor(sample: Sequence[NDArray[np.float32]]) -> float:
    """The cosine that the least related of some chunks have; 0 for fewer than 20, which say little.

    Models differ: unrelated texts score about 0 with some and .7 with others, and fusion must know.
    """
    if len(sample) < _MIN_FLOOR_SAMPLE:
        return 0.0
    vectors = np.stack(sample)
    return float((vectors @ vectors.T).min())


def _analyze(database: Database, built: BuiltProfile, changed: int) -> None:
    with database.session("owner") as connection:
        connection.execute(sql.SQL("ANALYZE {}").format(sql.Identifier("rag", partition_name(built.id))))
        # These hold the rows of all tenants: what one of them changed is mostly not worth a look at everybody's.
        for name in scalars(connection, query("tables_to_analyze"), {"changed": changed}):
            connection.execute(sql.SQL("ANALYZE {}").format(sql.Identifier("rag", name)))


def ensure_hnsw(database: Database, built: BuiltProfile) -> HnswReport:
    """Build, rebuild or drop the HNSW index as the profile's index policy and its size ask for."""
    policy, dimensions = built.profile.index, built.profile.dimensions
    index = f"{partition_name(built.id)}_hnsw"
    found = _look_at(database, built, index)
    exact_below = policy.exact_rows(dimensions)
    if found.chunks == 0 or not policy.builds_hnsw(found.chunks, dimensions):
        if found.valid is not None:
            with database.session("owner") as connection:
                connection.execute(sql.SQL("DROP INDEX IF EXISTS {}").format(sql.Identifier("rag", index)))
        return HnswReport(found.chunks, "exact", exact_below, False, 0, policy.storage)
    with database.work(built.tenant) as connection:
        at_build = _index_state(connection, built).chunks_at_hnsw
    outgrown = bool(found.valid and at_build and found.chunks > REBUILD_FACTOR * at_build)
    if found.valid and not outgrown:
        if not at_build:  # whoever built it was killed before that was noted, and the server finished it
            _note_build(database, built, found.chunks)
        return HnswReport(found.chunks, "hnsw", exact_below, False, found.bytes, policy.storage)
    built_now, index_bytes = _build_hnsw(database, built, found.chunks, rebuild=outgrown)
    return HnswReport(found.chunks, "hnsw", exact_below, built_now, index_bytes, policy.storage)


def _build_hnsw(database: Database, built: BuiltProfile, chunks: int, *, rebuild: bool) -> tuple[bool, int]:
    """Whether the index was built now, and its size in bytes."""
    index = f"{partition_name(built.id)}_hnsw"
    with database.session("owner") as connection:
        _size_build(connection, chunks, built)
        if rebuild:
            # What a rebuild that was stopped has left would be kept up with every insert.
            for left in scalars(connection, query("rebuild_leftovers"), {"index": index}):
                connection.execute(sql.SQL("DROP INDEX IF EXISTS {}").format(sql.Identifier("rag", left)))
            connection.execute(sql.SQL("REINDEX INDEX CONCURRENTLY {}").format(sql.Identifier("rag", index)))
        built_now = rebuild or _build_with_memory(connection, index, _hnsw_definition(built), chunks >= ONLINE_CHUNKS)
        index_bytes = _size(connection, index)
    if built_now:
        _note_build(database, built, chunks)
    return built_now, index_bytes


def _note_build(database: Database, built: BuiltProfile, chunks: int) -> None:
    with database.work(built.tenant) as connection:
        connection.execute(query("hnsw_built"), {"profile": built.id, "chunks": chunks})


def _hnsw_definition(built: BuiltProfile) -> sql.Composed:
    """As rag.index_distance has it, or no search would use the index."""
    profile = built.profile
    of_bits = profile.index.storage == "bit"
    return sql.SQL(
        "{table} USING hnsw (({values}::{type}({dims})) {ops}) WITH (m = {m}, ef_construction = {ef})"
    ).format(
        table=sql.Identifier("rag", partition_name(built.id)),
        values=sql.SQL("binary_quantize(embedding)" if of_bits else "embedding"),
        type=sql.SQL(profile.index_type),
        dims=sql.Literal(profile.dimensions),
        ops=sql.SQL("bit_hamming_ops" if of_bits else f"{profile.index_type}_{_METRIC_OPS[profile.distance_metric]}"),
        m=sql.Literal(profile.index.m),
        ef=sql.Literal(profile.index.ef_construction),
    )


def _build_with_memory(connection: Connection, index: str, definition: sql.Composed, online: bool) -> bool:
    try:
        return build_index(connection, index, definition, online=online)
    except DiskFull:
        # A container's /dev/shm of 64 MB cannot hold the graph that parallel workers share.
        connection.execute("SET max_parallel_maintenance_workers = 0")
        return build_index(connection, index, definition, online=online)


def _size_build(connection: Connection, chunks: int, built: BuiltProfile) -> None:
    """Give the build the memory that its graph needs, and workers only if shared memory can hold it.

    A node takes its vector, about 2 * m neighbours of 16 bytes on the ground layer, and half as much above.
    """
    index = built.profile.index
    bytes_per_node = _BYTES_PER_DIMENSION[index.storage] * built.profile.dimensions + 48 * index.m + 200
    needed = _give_memory(connection, int(chunks * bytes_per_node * 1.3))
    shared = shutil.disk_usage("/dev/shm").free if os.path.isdir("/dev/shm") else needed + 1  # nosec B108
    workers = min(given_processors(), 8) - 1 if shared > needed else 0
    connection.execute(sql.SQL("SET max_parallel_maintenance_workers = {}").format(sql.Literal(max(workers, 1))))


def _give_memory(connection: Connection, wanted: int) -> int:
    """Let builds of this connection use so many bytes, within bounds; how many they are."""
    given = min(max(wanted, _MIN_BUILD_MEMORY), _MAX_BUILD_MEMORY)
    connection.execute(sql.SQL("SET maintenance_work_mem = {}").format(sql.Literal(f"{given >> 10}kB")))
    return given
