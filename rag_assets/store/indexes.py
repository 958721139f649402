"""Indexes and search statistics of one profile."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from psycopg import sql
from psycopg.errors import DiskFull

from rag_assets.store.database import Connection, Database, as_array
from rag_assets.store.partitions import build_index, index_is_valid, partition_name
from rag_assets.store.profiles import BuiltProfile
from rag_assets.store.search import SearchRequest, run_search
from rag_assets.store.sql import query

REFRESH_SHARE = 0.05  # statistics are counted anew once this share of chunks has come or gone
DRIFT_SHARE = 0.10  # BM25 weights are rebuilt once the mean length is off by this share
REBUILD_FACTOR = 2.0  # an HNSW graph that has grown by this factor since its build is built anew
MIN_RECALL = 0.99
ONLINE_CHUNKS = 100_000  # a smaller index is built in seconds, which publishers wait for and readers do not notice
_EF_STEPS = (64, 100, 200, 400, 800)
_METRIC_OPS = {"cosine": "cosine_ops", "ip": "ip_ops", "l2": "l2_ops"}
_LENGTH_SAMPLE = 2000  # chunks whose mean length stands for all
_FLOOR_SAMPLE, _MIN_FLOOR_SAMPLE = 200, 20
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
    """What was done for dense search; `searched` is "exact" or "hnsw"."""

    chunks: int
    searched: str
    exact_below: int
    index_built: bool
    index_bytes: int


@dataclass(frozen=True)
class RecallReport:
    """recall@10 of the index against exact search, over `queries` stored vectors, at `ef_search`."""

    recall: float
    ef_search: int
    queries: int


def _compose(name: str, built: BuiltProfile) -> sql.Composed:
    return sql.SQL(query(name)).format(profile=sql.Literal(built.id))


def _size(connection: Connection, index: str) -> int:
    row = connection.execute("SELECT pg_relation_size(to_regclass(%s))", [f"rag.{index}"]).fetchone()
    return int(row[0] or 0) if row else 0


def _count_chunks(database: Database, built: BuiltProfile) -> int:
    with database.transaction("ingest", {"tenant": built.tenant}) as connection:
        row = connection.execute(_compose("chunk_count", built)).fetchone()
    return int(row[0]) if row else 0


def refresh_lexical(database: Database, built: BuiltProfile) -> LexicalReport:
    """Make sure of the GIN index, and count lexemes anew or rebuild BM25 weights where they have drifted."""
    index = f"{partition_name(built.id)}_fts"
    with database.connect("owner", autocommit=True) as connection:
        table = sql.Identifier("rag", partition_name(built.id))
        built_now = build_index(
            connection,
            index,
            # Without the pending list every search costs the same, whatever was inserted before it.
            sql.SQL("{} USING gin (fts) WITH (fastupdate = off)").format(table),
            online=_count_chunks(database, built) >= ONLINE_CHUNKS,
        )
        index_bytes = _size(connection, index)
    values: dict[str, Any] = {"profile": built.id, "tenant": built.tenant}
    with database.transaction("ingest", {"tenant": built.tenant}) as connection:
        connection.execute(query("lock_profile"), values)
        chunks, length, refreshed, rebuilt = _refresh_statistics(connection, built, values)
        row = connection.execute(
            "SELECT count(*) FROM rag.lexeme_stats WHERE embedding_profile_id = %(profile)s", values
        ).fetchone()
    if refreshed:
        _analyze(database, built)
    lexemes = int(row[0]) if row else 0
    return LexicalReport(chunks, lexemes, length, built_now, refreshed, rebuilt, index_bytes)


def _refresh_statistics(
    connection: Connection, built: BuiltProfile, values: dict[str, Any]
) -> tuple[int, float, bool, bool]:
    """Chunks, mean length, whether lexemes were counted, whether weights were rebuilt."""
    state = connection.execute(query("index_state"), values).fetchone()
    counted = connection.execute(_compose("chunks_since_statistics", built)).fetchone()
    assert state is not None
    assert counted is not None
    assumed, at_statistics = state[0] or 0.0, state[1]
    chunks, come = counted
    gone = max(at_statistics - (chunks - come), 0)
    # An edit is one chunk gone and one come: the number alone would never show it.
    if come + gone == 0 or come + gone < REFRESH_SHARE * at_statistics:
        return chunks, assumed, False, False
    percent = 100.0 if chunks <= _LENGTH_SAMPLE else 100.0 * _LENGTH_SAMPLE / chunks
    measured = connection.execute(_compose("measured_length", built), {"percent": percent}).fetchone()
    length = float(measured[0] or 1.0) if measured else 1.0
    rebuilt = chunks > 0 and abs(length - assumed) > DRIFT_SHARE * max(assumed, 1e-9)
    if rebuilt:
        connection.execute(_compose("reweigh_chunks", built), {"length": length})
    connection.execute(query("forget_lexeme_stats"), values)
    connection.execute(_compose("count_lexemes", built), values)
    kept = length if rebuilt else assumed
    sample = [
        as_array(row[0]) for row in connection.execute(_compose("sample_vectors", built), {"limit": _FLOOR_SAMPLE})
    ]
    connection.execute(
        query("statistics_refreshed"),
        {**values, "chunks": chunks, "length": kept, "dense_floor": dense_floor(sample)},
    )
    return chunks, kept, True, rebuilt


def dense_floor(sample: Sequence[NDArray[np.float32]]) -> float:
    """The cosine that the least related of some chunks have; 0 for fewer than 20, which say little.

    Models differ: unrelated texts score about 0 with some and .7 with others, and fusion must know.
    """
    if len(sample) < _MIN_FLOOR_SAMPLE:
        return 0.0
    vectors = np.stack(sample)
    return float((vectors @ vectors.T).min())


def _analyze(database: Database, built: BuiltProfile) -> None:
    with database.connect("owner", autocommit=True) as connection:
        connection.execute(sql.SQL("ANALYZE {}").format(sql.Identifier("rag", partition_name(built.id))))
        connection.execute("ANALYZE rag.lexeme_stats, rag.knowledge_sources, rag.source_profiles, rag.source_documents")


def ensure_hnsw(database: Database, built: BuiltProfile) -> HnswReport:
    """Build, rebuild or drop the HNSW index as the profile's index policy and its size ask for."""
    profile = built.profile
    chunks = _count_chunks(database, built)
    with database.transaction("ingest", {"tenant": built.tenant}) as connection:
        state = connection.execute(query("index_state"), {"profile": built.id}).fetchone()
    at_build = state[2] if state else 0
    exact_below = profile.index.exact_rows(profile.dimensions)
    index = f"{partition_name(built.id)}_hnsw"
    with database.connect("owner", autocommit=True) as connection:
        if chunks == 0 or not profile.index.builds_hnsw(chunks, profile.dimensions):
            connection.execute(sql.SQL("DROP INDEX IF EXISTS {}").format(sql.Identifier("rag", index)))
            return HnswReport(chunks, "exact", exact_below, False, 0)
        _size_build(connection, chunks, built)
        definition = sql.SQL(
            "{table} USING hnsw ((embedding::{type}({dims})) {ops}) WITH (m = {m}, ef_construction = {ef})"
        ).format(
            table=sql.Identifier("rag", partition_name(built.id)),
            type=sql.SQL(profile.index_type),
            dims=sql.Literal(profile.dimensions),
            ops=sql.SQL(f"{profile.index_type}_{_METRIC_OPS[profile.distance_metric]}"),
            m=sql.Literal(profile.index.m),
            ef=sql.Literal(profile.index.ef_construction),
        )
        online = chunks >= ONLINE_CHUNKS
        if index_is_valid(connection, index) and at_build and chunks > REBUILD_FACTOR * at_build:
            connection.execute(sql.SQL("REINDEX INDEX CONCURRENTLY {}").format(sql.Identifier("rag", index)))
            built_now = True
        else:
            built_now = _build_with_memory(connection, index, definition, online)
        index_bytes = _size(connection, index)
    if built_now:
        with database.transaction("ingest", {"tenant": built.tenant}) as connection:
            connection.execute(query("hnsw_built"), {"profile": built.id, "chunks": chunks})
    return HnswReport(chunks, "hnsw", exact_below, built_now, index_bytes)


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
    bytes_per_node = 4 * built.profile.dimensions + 48 * built.profile.index.m + 200
    needed = min(max(int(chunks * bytes_per_node * 1.3), _MIN_BUILD_MEMORY), _MAX_BUILD_MEMORY)
    connection.execute(sql.SQL("SET maintenance_work_mem = {}").format(sql.Literal(f"{needed >> 10}kB")))
    shared = shutil.disk_usage("/dev/shm").free if os.path.isdir("/dev/shm") else needed + 1
    workers = min(os.cpu_count() or 1, 8) - 1 if shared > needed else 0
    connection.execute(sql.SQL("SET max_parallel_maintenance_workers = {}").format(sql.Literal(max(workers, 1))))


