"""Retrieval metrics by query, computed by ranx behind a border that it needs.

Definitions, with R the number of relevant documents (grade 1 or more) of a query:

recall@k          relevant documents among the first k, divided by R: below 1 where R > k, however good the run
capped_recall@k   the same divided by min(k, R): always able to reach 1
hit_rate@k        1 if a relevant document is among the first k; what some call recall
mrr@k             1 / rank of the first relevant document among the first k, else 0
ndcg@k            gains are the grades, discounted by log2(rank + 1), divided by the best that is possible
precision@k       relevant documents among the first k, divided by k

The order of the run decides, never its scores, which may all be equal. Every judged query counts, also one that
the run does not answer: it scores 0. Queries without a relevant document cannot be measured; they are left out of
every mean and named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from types import FunctionType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evals.datasets import EvalSet
from evals.runs import RetrievalRun
from rag_assets.errors import UsageError

Values = NDArray[np.float64]

METRICS = ("recall", "hit_rate", "capped_recall", "mrr", "ndcg", "precision")
CUTOFFS = (1, 3, 5, 10)
HEADLINE = ("recall@5", "hit_rate@5", "mrr@10", "ndcg@10", "precision@5")  # shown first, wherever a run is shown
_COMPUTED = ("hits", "mrr", "ndcg")
_ABSENT = -1.0


@dataclass(frozen=True)
class Evaluation:
    """Metrics of one run; `values[metric][i]` belongs to `query_ids[i]`.

    `missing` are judged queries without any document in the run (each scores 0), `unjudged` the queries
    left out for want of a relevant document, `unknown` those that only the run has.
    """

    query_ids: tuple[str, ...]
    values: Mapping[str, Values]
    missing: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @cached_property
    def means(self) -> dict[str, float]:
        """Mean of each metric over the judged queries; NaN where there are none."""
        empty = not self.query_ids
        return {name: float("nan") if empty else float(values.mean()) for name, values in self.values.items()}

    @property
    def is_empty(self) -> bool:
        """Not one judged query got a document."""
        return len(self.missing) == len(self.query_ids)

    def by_query(self, metric: str) -> dict[str, float]:
        """Values of one metric by query id."""
        return dict(zip(self.query_ids, self.values[metric].tolist(), strict=True))


def evaluate(evalset: EvalSet, run: RetrievalRun, cutoffs: Sequence[int] = CUTOFFS) -> Evaluation:
    """Measure a run; metrics are named `<metric>@<k>`, as in METRICS.

    Raises:
        UsageError: no cutoff, or one below 1 (ranx would take 0 as no cutoff at all).
    """
    if not cutoffs or min(cutoffs) < 1:
        raise UsageError(f"cutoffs must be 1 or more, not {list(cutoffs)}")
    relevant = _relevant(evalset)
    query_ids = tuple(relevant)
    counts = np.array([len(grades) for grades in relevant.values()], dtype=np.float64)
    computed = _by_ranx(relevant, run, cutoffs)
    asked = dict.fromkeys(str(query.id) for query in evalset.queries)
    return Evaluation(
        query_ids=query_ids,
        values={f"{name}@{k}": _derive(name, k, computed, counts) for name in METRICS for k in cutoffs},
        missing=tuple(query for query in query_ids if not run.rankings.get(query)),
        unjudged=tuple(query for query in asked if query not in relevant),
        unknown=tuple(query for query in run.rankings if query not in asked),
    )


def _relevant(evalset: EvalSet) -> dict[str, dict[str, int]]:
    """Relevant documents by query, the best grade first: ranx takes the ideal order from that of the labels."""
    found: dict[str, dict[str, int]] = {}
    for query, grades in evalset.qrels.items():
        kept = {str(document): int(grade) for document, grade in grades.items() if grade > 0}
        if kept:
            found[str(query)] = dict(sorted(kept.items(), key=lambda item: (-item[1], item[0])))
    return found


def _derive(name: str, k: int, computed: Mapping[str, Values], relevant: Values) -> Values:
    """A metric from those that ranx computed; `relevant` are the numbers of relevant documents."""
    if name in ("mrr", "ndcg"):
        return computed[f"{name}@{k}"]
    hits = computed[f"hits@{k}"]
    if name == "hit_rate":
        return (hits > 0).astype(np.float64)
    if name == "precision":
        return hits / k
    return hits / (np.minimum(relevant, k) if name == "capped_recall" else relevant)


def _by_ranx(relevant: Mapping[str, Mapping[str, int]], run: RetrievalRun, cutoffs: Sequence[int]) -> dict[str, Values]:
    if not relevant:
        return {f"{name}@{k}": np.zeros(0) for name in _COMPUTED for k in cutoffs}
    labels, ranking = _arrays(relevant, run, max(cutoffs))
    # Most queries have few labels, found at one of few ranks: those that are alike are measured once.
    both = np.concatenate([labels, ranking], axis=1).reshape(len(labels), -1)
    _, first, place = np.unique(both, axis=0, return_index=True, return_inverse=True)
    kernels = _kernels()
    return {
        f"{name}@{k}": kernels[name](labels[first], ranking[first], k)[place.reshape(-1)]
        for name in _COMPUTED
        for k in cutoffs
    }


def _arrays(relevant: Mapping[str, Mapping[str, int]], run: RetrievalRun, depth: int) -> tuple[Values, Values]:
    """Labels and rankings as ranx' kernels take them: arrays (queries, documents, 2) of a number and a score.

    Relevant documents are numbered within their query, everything else is -1; of those that were not found the best
    `depth` are left, which are all that the best possible gain needs. A run's scores are replaced by numbers that fall
    with the rank, so that nothing can be reordered. Building ranx' own Qrels and Run would hash ids into floats, order
    ties by chance, and take seconds for 10,000 queries.
    """
    tops = {query: run.top(query, depth) for query in relevant}
    kept = {
        query: [document for rank, document in enumerate(grades) if rank < depth or document in tops[query]]
        for query, grades in relevant.items()
    }
    # Rows are filled up with -1 here too: ranx ranks the labels themselves to find the best possible gain.
    labels = np.full((len(kept), max(map(len, kept.values())), 2), _ABSENT)
    ranking = np.full((len(kept), depth, 2), _ABSENT)
    for row, (query, documents) in enumerate(kept.items()):
        numbers = {document: number for number, document in enumerate(documents)}
        labels[row, : len(documents), 0] = range(len(documents))
        labels[row, : len(documents), 1] = [relevant[query][document] for document in documents]
        top = tops[query]
        ranking[row, : len(top), 0] = [numbers.get(document, _ABSENT) for document in top]
        ranking[row, : len(top), 1] = range(len(top), 0, -1)
    return labels, ranking


@cache
def _kernels() -> dict[str, Callable[[Values, Values, int], Values]]:
    """ranx' functions as they are written, for Python: numba would compile them for ten seconds at first use, and again
    wherever nothing may be written beside the package, which takes longer than they do for 10,000 queries."""
    return {
        name: _as_written(f"ranx.metrics.{module}", module)
        for name, module in (("hits", "hits"), ("mrr", "reciprocal_rank"), ("ndcg", "ndcg"))
    }


def _as_written(module: str, name: str) -> Any:
    """A function of a module, with all that it calls, without numba."""
    # Loaded now: two seconds of imports that nobody who only reads a report should wait for.
    known = vars(import_module(module))
    names = dict(known)
    for called, value in known.items():
        written = getattr(value, "py_func", None)
        if written is not None and written.__module__ != module:
            names[called] = _as_written(written.__module__, called)
        elif written is not None:
            names[called] = FunctionType(written.__code__, names)
    function = getattr(known[name], "py_func", known[name])
    return FunctionType(function.__code__, names, name, function.__defaults__)
