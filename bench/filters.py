"""Filters that let one in a hundred through: whether a search still finds k, and how long it takes.

python -m bench.filters --data DIR [--profile static-256]

The products of the Icecat collection by supplier: those of about 1 % of the products, each asked the same queries.
"""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from pathlib import Path
from typing import get_args

from bench.common import environment, load_collection, percentile, rag, show, verdict
from rag_assets.retrieval import open_scope
from rag_assets.retrieval.retrievers import RETRIEVERS
from rag_assets.store.database import Database
from rag_assets.store.search import Mode

COLLECTION = "icecat-chorus"
K = 10
SUPPLIERS, QUERIES = 5, 40


def suppliers(corpus: Path) -> tuple[dict[str, int], int]:
    """The suppliers whose share of the products is nearest to 1 %, with their counts, and the count of all products."""
    with corpus.open(encoding="utf-8") as lines:
        counts = Counter(json.loads(line)["metadata"].get("supplier") for line in lines)
    every = sum(counts.values())
    nearest = sorted((name for name in counts if name), key=lambda name: abs(counts[name] - every / 100))
    return {name: counts[name] for name in nearest[:SUPPLIERS]}, every


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help=f"folder that holds {COLLECTION}/")
    parser.add_argument("--profile", default="static-256")
    options = parser.parse_args()
    os.environ.update(environment())
    collection = load_collection(options.data / COLLECTION)
    chosen, every = suppliers(collection.corpus)
    where = ("--tenant", COLLECTION, "--bot", "bench", "--profile", options.profile)
    rag("ingest", str(collection.corpus.resolve()), *where)
    database = Database.from_settings()
    scope = open_scope(database, COLLECTION, "bench", options.profile)
    queries = list(collection.queries.values())[:QUERIES]
    rows: list[list[object]] = []
    for mode in get_args(Mode):
        retriever = RETRIEVERS[mode](database)
        full, times = 0, []
        for supplier in chosen:
            filters = {"where": {"supplier": {"equals": supplier}}}
            for query in queries:
                found = retriever.search(query, scope, K, filters)
                assert all(one.metadata["supplier"] == supplier for one in found)
                full += len(found) == K
                times.append(found.timings_ms["total"])
        rows.append([mode, len(times), full / len(times), percentile(times, 0.5), percentile(times, 0.95)])
    database.close()
    shares = ", ".join(f"{name} {count / every:.2%}" for name, count in chosen.items())
    columns = ["mode", "searches", f"with {K} results", "p50 ms", "p95 ms"]
    show(f"One supplier of {every} products: {shares}", columns, rows)
    for row in rows:
        if row[0] != "lexical":  # there only products with a word of the query are found
            verdict(f"{row[0]}: share of searches with {K} results", float(str(row[2])), 1.0)


if __name__ == "__main__":
    main()
