"""Dense, lexical and hybrid search on labelled collections, and every run scored by a second library.

python -m bench.quality --data DIR [--collections scifact stackfaq cosqa cranfield icecat-chorus] [--profile static-256]

A collection with `qrels/sku_known_item.tsv` is also asked for products by their part numbers and EANs.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import ir_measures

from bench.common import environment, rag, show, verdict
from evals.datasets import EvalSet, load_evalset
from evals.metrics import evaluate
from evals.runner import run_queries
from evals.runs import RetrievalRun
from rag_assets.store.database import Database
from rag_assets.store.search import Mode

_SHOWN = ("ndcg@10", "recall@5", "hit_rate@5", "mrr@10")
_SKUS = "sku_known_item"
_SKU_RECALL = 0.97
_PEERS = {"ndcg@10": "nDCG@10", "recall@5": "R@5", "mrr@10": "RR@10"}


def disagreement(evalset: EvalSet, run: RetrievalRun, means: dict[str, float]) -> float:
    """The largest difference of a mean between our metrics and ir_measures'."""
    judged = {query: dict(labels) for query, labels in evalset.qrels.items() if any(g > 0 for g in labels.values())}
    scores = {
        query: {document: -float(rank) for rank, (document, _) in enumerate(run.rankings[query])}
        for query in judged
        if query in run.rankings
    }
    peers = ir_measures.calc_aggregate([ir_measures.parse_measure(name) for name in _PEERS.values()], judged, scores)
    values = {str(measure): value for measure, value in peers.items()}
    return max(abs(values[peer] - means[name]) for name, peer in _PEERS.items())


def modes(database: Database, tenant: str, asked: str, profile: str, evalset: EvalSet) -> Iterator[list[object]]:
    """A row for each mode."""
    for mode in get_args(Mode):
        run = run_queries(database, tenant, "bench", profile, evalset, mode)
        means = dict(evaluate(evalset, run).means)
        p50 = run.percentile_ms("total", 0.5) or 0.0
        yield [asked, mode, *(means[metric] for metric in _SHOWN), p50, disagreement(evalset, run, means)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds the collections")
    parser.add_argument(
        "--collections", nargs="+", default=["scifact", "stackfaq", "cosqa", "cranfield", "icecat-chorus"]
    )
    parser.add_argument("--profile", default="static-256")
    options = parser.parse_args()
    os.environ.update(environment())
    rows: list[list[object]] = []
    for name in options.collections:
        folder = options.data / name
        corpus = str((folder / "corpus.jsonl").resolve())
        rag("ingest", corpus, "--tenant", name, "--bot", "bench", "--profile", options.profile)
        database = Database.from_settings()
        for split in ("test", _SKUS):
            if (folder / "qrels" / f"{split}.tsv").exists():
                asked = name if split == "test" else f"{name}, SKUs"
                rows += modes(database, name, asked, options.profile, load_evalset(folder, split=split))
        database.close()
    show(f"Collections, {options.profile}", ["collection", "mode", *_SHOWN, "p50 ms", "off ir_measures"], rows)
    print(f"largest difference from ir_measures: {max(float(str(row[-1])) for row in rows):.6f}")

    for row in rows:
        if str(row[0]).endswith(", SKUs") and row[1] == "hybrid":
            verdict(f"{row[0]}: Recall@5 of hybrid", float(str(row[3])), _SKU_RECALL)


if __name__ == "__main__":
    main()
