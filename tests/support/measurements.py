"""Small labelled sets, runs and evaluations for the tests of `evals`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from evals.datasets import EvalSet, Query
from evals.metrics import Evaluation
from evals.runs import RetrievalRun


def set_of(
    qrels: Mapping[str, Mapping[str, int]], unlabelled: Iterable[str] = (), critical: Iterable[str] = ()
) -> EvalSet:
    """A labelled set with a question for every query of the labels and for the unlabelled ones."""
    queries = tuple(Query(query, f"question {query}") for query in (*qrels, *unlabelled))
    return EvalSet(queries, qrels, frozenset(critical))


def run_of(rankings: Mapping[str, Sequence[str]]) -> RetrievalRun:
    """A run from ordered documents; scores fall from 1."""
    return RetrievalRun.from_chunks(
        {
            query: [(document, 1 / (rank + 1)) for rank, document in enumerate(documents)]
            for query, documents in rankings.items()
        }
    )


def evaluation_of(recalls: Sequence[float], missing: Iterable[str] = ()) -> Evaluation:
    """An evaluation with these values of Recall@5, for the queries q0, q1, …"""
    queries = tuple(f"q{number}" for number in range(len(recalls)))
    return Evaluation(queries, {"recall@5": np.asarray(recalls, dtype=np.float64)}, tuple(missing))
