"""Two ways of answering over all labelled queries of a bot: which queries each of them answers better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evals.asking import Target, ask_all
from evals.datasets import EvalSet
from evals.metrics import HEADLINE, Evaluation, evaluate
from evals.naming import labels_of
from evals.runner import stored_set
from evals.significance import Comparison
from evals.significance import compare as compared
from rag_assets.doors.compare.sides import Side
from rag_assets.retrieval import Retriever, open_scope
from rag_assets.store.database import Database

_DEPTH = 20  # chunks asked for: enough for ten documents of the metrics


@dataclass(frozen=True)
class QueryDifference:
    """A labelled query and what each side got for it, by metric; `wanted` are the documents that its labels name."""

    id: str
    text: str
    critical: bool
    wanted: tuple[str, ...]
    first: dict[str, float]
    second: dict[str, float]

    @property
    def gain(self) -> float:
        """How much better the second side is; of the first metric in which they differ."""
        return next((d for name in HEADLINE if (d := self.second[name] - self.first[name])), 0.0)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "id": self.id, "query": self.text, "critical": self.critical, "relevant": list(self.wanted),
            "first": self.first, "second": self.second,
        }  # fmt: skip


@dataclass(frozen=True)
class LabelledComparison:
    """All judged queries, those with the largest difference first, and the means with their significance."""

    queries: tuple[QueryDifference, ...]
    means: tuple[Comparison, ...]
    degraded: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "metrics": {
                one.metric: {
                    "first": one.mean_a, "second": one.mean_b, "difference": one.diff, "p_value": one.p_value,
                    "better": one.wins, "worse": one.losses, "equal": one.ties,
                }
                for one in self.means
            },
            "queries": [one.as_dict() for one in self.queries],
            "degraded": list(self.degraded),
        }  # fmt: skip


def compare_labelled(
    database: Database, sides: Sequence[Side], retrievers: Sequence[Retriever], tenant: str, bot: str
) -> LabelledComparison:
    """Put every labelled query of the bot to both sides. Nothing is recorded.

    Raises:
        UsageError: the bot has no labelled queries.
        ProfileNotReady: a profile is not completely built.
        RunError: a score is not a finite number.
    """
    evalset = stored_set(database, tenant, bot).evalset
    labels = labels_of(database, tenant, bot, evalset)
    targets = [
        Target(retriever, open_scope(database, tenant, bot, side.profile))
        for side, retriever in zip(sides, retrievers, strict=True)
    ]
    first, second = ask_all(evalset, targets, _DEPTH, "compare", labels)
    before, after = evaluate(evalset, first.run), evaluate(evalset, second.run)
    means = tuple(compared(before, after, metric) for metric in HEADLINE)
    return LabelledComparison(_differences(evalset, before, after), means, (*first.degraded, *second.degraded))


def _differences(evalset: EvalSet, first: Evaluation, second: Evaluation) -> tuple[QueryDifference, ...]:
    by_metric = {name: (first.by_query(name), second.by_query(name)) for name in HEADLINE}
    measured = set(first.query_ids)
    found = [
        QueryDifference(
            query.id, query.text, query.critical,
            tuple(name for name, grade in evalset.qrels[query.id].items() if grade > 0),
            {name: by_metric[name][0][query.id] for name in HEADLINE},
            {name: by_metric[name][1][query.id] for name in HEADLINE},
        )
        for query in evalset.queries
        if query.id in measured
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda one: (-abs(one.gain), one.id)))