def tune_recall(database: Database, built: BuiltProfile, queries: int = 30) -> RecallReport | None:
    """Measure the index's recall@10 against exact search and keep the smallest `ef_search` that reaches 0.99.

    None where the profile is searched exactly, which is recall 1 by construction, or is not served yet.
    """
    with database.connect("owner") as connection:
        if not index_is_valid(connection, f"{partition_name(built.id)}_hnsw"):
            return None
    with database.transaction("ingest", {"tenant": built.tenant}) as connection:
        rows = connection.execute(_compose("sample_vectors", built), {"limit": queries}).fetchall()
    vectors = [as_array(row[0]) for row in rows]
    scope = {"tenant": built.tenant, "bot": built.bot, "space": str(built.space_id), "profile": str(built.id)}
    with database.connect("app") as connection:
        exact = [_nearest(connection, scope, vector, exact=True) for vector in vectors]
        if not any(exact):
            return None
        for ef in _EF_STEPS:
            _keep_ef(database, built, ef, None)
            approximate = [_nearest(connection, scope, vector, exact=False) for vector in vectors]
            found = sum(len(a & e) for a, e in zip(approximate, exact, strict=True))
            recall = found / sum(len(e) for e in exact)
            if recall >= MIN_RECALL:
                break
    _keep_ef(database, built, ef, recall)
    return RecallReport(recall, ef, len(vectors))


def _nearest(connection: Connection, scope: dict[str, str], vector: NDArray[np.float32], *, exact: bool) -> set[Any]:
    request = SearchRequest(mode="dense", vector=vector, text="", top_k=10, exact=exact)
    return {row.chunk_id for row in run_search(connection, scope, request)}


def _keep_ef(database: Database, built: BuiltProfile, ef_search: int, recall: float | None) -> None:
    with database.transaction("ingest", {"tenant": built.tenant}) as connection:
        connection.execute(query("hnsw_tuned"), {"profile": built.id, "ef_search": ef_search, "recall": recall})
