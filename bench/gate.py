"""Time and memory of measuring and judging two runs of 10,000 queries with 100 results each, and a gate end to end.

python -m bench.gate [--data FOLDER [--collection stackfaq] [--queries 1000]]

With `--data`, `rag eval gate` judges two profiles of a collection by so many of its queries, which are embedded and
searched in both; what it takes is printed as seconds, and as processor time of the command and of the server.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from bench import processor
from bench.common import HOME, Collection, environment, load_collection, rag, verdict
from evals.datasets import EvalSet, Query
from evals.gate import GateInput, GatePolicy, decide
from evals.metrics import Evaluation, evaluate
from evals.runs import RetrievalRun

QUERIES, RESULTS, DOCUMENTS = 10_000, 100, 50_000
TENANT, PROFILES = "gate", ("static-256", "static-128")


def labelled() -> EvalSet:
    """Queries with one to three relevant documents each."""
    random = np.random.default_rng(1)
    queries = tuple(Query(f"q{n}", f"query {n}", False, None) for n in range(QUERIES))
    qrels = {query.id: {f"d{d}": 1 for d in random.integers(0, DOCUMENTS, random.integers(1, 4))} for query in queries}
    return EvalSet(queries=queries, qrels=qrels, critical=frozenset(), problems=())


def answered(evalset: EvalSet, skill: float, seed: int) -> RetrievalRun:
    """A run that finds each relevant document with probability `skill`."""
    random = np.random.default_rng(seed)
    chunks = {}
    for query, labels in evalset.qrels.items():
        found = [d for d in labels if random.random() < skill]
        others = [f"d{d}" for d in random.integers(0, DOCUMENTS, RESULTS - len(found))]
        ranked = list(dict.fromkeys([*others[:2], *found, *others[2:]]))
        chunks[query] = [(document, 1.0 / (rank + 1)) for rank, document in enumerate(ranked)]
    return RetrievalRun.from_chunks(chunks)


def judge(evalset: EvalSet, runs: tuple[RetrievalRun, RetrievalRun]) -> tuple[float, str]:
    """Seconds for the metrics of both and the gate, and its outcome."""
    started = time.perf_counter()
    candidate, baseline = (evaluate(evalset, run) for run in runs)
    outcome = decide(given(candidate, baseline), GatePolicy()).outcome
    return time.perf_counter() - started, outcome


def given(candidate: Evaluation, baseline: Evaluation) -> GateInput:
    return GateInput(
        candidate=candidate,
        baseline=baseline,
        critical=frozenset(),
        active_sources=1,
        candidate_p95_ms=1.0,
        baseline_p95_ms=1.0,
        index_recall=1.0,
    )


def labelled_part(collection: Collection, queries: int, folder: Path) -> Path:
    """The first so many judged queries of a collection, as a labelled set of their own."""
    kept = list(collection.queries)[:queries]
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    lines = (json.dumps({"_id": query, "text": collection.queries[query]}) + "\n" for query in kept)
    (folder / "queries.jsonl").write_text("".join(lines))
    labels = (f"{query}\t{name}\t{grade}\n" for query in kept for name, grade in collection.qrels[query].items())
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(labels))
    return folder


def end_to_end(data: Path, name: str, queries: int) -> None:
    """Two profiles of a collection, judged by so many queries in a process of its own, as `rag eval gate` does it."""
    os.environ.update(environment())
    collection = load_collection(data / name)
    for profile in PROFILES:
        rag("ingest", str(collection.corpus), "--tenant", TENANT, "--bot", name, "--profile", profile)
    labels = labelled_part(collection, queries, HOME / "gate" / name)
    rag("eval", "import", str(labels), "--tenant", TENANT, "--bot", name)
    used, started = (processor.own(), processor.server(HOME)), time.perf_counter()
    command = ["eval", "gate", "--tenant", TENANT, "--bot", name, "--candidate", PROFILES[0], "--baseline", PROFILES[1]]
    arguments = [sys.executable, "-m", "rag_assets.cli", *command, "--json"]
    answer = json.loads(subprocess.run(arguments, env=environment(), stdout=subprocess.PIPE, text=True).stdout)
    seconds = time.perf_counter() - started
    own, server = processor.own() - used[0], processor.server(HOME) - used[1]
    judged = next(one["value"] for one in answer["criteria"] if one["name"] == "judged_queries")
    asked = 2 * judged
    print(f"{name}: {judged:.0f} queries, two profiles: {answer['outcome']}; processor time a search, ms:")
    print(f"     {1000 * server / asked:.1f} of the server, {1000 * own / asked:.1f} of the command, start and all")
    verdict("seconds, all of the command", seconds, 30.0, at_least=False)
    verdict("seconds of processor time, the server's with it", own + server, 30.0 * processor.cores(), at_least=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder that holds the collection: judge end to end too")
    parser.add_argument("--collection", default="stackfaq")
    parser.add_argument("--queries", type=int, default=1000)
    options = parser.parse_args()
    verdicts()
    if options.data is not None:
        end_to_end(options.data, options.collection, options.queries)


def verdicts() -> None:
    """The metrics of two made-up runs, and the verdict on them."""
    evalset = labelled()
    runs = answered(evalset, 0.8, 2), answered(evalset, 0.6, 3)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    first, outcome = judge(evalset, runs)
    again, _ = judge(evalset, runs)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before
    print(f"{QUERIES} queries x {RESULTS} results: {outcome}; first call {first:.1f} s, second {again:.1f} s")
    verdict("seconds, second call", again, 10.0, at_least=False)
    verdict("seconds, first call of this process", first, 10.0, at_least=False)
    verdict("memory that judging added, MiB", grown, 512.0, at_least=False)


if __name__ == "__main__":
    main()
