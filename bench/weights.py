"""The weight of meaning that is found without labels, beside .5 and all others, on labelled collections.

python -m bench.weights --data DIR [--collections scifact xquad-multi ...] [--profile static-256] [--queries N]

A collection with `qrels/test.LANG.tsv` is judged language by language, each as a tenant of its own. What hybrid search
answers with .5 and with the found weight, the product is asked. Both legs, and the other weights, are put together here
from both scores of all its candidates; `replay` says how far that is from the product where both are known, at most.
A row is printed as soon as it is known. What lies in `.bench` already is not embedded again.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from uuid import UUID

import numpy as np

from bench.common import HOME, Collection, environment, load_collection, rag, score, show, verdict
from rag_assets.retrieval import HybridRetriever, RetrievalResult, RetrievalScope, open_scope
from rag_assets.store.database import Database
from rag_assets.store.profiles import built_profile
from rag_assets.store.weights import DEFAULT_WEIGHT, found_weight

COLLECTIONS = ("cranfield", "stackfaq", "kowelfare", "cosqa", "icecat-chorus", "scifact", "jaquad", "xquad-multi")
WEIGHTS = tuple(number / 20 for number in range(21))
ALLOWED = 0.002  # below the better leg, or below today's .5
DEPTH = 100  # of each list, as hybrid search fuses
SHOWN = 50  # results that are scored
COLUMNS = ("nDCG@10", "queries", "dense", "lexical", "at .5", "found", "hybrid", "best", "with that", "replay")


@dataclass(frozen=True)
class Judged:
    """nDCG@10 of one collection or language: by weight, and as the product answers at .5 and with what it found."""

    name: str
    queries: int
    found: float | None
    by_weight: Mapping[float, float]
    usual: float
    product: float

    @property
    def cells(self) -> list[object]:
        best = max(self.by_weight, key=lambda weight: self.by_weight[weight])
        found = "none" if self.found is None else f"{self.found:.2f}"
        weight = DEFAULT_WEIGHT if self.found is None else self.found
        asked = ((self.usual, DEFAULT_WEIGHT), (self.product, weight))
        replayed = max(abs(answer - self.by_weight[weight]) for answer, weight in asked)
        legs = (self.by_weight[1.0], self.by_weight[0.0], self.usual)
        return [self.name, self.queries, *legs, found, self.product, f"{best:.2f}", self.by_weight[best], replayed]

    def verdicts(self) -> list[bool]:
        """At least the better leg, and no worse than .5 where that was better than both."""
        better = max(self.by_weight[0.0], self.by_weight[1.0])
        told = [verdict(f"{self.name}: above the better leg", self.product - better, -ALLOWED)]
        if self.usual > better:
            told.append(verdict(f"{self.name}: above hybrid at .5", self.product - self.usual, -ALLOWED))
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


Candidates = Mapping[UUID, RetrievalResult]


def candidates(database: Database, text: str, scope: RetrievalScope) -> Candidates:
    """What either list has among its first, each with both scores: all that fusion chooses from."""
    legs = (HybridRetriever(database, dense_weight=weight, candidates=DEPTH) for weight in (0.0, 1.0))
    return {hit.chunk_id: hit for leg in legs for hit in leg.search(text, scope, top_k=DEPTH)}


def orders(found: Candidates, weights: Sequence[float], floor: float) -> Iterator[list[str]]:
    """Documents as fusion ranks them under each weight; with 0 or 1 those of one list alone."""
    hits = sorted(found.values(), key=lambda hit: hit.chunk_id)
    documents = np.array([hit.citation["document"] for hit in hits], dtype=object)
    dense = np.array([-1.0 if hit.dense_score is None else hit.dense_score for hit in hits])
    words = np.array([hit.lexical_score or 0.0 for hit in hits])
    above = np.maximum(dense - floor, 0)
    for weight in weights:
        if weight == 1.0 or not words.any():
            fused, listed = dense, np.ones(len(hits), dtype=bool)
        else:
            fused = weight * above / max(above.max(), 1e-9) + (1 - weight) * words / words.max()
            listed = (words > 0) | (weight > 0)
        places = np.argsort(-fused, kind="stable")
        yield distinct(documents[places][listed[places]].tolist())


def distinct(documents: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(documents))[:SHOWN]


def judge(database: Database, name: str, collection: Collection, profile: str) -> Judged:
    scope = open_scope(database, name, "bench", profile)
    with database.work(name, "bench") as connection:
        found = found_weight(connection, built_profile(connection, name, "bench", profile))
        statement = "SELECT dense_floor FROM rag.index_state WHERE embedding_profile_id = %s"
        row = connection.execute(statement, [scope.profile_id]).fetchone()
    assert row is not None
    weight = found.dense_weight if found else None
    asked = {DEFAULT_WEIGHT: HybridRetriever(database, dense_weight=DEFAULT_WEIGHT)}
    if weight is not None:
        asked[weight] = HybridRetriever(database)
    weights = sorted({*WEIGHTS, *asked})
    replays: dict[float, dict[str, list[str]]] = {one: {} for one in weights}
    answers: dict[float, dict[str, list[str]]] = {one: {} for one in asked}
    for query, text in collection.queries.items():
        ranked = orders(candidates(database, text, scope), weights, float(row[0] or 0.0))
        for one, documents in zip(weights, ranked, strict=True):
            replays[one][query] = documents
        for one, retriever in asked.items():
            hits = retriever.search(text, scope, top_k=SHOWN)
            answers[one][query] = distinct([hit.citation["document"] for hit in hits])
    by_weight = {one: score(collection, run)["ndcg@10"] for one, run in replays.items()}
    answered = {one: score(collection, run)["ndcg@10"] for one, run in answers.items()}
    product = answered[DEFAULT_WEIGHT if weight is None else weight]
    return Judged(name, len(collection.queries), weight, by_weight, answered[DEFAULT_WEIGHT], product)


def first(collection: Collection, count: int | None) -> Collection:
    """The collection with so many of its queries."""
    queries = dict(islice(collection.queries.items(), count))
    return replace(collection, queries=queries, qrels={query: collection.qrels[query] for query in queries})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds the collections")
    parser.add_argument("--collections", nargs="+", default=list(COLLECTIONS))
    parser.add_argument("--profile", default="static-256")
    parser.add_argument("--queries", type=int, help="only so many of each, the first")
    options = parser.parse_args()
    os.environ.update(environment())
    judged: list[Judged] = []
    for folder in options.collections:
        for name, collection in parts(options.data / folder):
            started = time.perf_counter()
            rag("ingest", str(collection.corpus), "--tenant", name, "--bot", "bench", "--profile", options.profile)
            database = Database.from_settings()
            judged.append(judge(database, name, first(collection, options.queries), options.profile))
            database.close()
            took = f"{time.perf_counter() - started:.0f} s"
            print(*[f"{cell:.4f}" if isinstance(cell, float) else cell for cell in judged[-1].cells], took, flush=True)
    show(f"Weights of meaning, {options.profile}", COLUMNS, [one.cells for one in judged])
    kept = [value for one in judged for value in one.verdicts()]
    print(f"{sum(kept)} of {len(kept)} kept")


if __name__ == "__main__":
    main()
