"""Hybrid fusion through the product beside min-max over cut-off lists, on several collections.

python -m bench.fusion --data DIR [--collections scifact stackfaq cosqa cranfield]

The product scores every candidate of either list on both sides; the usual way gives a chunk that is absent from
a list 0 and stretches each list from its own worst to its best.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

from bench.common import Collection, environment, load_collection, rag, score, show
from rag_assets.retrieval import DenseRetriever, HybridRetriever, LexicalRetriever, Retrieval, open_scope
from rag_assets.store.database import Database

DEPTH = 100
PROFILE = "static-256"


def cut_off(found: Retrieval) -> Mapping[object, float]:
    """Min-max over the list as it was returned, by chunk id."""
    if not found.results:
        return {}
    low, high = found[-1].score, found[0].score
    return {r.chunk_id: 1.0 if high == low else (r.score - low) / (high - low) for r in found}


def measure(database: Database, tenant: str, collection: Collection) -> list[list[object]]:
    """One row for each way of fusing."""
    scope = open_scope(database, tenant, "bench", PROFILE)
    dense, lexical = DenseRetriever(database), LexicalRetriever(database)
    ways = {
        "both scores, from the floor": HybridRetriever(database),
        "rrf": HybridRetriever(database, fusion="rrf"),
    }
    runs: dict[str, dict[str, list[str]]] = {name: {} for name in (*ways, "cut-off lists")}
    for query, text in collection.queries.items():
        for name, retriever in ways.items():
            found = retriever.search(text, scope, top_k=50)
            runs[name][query] = list(dict.fromkeys(r.citation["document"] for r in found))
        lists = [leg.search(text, scope, top_k=DEPTH) for leg in (dense, lexical)]
        shares = [cut_off(found) for found in lists]
        documents = {r.chunk_id: r.citation["document"] for found in lists for r in found}
        ranked = sorted(documents, key=lambda chunk: (-sum(s.get(chunk, 0.0) for s in shares), str(chunk)))
        runs["cut-off lists"][query] = list(dict.fromkeys(documents[chunk] for chunk in ranked))
    return [[tenant, name, *score(collection, run).values()] for name, run in runs.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds the collections")
    parser.add_argument("--collections", nargs="+", default=["scifact", "stackfaq", "cosqa", "cranfield"])
    options = parser.parse_args()
    os.environ.update(environment())
    rows: list[list[object]] = []
    for name in options.collections:
        collection = load_collection(options.data / name)
        rag("ingest", str(collection.corpus.resolve()), "--tenant", name, "--bot", "bench", "--profile", PROFILE)
        database = Database.from_settings()
        rows += measure(database, name, collection)
        database.close()
    show(f"Fusion, {PROFILE}", ["collection", "way", "nDCG@10", "Recall@5", "hit rate@5", "MRR@10"], rows)


if __name__ == "__main__":
    main()
