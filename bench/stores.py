"""A profile copied into each store: what of the exact answer it finds, and how long a search takes beside pgvector.

python -m bench.stores --data DIR [--collection scifact] [--profile static-256] [--queries 200]

Chroma is left out where it is not installed.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from bench.common import environment, load_collection, percentile, rag, show, verdict
from rag_assets.embedding.registry import embedder_for
from rag_assets.retrieval import RetrievalScope, open_scope
from rag_assets.store.database import Database
from rag_assets.vector_stores import MemoryStore, PostgresStore, VectorStore, WritableStore, load

K = 10
PACKAGES = {"sqlite": "apsw", "chroma": "chromadb"}


def copies(folder: Path) -> dict[str, Callable[[], WritableStore]]:
    """The stores for development that can be made here."""
    makers: dict[str, Callable[[], WritableStore]] = {"memory": MemoryStore}
    for name, made in (("sqlite", "SqliteStore"), ("chroma", "ChromaStore")):
        if find_spec(PACKAGES[name]) is not None:
            kind: Any = getattr(import_module(f"rag_assets.vector_stores.{name}"), made)
            makers[name] = lambda kind=kind, name=name: kind(folder / name)  # type: ignore[misc]
    return makers


def size_of(folder: Path) -> float:
    """MiB of a file, or of all files in a folder."""
    files = [folder, *folder.parent.glob(f"{folder.name}-*")] if folder.is_file() else folder.rglob("*")
    return sum(one.stat().st_size for one in files if one.is_file()) / 2**20


def searched(
    stores: dict[str, VectorStore], scope: RetrievalScope, vectors: Sequence[NDArray[np.float32]]
) -> tuple[dict[str, list[list[UUID]]], dict[str, list[float]]]:
    """The ids that each store finds for each query, and the ms that it takes; the stores take turns."""
    found: dict[str, list[list[UUID]]] = {name: [] for name in stores}
    times: dict[str, list[float]] = {name: [] for name in stores}
    for store in stores.values():
        store.search(scope, vectors[0], K)  # files are read, connections opened
    for vector in vectors:
        for name, store in stores.items():
            started = time.perf_counter()
            results = store.search(scope, vector, K)
            times[name].append(1000 * (time.perf_counter() - started))
            found[name].append([one.chunk_id for one in results])
    return found, times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds the collection")
    parser.add_argument("--collection", default="scifact")
    parser.add_argument("--profile", default="static-256")
    parser.add_argument("--queries", type=int, default=200)
    options = parser.parse_args()
    os.environ.update(environment())
    collection = load_collection(options.data / options.collection)
    where = ("--tenant", options.collection, "--bot", "bench", "--profile", options.profile)
    rag("ingest", str(collection.corpus.resolve()), *where)
    database = Database.from_settings()
    scope = open_scope(database, options.collection, "bench", options.profile)
    texts = list(collection.queries.values())[: options.queries]
    vectors = [embedder_for(scope.profile).embed_query(text).vectors[0] for text in texts]
    with tempfile.TemporaryDirectory() as folder:
        stores: dict[str, VectorStore] = {
            "pgvector": PostgresStore(database), "pgvector, exact": PostgresStore(database, exact=True)
        }  # fmt: skip
        filled: dict[str, float] = {}
        for name, make in copies(Path(folder)).items():
            stores[name] = copied = make()
            started = time.perf_counter()
            load(database, scope, copied)
            filled[name] = time.perf_counter() - started
        found, times = searched(stores, scope, vectors)
        sizes = {name: size_of(Path(folder) / name) for name in stores if (Path(folder) / name).exists()}
        chunks = stores["pgvector"].count(scope)
        for store in stores.values():
            store.close()
    database.close()
    exact = found["memory"]
    recalls = {
        name: float(np.mean([len(set(one) & set(best)) / len(best) for one, best in zip(ids, exact, strict=True)]))
        for name, ids in found.items()
    }
    base = percentile(times["pgvector"], 0.5)
    rows = [
        [
            name, recalls[name], percentile(ms, 0.5), percentile(ms, 0.5) / base, percentile(ms, 0.95),
            filled.get(name, "-"), sizes.get(name, "-"),
        ]
        for name, ms in times.items()
    ]  # fmt: skip
    columns = ["store", f"recall@{K}", "p50 ms", "x pgvector", "p95 ms", "copied in s", "MiB"]
    show(f"{options.collection}, {chunks} chunks of {scope.profile.dimensions}, {len(texts)} queries", columns, rows)
    for name in ("pgvector, exact", "sqlite"):
        if name in recalls:
            verdict(f"{name}: recall@{K}", recalls[name], 0.999)


if __name__ == "__main__":
    main()
