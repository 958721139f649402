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

import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evals.datasets import EvalSet
from evals.runs import RetrievalRun
from rag_assets.errors import UsageError

Values = NDArray[np.float64]

METRICS = ("recall", "hit_rate", "capped_recall", "mrr", "ndcg", "precision")
CUTOFFS = (1, 3, 5, 10)
HEADLINE = ("recall@5", "hit_rate@5", "mrr@10", "ndcg@10", "precision@5")  # shown first, wherever a run is shown
_COMPUTED = ("recall", "mrr", "ndcg")
_CELLS = 1_000_000  # label cells of one padded array: 16 MB
_ABSENT = -1.0

# numba's default threading layer aborts the process when two threads start a kernel at once.
_KERNELS = threading.Lock()


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
    """A metric from those that ranx computed; counting hits again would compile three more kernels."""
    if name in _COMPUTED:
        return computed[f"{name}@{k}"]
    hits = np.rint(computed[f"recall@{k}"] * relevant)
    if name == "hit_rate":
        return (hits > 0).astype(np.float64)
    return hits / (np.minimum(relevant, k) if name == "capped_recall" else k)


def _by_ranx(relevant: Mapping[str, Mapping[str, int]], run: RetrievalRun, cutoffs: Sequence[int]) -> dict[str, Values]:
    # Two names at least: ranx 0.3.21 raises KeyError for a single one with a cutoff.
    names = [f"{name}@{k}" for name in _COMPUTED for k in cutoffs]
    parts: list[Mapping[str, Values]] = [
        _kernels(labels, ranking, names) for labels, ranking in _batches(relevant, run, max(cutoffs))
    ]
    if not parts:
        return {name: np.zeros(0) for name in names}
    return {name: np.concatenate([part[name] for part in parts]) for name in names}


def _kernels(labels: Values, ranking: Values, names: list[str]) -> Mapping[str, Values]:
    import ranx  # two seconds of imports that nobody who only reads a report should wait for

    with _KERNELS, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="unsafe cast from uint64")
        result: Mapping[str, Values] = ranx.evaluate(labels, ranking, names, return_mean=False)
    return result


def _batches(
    relevant: Mapping[str, Mapping[str, int]], run: RetrievalRun, depth: int
) -> Iterator[tuple[Values, Values]]:
    """Labels and rankings as ranx' kernels take them: arrays (queries, documents, 2) of a number and a score.

    Relevant documents are numbered within their query, everything else is -1. A run's scores are replaced by numbers
    that fall with the rank, so that nothing can be reordered. Building ranx' own Qrels and Run
    would hash ids into floats, order ties by chance, and take seconds for 10,000 queries.
    """
    for batch in _bounded_batches(relevant):
        # Rows are filled up with -1 here too: ranx ranks the labels themselves to find the best possible gain.
        labels = np.full((len(batch), max(len(relevant[query]) for query in batch), 2), _ABSENT)
        ranking = np.full((len(batch), depth, 2), _ABSENT)
        for row, query in enumerate(batch):
            grades = relevant[query]
            numbers = {document: number for number, document in enumerate(grades)}
            labels[row, : len(grades), 0] = range(len(grades))
            labels[row, : len(grades), 1] = list(grades.values())
            top = run.top(query, depth)
            ranking[row, : len(top), 0] = [numbers.get(document, _ABSENT) for document in top]
            ranking[row, : len(top), 1] = range(len(top), 0, -1)
        yield labels, ranking


def _bounded_batches(relevant: Mapping[str, Mapping[str, int]]) -> Iterator[list[str]]:
    """Queries in their order, in batches whose padded labels stay small also where one query has thousands."""
    batch: list[str] = []
    width = 0
    for query, grades in relevant.items():
        width = max(width, len(grades))
        if batch and (len(batch) + 1) * width > _CELLS:
            yield batch
            batch, width = [], len(grades)
        batch.append(query)
    if batch:
        yield batch
