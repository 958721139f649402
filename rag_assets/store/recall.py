"""What an HNSW index finds of the nearest chunks, measured with the profile's own, and how far searches look in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from psycopg import sql
from psycopg.rows import class_row

from rag_assets.embedding.profiles import Storage
from rag_assets.store.copying import BINARY_COPY, END_OF_COPY
from rag_assets.store.database import Connection, Database
from rag_assets.store.indexes import sample_vectors
from rag_assets.store.partitions import index_is_valid, partition_name
from rag_assets.store.profiles import BuiltProfile
from rag_assets.store.search import SearchRequest, search_chunks
from rag_assets.store.sql import first_row, query
from rag_assets.store.statements import Scope

Floats = NDArray[np.float32]

MIN_RECALL = 0.99
# How far a search looks in the graph, and at how many times what it is to find: the first that is enough is kept. The
# last bounds what a search costs.
_STEPS: Mapping[Storage, Sequence[tuple[int, int]]] = {
    "vector": ((64, 1), (100, 1), (200, 1), (400, 1), (800, 1)),
    "halfvec": ((64, 1), (100, 1), (200, 1), (400, 1), (800, 1)),
    "bit": ((100, 5), (100, 10), (200, 20), (400, 40), (800, 80)),
}
_NEAREST = 10
_ROUNDING = 1e-5  # between two ways of adding up the same score
_OPPOSITE = 1e-3  # so short a sum of two vectors points nowhere
_PART_BYTES = 8 << 20  # of vectors that are compared at a time


@dataclass(frozen=True)
class RecallReport:
    """recall@10 of the index against exact search, over so many `queries`, at `ef_search`; of bits, `oversampling`
    times as many chunks are looked at as are asked for. Below `MIN_RECALL`, no step that is allowed reaches it. Of an
    index that was measured before, and of which little has changed since, that is told again, with 0 queries."""

    recall: float
    ef_search: int
    queries: int
    oversampling: int
    storage: Storage


@dataclass(frozen=True)
class _Tuning:
    ef_search: int
    oversampling: int
    recall: float | None


def tune_recall(database: Database, built: BuiltProfile, queries: int = 30) -> RecallReport | None:
    """Measure the index's recall@10 against exact search and keep the least work that reaches 0.99: the smallest
    `ef_search`, with bits also the smallest oversampling; the most that is allowed where none does.

    It is measured once the index was built, and once the profile's statistics were counted anew.

    None where the profile is searched exactly, which is recall 1 by construction, or is not served yet.
    """
    with database.work(built.tenant) as connection:
        if not index_is_valid(connection, f"{partition_name(built.id)}_hnsw"):
            return None
        if known := _known(connection, built):
            return known
        asked = _as_asked(sample_vectors(connection, built, 2 * queries))
        exact = nearest_scores(connection, built, asked)
    if not exact.size:
        return None
    storage = built.profile.index.storage
    *steps, most = _STEPS[storage]
    allowed = (1 - MIN_RECALL) * exact.size
    with database.asking() as connection:
        for ef, oversampling in steps:
            _keep_tuned(database, built, (ef, oversampling), None)
            missed = _missed(database, connection, built, asked, exact, allowed)
            if missed <= allowed:
                break
        else:
            ef, oversampling = most
            _keep_tuned(database, built, most, None)
            missed = _missed(database, connection, built, asked, exact, exact.size)
    recall = (exact.size - missed) / exact.size
    _keep_tuned(database, built, (ef, oversampling), recall)
    return RecallReport(recall, ef, len(asked), oversampling, storage)


def _known(connection: Connection, built: BuiltProfile) -> RecallReport | None:
    """What was measured, unless something has changed, or it was by an earlier version, which tried other steps."""
    storage = built.profile.index.storage
    found = first_row(connection, class_row(_Tuning), query("hnsw_tuning"), {"profile": built.id})
    if found is None or found.recall is None or (found.ef_search, found.oversampling) not in _STEPS[storage]:
        return None
    return RecallReport(found.recall, found.ef_search, 0, found.oversampling, storage)


def _as_asked(sample: Sequence[Floats]) -> list[Floats]:
    """What an index is measured with: a vector between each two of a sample, (d,) float32 at unit length.

    A question is near several chunks and is none of them. A graph finds stored vectors more easily: .998 of their
    nearest where it found .965 of those of real questions, and .976 of those of such vectors.
    """
    half = len(sample) // 2
    between = [one + other for one, other in zip(sample[:half], sample[half:], strict=False)]
    asked = [vector / norm for vector in between if (norm := np.linalg.norm(vector)) > _OPPOSITE]
    return asked or list(sample)


def nearest_scores(connection: Connection, built: BuiltProfile, asked: Sequence[Floats]) -> Floats:
    """Scores (n, up to 10) of the shared chunks that are nearest to n vectors, best first, as an exact search has them.

    All chunks are read once and compared here: n exact searches would read them n times.
    """
    best = np.empty((len(asked), 0), np.float32)
    if not asked:
        return best
    statement = sql.SQL(query("copy_vectors")).format(profile=sql.Literal(built.id))
    with connection.cursor().copy(statement) as copy:
        for vectors in _parts(copy, built.profile.dimensions):
            scores = _scores(np.stack(asked), vectors, built.profile.distance_metric)
            best = np.concatenate([best, scores], axis=1)
            if best.shape[1] > _NEAREST:
                best = np.partition(best, -_NEAREST, axis=1)[:, -_NEAREST:]
    return -np.sort(-best, axis=1)


def _parts(copied: Iterable[bytes | bytearray | memoryview], dimensions: int) -> Iterator[Floats]:
    """Vectors (m, d) from a binary copy of theirs, some at a time."""
    row = np.dtype([("lengths", "V10"), ("vector", ">f4", dimensions)])
    part = bytearray()
    skipped = len(BINARY_COPY)
    for data in copied:
        part += data
        if len(part) >= _PART_BYTES:
            rows = (len(part) - skipped) // row.itemsize
            yield np.frombuffer(part, row, rows, skipped)["vector"].astype(np.float32)
            part, skipped = part[skipped + rows * row.itemsize :], 0
    rows = (len(part) - skipped - len(END_OF_COPY)) // row.itemsize
    if rows:
        yield np.frombuffer(part, row, rows, skipped)["vector"].astype(np.float32)


def _scores(asked: Floats, vectors: Floats, metric: str) -> Floats:
    """How near m vectors are to n others (n, m), as a search has it."""
    products: Floats = asked @ vectors.T
    squares = np.einsum("md,md->m", vectors, vectors)
    own = np.einsum("nd,nd->n", asked, asked)[:, None]
    if metric == "cosine":
        products /= np.sqrt(squares * own)
    elif metric == "l2":
        products += 1 - (squares + own) / 2
    return np.clip(products, -1, 1)


def _missed(
    database: Database,
    connection: Connection,
    built: BuiltProfile,
    asked: Sequence[Floats],
    exact: Floats,
    allowed: float,
) -> int:
    """How many of the nearest searches do not find; where it is more than `allowed`, not all of them are counted."""
    scope = {"tenant": built.tenant, "bot": built.bot, "space": str(built.space_id), "profile": str(built.id)}
    missed = 0
    for vector, best in zip(asked, exact, strict=True):
        # Of chunks that are equally near it does not matter which.
        near = float(best[-1]) - _ROUNDING
        missed += len(best) - sum(score >= near for score in _nearest(connection, database.signed(scope), vector))
        if missed > allowed:
            break
    return missed


def _nearest(connection: Connection, scope: Scope, vector: Floats) -> list[float]:
    """Scores of the ten nearest chunks, best first; each copy of a text is one, for which no search goes on."""
    request = SearchRequest(mode="dense", vector=vector, text="", top_k=_NEAREST, copies=True)
    return [row.score for row in search_chunks(connection, scope, request)]


def _keep_tuned(database: Database, built: BuiltProfile, step: tuple[int, int], recall: float | None) -> None:
    with database.work(built.tenant) as connection:
        values = {"profile": built.id, "ef_search": step[0], "oversampling": step[1], "recall": recall}
        connection.execute(query("hnsw_tuned"), values)
