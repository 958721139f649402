"""Bytes per chunk by part, and what an index finds, takes and costs by how it keeps vectors.

python -m bench.storage --data DIR [--collections scifact,...] [--models static-256,minilm] [--queries 200]

A server of its own, so that sizes and WAL are of these chunks alone. Each profile always builds its index, of the same
chunks and vectors; searches and builds take turns. Of the queries of a collection the first half is for choosing a
storage, the second for what is then told of it. `minilm` is all-MiniLM-L6-v2 and needs `make install-local`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql

from bench.common import HOME, environment, median, show, verdict
from rag_assets.embedding.profiles import EmbeddingProfile, IndexSpec, Storage, make_profile
from rag_assets.embedding.registry import embedder_for
from rag_assets.ingest.run import IngestReport, ingest
from rag_assets.store.database import Database
from rag_assets.store.indexes import ensure_hnsw
from rag_assets.store.migrate import migrate
from rag_assets.store.partitions import partition_name
from rag_assets.store.profiles import BuiltProfile, built_profile
from rag_assets.store.search import SearchRequest, search_chunks
from rag_assets.store.server import stop_server
from rag_assets.store.statements import Connection

BOT, K = "bench", 10
STATIC: dict[str, Any] = {"provider": "wordllama", "model": "l2_supercat_256"}
MINILM: dict[str, Any] = {"provider": "sentence-transformers", "model": "sentence-transformers/all-MiniLM-L6-v2"}
MODELS: Mapping[str, dict[str, Any]] = {
    "static-64": {**STATIC, "dimensions": 64},
    "static-128": {**STATIC, "dimensions": 128},
    "static-256": {**STATIC, "dimensions": 256},
    "minilm": {**MINILM, "dimensions": 384},
}
ROUNDING = 1e-6  # between two ways of adding up the same score
MAY_LOSE = 0.002  # recall@10 that a smaller storage may lose and still be the default
SHARED = ("embedding_cache", "source_documents", "knowledge_sources", "source_profiles", "lexeme_stats")
COLUMNS: Mapping[str, Sequence[str]] = {
    "content": ["content"],
    "citation, metadata": ["citation", "metadata"],
    "fts (tsvector)": ["fts"],
    "lexical (sparsevec)": ["lexical"],
    "embedding (vector)": ["embedding"],
    "ids, keys, numbers": ["id", "knowledge_space_id", "tenant_id", "bot_id", "source_id", "embedding_profile_id",
                           "chunk_index", "token_count", "created_at"],
}  # fmt: skip


@dataclass
class Half:
    """What a storage finds for one half of a collection's queries, and how long its searches take."""

    found: int = 0
    wanted: int = 0
    times: list[float] = field(default_factory=list)

    @property
    def recall(self) -> float:
        return self.found / max(self.wanted, 1)


@dataclass
class Measured:
    """A profile with one storage, over one collection."""

    built: BuiltProfile
    report: IngestReport
    wal: int
    halves: tuple[Half, Half] = field(default_factory=lambda: (Half(), Half()))
    build_s: list[float] = field(default_factory=list)
    build_wal: int = 0


def storages_of(model: Mapping[str, Any]) -> list[Storage]:
    """Those that a model's vectors can have."""
    return [one for one in get_args(Storage) if one != "bit" or model["dimensions"] >= 128]


def profile_of(name: str, storage: Storage) -> EmbeddingProfile:
    """A profile of the model that always has an index of this storage."""
    return make_profile(name=f"{name}-{storage}", index=IndexSpec(kind="hnsw", storage=storage), **MODELS[name])


