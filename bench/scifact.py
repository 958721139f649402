"""Retrieval quality on SciFact through the product: ingest, search every judged query in every mode, score.

python -m bench.scifact --data DIR [--profile static-256]
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from bench.common import Collection, environment, load_collection, median, percentile, rag, score, show, verdict

DEPTH = 50  # chunks; a document counts where its best chunk stands


def search_all(collection: Collection, tenant: str, profile: str) -> dict[str, tuple[dict[str, float], list[float]]]:
    """Metrics and total milliseconds by mode."""
    os.environ.update(environment())
    from rag_assets.retrieval import open_scope
    from rag_assets.retrieval.retrievers import RETRIEVERS
    from rag_assets.store.database import Database

    database = Database.from_settings()
    scope = open_scope(database, tenant, "bench", profile)
    answers: dict[str, tuple[dict[str, float], list[float]]] = {}
    for mode, kind in RETRIEVERS.items():
        retriever = kind(database)
        run, times = {}, []
        for query, text in collection.queries.items():
            found = retriever.search(text, scope, top_k=DEPTH)
            times.append(found.timings_ms["total"])
            run[query] = list(dict.fromkeys(result.citation["document"] for result in found))
        answers[mode] = (score(collection, run), times)
    database.close()
    return answers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds scifact/")
    parser.add_argument("--profile", default="static-256")
    options = parser.parse_args()
    collection = load_collection(options.data / "scifact")
    answer, _ = rag(
        "ingest",
        str(collection.corpus.resolve()),
        "--tenant",
        "scifact",
        "--bot",
        "bench",
        "--profile",
        options.profile,
    )
    print(f"ingested: {answer['sources']}, {answer['chunks_written']} chunks written, {answer['embedded']} embedded")
    answers = search_all(collection, "scifact", options.profile)
    show(
        f"SciFact, {options.profile}, {len(collection.queries)} queries",
        ["mode", *next(iter(answers.values()))[0], "p50 ms", "p95 ms"],
        [[mode, *m.values(), median(t), percentile(t, 0.95)] for mode, (m, t) in answers.items()],
    )
    verdict("lexical nDCG@10", answers["lexical"][0]["ndcg@10"], 0.68)
    verdict("hybrid nDCG@10", answers["hybrid"][0]["ndcg@10"], 0.70)
    verdict("hybrid Recall@5", answers["hybrid"][0]["recall@5"], 0.76)


if __name__ == "__main__":
    main()
