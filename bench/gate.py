"""Time and memory of measuring and judging two runs of 10,000 queries with 100 results each.

python -m bench.gate

The first call on a machine compiles ranx with numba and takes about ten seconds more; both are printed.
"""

from __future__ import annotations

import resource
import time

import numpy as np

from bench.common import verdict
from evals.datasets import EvalSet, Query
from evals.gate import GateInput, GatePolicy, decide
from evals.metrics import Evaluation, evaluate
from evals.runs import RetrievalRun

QUERIES, RESULTS, DOCUMENTS = 10_000, 100, 50_000


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


def main() -> None:
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
