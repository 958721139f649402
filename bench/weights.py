"""The weight of meaning that is found without labels, beside .5 and all others, on labelled collections.

python -m bench.weights --data DIR [--collections scifact xquad-multi ...] [--profile static-256]

A collection with `qrels/test.LANG.tsv` is judged language by language, each as a tenant of its own. One search returns
both scores of all candidates, and from these the order under any weight is computed here; with the found weight the
product is asked too, and has to agree.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.common import HOME, Collection, environment, load_collection, rag, score, show, verdict
from rag_assets.retrieval import HybridRetriever, Retrieval, open_scope
from rag_assets.store.database import Database
from rag_assets.store.profiles import built_profile
from rag_assets.store.weights import DEFAULT_WEIGHT, found_weight

COLLECTIONS = ("scifact", "stackfaq", "cosqa", "cranfield", "icecat-chorus", "kowelfare", "jaquad", "xquad-multi")
WEIGHTS = tuple(number / 20 for number in range(21))
ALLOWED = 0.002  # below the better leg, or below today's .5
DEPTH = 100
SHOWN = 50  # results that are scored


@dataclass(frozen=True)
class Judged:
    """nDCG@10 of one collection or language, by weight and as the product answers with the weight that it found."""

    name: str
    found: float | None
    by_weight: Mapping[float, float]
    product: float

    @property
    def cells(self) -> list[object]:
        best = max(self.by_weight, key=lambda weight: self.by_weight[weight])
        found = "none" if self.found is None else f"{self.found:.2f}"
        legs = (self.by_weight[1.0], self.by_weight[0.0], self.by_weight[DEFAULT_WEIGHT])
        return [self.name, *legs, found, self.product, f"{best:.2f}", self.by_weight[best]]

    def verdicts(self) -> list[bool]:
        """At least the better leg, and no worse than .5 where that was better than both."""
        better, usual = max(self.by_weight[0.0], self.by_weight[1.0]), self.by_weight[DEFAULT_WEIGHT]
        told = [verdict(f"{self.name}: above the better leg", self.product - better, -ALLOWED)]
        if usual > better:
            told.append(verdict(f"{self.name}: above hybrid at .5", self.product - usual, -ALLOWED))
        return told


def parts(folder: Path) -> Iterator[tuple[str, Collection]]:
    """The collection, or each of its languages with the documents of that alone."""
    languages = sorted(path.name.split(".")[1] for path in (folder / "qrels").glob("test.*.tsv"))
    if not languages:
        yield folder.name, load_collection(folder)
    for language in languages:
        collection = load_collection(folder, f"test.{language}")
        corpus = HOME / "weights" / f"{folder.name}-{language}.jsonl"
        corpus.parent.mkdir(parents=True, exist_ok=True)
        wanted = f'"_id": "{language}-'
        with (folder / "corpus.jsonl").open(encoding="utf-8") as lines:
            corpus.write_text("".join(line for line in lines if wanted in line[:40]), encoding="utf-8")
        texts = (corpus, collection.queries_file, collection.qrels_file)
        yield corpus.stem, Collection(*texts, collection.queries, collection.qrels)


def order(found: Retrieval, weight: float, floor: float) -> list[str]:
    """Documents as fusion ranks them under a weight; with 0 or 1 those of one list alone."""
    hits = [hit for hit in found if hit.dense_score is not None]
    dense = np.array([hit.dense_score for hit in hits])
    words = np.array([hit.lexical_score or 0.0 for hit in hits])
    if weight == 1.0 or not words.any():
        fused = dense
    else:
        above = np.maximum(dense - floor, 0)
        fused = weight * above / max(above.max(), 1e-9) + (1 - weight) * words / words.max()
    ids = [str(hit.chunk_id) for hit in hits]
    places = sorted(range(len(hits)), key=lambda place: (-fused[place], ids[place]))
    return distinct([hits[place].citation["document"] for place in places])


def distinct(documents: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(documents))[:SHOWN]


def judge(database: Database, name: str, collection: Collection, profile: str) -> Judged:
    scope = open_scope(database, name, "bench", profile)
    with database.work(name, "bench") as connection:
        found = found_weight(connection, built_profile(connection, name, "bench", profile))
        statement = "SELECT dense_floor FROM rag.index_state WHERE embedding_profile_id = %s"
        row = connection.execute(statement, [scope.profile_id]).fetchone()
    assert row is not None
    floor = float(row[0] or 0.0)
    usual, product = HybridRetriever(database, dense_weight=DEFAULT_WEIGHT), HybridRetriever(database)
    runs: dict[float, dict[str, list[str]]] = {weight: {} for weight in WEIGHTS}
    answers: dict[str, list[str]] = {}
    for query, text in collection.queries.items():
        whole = usual.search(text, scope, top_k=2 * DEPTH)
        for weight in WEIGHTS:
            runs[weight][query] = order(whole, weight, floor)
        answers[query] = distinct([hit.citation["document"] for hit in product.search(text, scope, top_k=SHOWN)])
    by_weight = {weight: score(collection, run)["ndcg@10"] for weight, run in runs.items()}
    return Judged(name, found.dense_weight if found else None, by_weight, score(collection, answers)["ndcg@10"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds the collections")
    parser.add_argument("--collections", nargs="+", default=list(COLLECTIONS))
    parser.add_argument("--profile", default="static-256")
    options = parser.parse_args()
    os.environ.update(environment())
    judged: list[Judged] = []
    for folder in options.collections:
        for name, collection in parts(options.data / folder):
            rag("ingest", str(collection.corpus), "--tenant", name, "--bot", "bench", "--profile", options.profile)
            database = Database.from_settings()
            judged.append(judge(database, name, collection, options.profile))
            database.close()
    columns = ["nDCG@10", "dense", "lexical", "at .5", "found", "hybrid", "best", "with that"]
    show(f"Weights of meaning, {options.profile}", columns, [one.cells for one in judged])
    kept = [value for one in judged for value in one.verdicts()]
    print(f"{sum(kept)} of {len(kept)} kept")


if __name__ == "__main__":
    main()