def wal_bytes(owner: Connection) -> int:
    """What has been written to the log so far."""
    row = owner.execute("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()
    assert row is not None
    return int(row[0])


def ingested(database: Database, owner: Connection, corpus: Path, name: str) -> dict[Storage, Measured]:
    """The collection with each storage: read and embedded once, published once for each."""
    tenant, done = f"{corpus.parent.name}-{name}", {}
    for storage in storages_of(MODELS[name]):
        profile = profile_of(name, storage)
        before = wal_bytes(owner)
        report = ingest(database, tenant, BOT, profile, [corpus.resolve()])
        wal = wal_bytes(owner) - before
        with database.work(tenant) as connection:
            built = built_profile(connection, tenant, BOT, profile.name)
        done[storage] = Measured(built, report, wal)
    return done


def rebuild(database: Database, owner: Connection, done: Mapping[Storage, Measured], times: int) -> None:
    """Build each index anew, by turns."""
    for _ in range(times):
        for one in done.values():
            index = sql.Identifier("rag", f"{partition_name(one.built.id)}_hnsw")
            owner.execute(sql.SQL("DROP INDEX {}").format(index))
            before, started = wal_bytes(owner), time.perf_counter()
            assert ensure_hnsw(database, one.built).index_built
            one.build_s.append(time.perf_counter() - started)
            one.build_wal = wal_bytes(owner) - before


def search(database: Database, done: Mapping[Storage, Measured], vectors: Sequence[NDArray[np.float32]]) -> None:
    """Search each vector with each storage, by turns, and exactly. Found is what is as near as the last of the exact
    ones: of chunks that are equally near it does not matter which."""

    def scores(one: Measured, vector: NDArray[np.float32], exact: bool) -> list[float]:
        scope = {"tenant": one.built.tenant, "bot": BOT, "space": str(one.built.space_id), "profile": str(one.built.id)}
        request = SearchRequest("dense", vector, "", top_k=K, exact=exact, copies=True)
        return [row.score for row in search_chunks(connection, scope, request)]

    with database.session("app") as connection:
        for number, vector in enumerate(vectors):
            nearest = scores(done["vector"], vector, exact=True)
            for one in done.values():
                started = time.perf_counter()
                found = scores(one, vector, exact=False)
                half = one.halves[2 * number // len(vectors)]
                half.times.append(1000 * (time.perf_counter() - started))
                half.found += sum(score >= nearest[-1] - ROUNDING for score in found)
                half.wanted += len(nearest)


def parts_of(connection: Connection, one: Measured, sizes: Mapping[str, int]) -> list[tuple[str, int]]:
    """Bytes of a profile by part. What a row takes beyond its values is its header, alignment and free room in pages;
    values that are moved out of a row count with their column, in the size that they have there."""
    table = partition_name(one.built.id)
    name = sql.Identifier("rag", table)
    parts: list[tuple[str, int]] = []
    for part, columns in COLUMNS.items():
        widths = sql.SQL(" + ").join(sql.SQL("pg_column_size({})").format(sql.Identifier(c)) for c in columns)
        statement = sql.SQL("SELECT sum({})::bigint FROM {}").format(widths, name)
        parts.append((part, number_of(connection, statement)))
    whole = number_of(connection, sql.SQL("SELECT pg_table_size({})").format(sql.Literal(f"rag.{table}")))
    parts.append(("row headers, alignment, free room", whole - sum(size for _, size in parts)))
    toast = "SELECT pg_total_relation_size(reltoastrelid) FROM pg_class WHERE oid = to_regclass({})"
    moved = number_of(connection, sql.SQL(toast).format(sql.Literal(f"rag.{table}")))
    parts += [("table", whole), ("  of that TOAST", moved)]
    indexes = connection.execute(
        "SELECT c.relname, pg_relation_size(c.oid) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
        "WHERE i.indrelid = to_regclass(%s) ORDER BY 1", [f"rag.{table}"]
    ).fetchall()  # fmt: skip
    parts += [(f"index {index.removeprefix(f'{table}_')}", size) for index, size in indexes]
    parts.append(("profile", whole + sum(size for _, size in indexes)))
    parts += [(f"beside it: {table}", size) for table, size in sizes.items()]
    return [*parts, ("WAL of its ingest", one.wal), ("  of that HNSW", one.build_wal)]


def number_of(connection: Connection, statement: sql.Composed) -> int:
    """The one number that a statement returns."""
    row = connection.execute(statement).fetchone()
    assert row is not None
    return int(row[0])


def shared_sizes(connection: Connection) -> dict[str, int]:
    """Bytes of the tables that hold what belongs to no profile alone, with their indexes."""
    return {
        table: number_of(
            connection, sql.SQL("SELECT pg_total_relation_size({})").format(sql.Literal(f"rag.{table}"))
        )
        for table in SHARED
    }  # fmt: skip


def queries_of(collection: Path, limit: int) -> list[str]:
    """The first questions, every second one before the others: so both halves are of all parts of the file."""
    with (collection / "queries.jsonl").open(encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines][:limit]
    return texts[::2] + texts[1::2]


def measured(options: argparse.Namespace, collection: Path, name: str) -> dict[Storage, Measured]:
    """One collection with one model, on a server of its own."""
    HOME.mkdir(exist_ok=True)
    home = Path(tempfile.mkdtemp(prefix="storage-", dir=HOME))
    os.environ.update({**environment(), "RAG_HOME": str(home)})
    database = Database.from_settings()
    try:
        migrate(database)
        with psycopg.connect(database.url, autocommit=True) as owner:
            empty = shared_sizes(owner)
            done = ingested(database, owner, collection / "corpus.jsonl", name)
            rebuild(database, owner, done, options.builds)
            embedder = embedder_for(done["vector"].built.profile)
            texts = queries_of(collection, options.queries)
            search(database, done, [embedder.embed_query(text).vectors[0] for text in texts])
            grown = {table: size - empty[table] for table, size in shared_sizes(owner).items()}
            show_parts(collection.name, name, owner, done, grown)
        return done
    finally:
        database.close()
        stop_server(home)
        shutil.rmtree(home, ignore_errors=True)


def show_parts(
    collection: str, name: str, owner: Connection, done: Mapping[Storage, Measured], grown: Mapping[str, int]
) -> None:
    """Bytes per chunk, a column for each storage. What is beside a profile is there once for all three."""
    chunks = done["vector"].report.lexical.chunks
    # Published once for each storage, but read and embedded once.
    once = {table: size // (len(done) if table in ("source_profiles", "lexeme_stats") else 1)
            for table, size in grown.items()}  # fmt: skip
    columns = [dict(parts_of(owner, one, once)) for one in done.values()]
    names = dict.fromkeys(part for column in columns for part in column)
    rows = [[part, *(round(column.get(part, 0) / chunks) for column in columns)] for part in names]
    show(f"{collection}, {name}: bytes per chunk of {chunks} chunks", ["", *done], rows)


def show_options(results: Mapping[tuple[str, str], Mapping[Storage, Measured]]) -> None:
    """What each storage finds, takes and costs, beside `vector` of the same run."""
    rows: list[list[object]] = []
    for (name, collection), done in results.items():
        first = done["vector"]
        for storage, one in done.items():
            assert one.report.recall is not None
            tuned = one.report.recall
            size, chunks = one.report.hnsw.index_bytes, one.report.hnsw.chunks
            fast = median([*one.halves[0].times, *one.halves[1].times])
            rows.append([
                name, collection, storage, f"{one.halves[0].recall:.4f}", f"{one.halves[1].recall:.4f}",
                f"{tuned.recall:.3f} ef {tuned.ef_search}" + f" x {tuned.oversampling}" * (tuned.oversampling > 1),
                round(size / chunks), size / first.report.hnsw.index_bytes,
                min(one.build_s) / min(first.build_s),
                fast / median([*first.halves[0].times, *first.halves[1].times]),
            ])  # fmt: skip
    columns = ["model", "collection", "storage", "recall@10, one half", "the other", "tuned to", "bytes a chunk",
               "size", "build", "p50"]  # fmt: skip
    show("Storage of the HNSW index; size, build time and p50 as shares of vector's", columns, rows)


def lost(results: Mapping[tuple[str, str], Mapping[Storage, Measured]], storage: Storage, half: int) -> float:
    """The recall@10 that a storage loses to `vector` on a half of the queries, in the mean of collections and models:
    two graphs over the same vectors differ by up to .01 on 100 queries, either way."""
    differences = [
        done["vector"].halves[half].recall - done[storage].halves[half].recall
        for done in results.values()
        if storage in done
    ]
    return sum(differences) / len(differences)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds collections in BEIR layout")
    parser.add_argument("--collections", default="scifact", help="names, or `all`")
    parser.add_argument("--models", default="static-256", help=", ".join(MODELS))
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--builds", type=int, default=2)
    options = parser.parse_args()
    names = options.collections.split(",")
    folders = sorted(file.parent for file in options.data.glob("*/corpus.jsonl"))
    chosen = [folder for folder in folders if folder.name in names or names == ["all"]]
    results = {(name, folder.name): measured(options, folder, name)
               for name in options.models.split(",") for folder in chosen}  # fmt: skip
    show_options(results)
    for storage in get_args(Storage):
        if storage != "vector" and any(storage in done for done in results.values()):
            verdict(f"{storage}: recall@10 lost on the half to choose by", lost(results, storage, 0), MAY_LOSE,
                    at_least=False)  # fmt: skip
            verdict(f"{storage}: recall@10 lost on the other half", lost(results, storage, 1), MAY_LOSE, at_least=False)


if __name__ == "__main__":
    main()
