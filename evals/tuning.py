"""Find the weight of the dense list in hybrid search on one half of the queries, and prove it on the other."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

from evals.asking import RunSettings, ask_all, target_of
from evals.datasets import EvalSet
from evals.gate import METRIC
from evals.labels import Labels
from evals.metrics import Evaluation, evaluate
from evals.naming import labels_of
from evals.significance import Comparison, compare
from rag_assets.errors import UsageError
from rag_assets.printing import counted
from rag_assets.store.database import Database
from rag_assets.store.profiles import built_profile
from rag_assets.store.weights import DEFAULT_WEIGHT, untuned_weight

WEIGHTS = tuple(number / 10 for number in range(11))
ALPHA = 0.05
_TIE_BREAKER = "ndcg@10"


@dataclass(frozen=True)
class Tuned:
    """The best weight on the tuning half, and how it does on the held-out half beside the weight that holds without
    tuning: `untuned`, which was found without labels, or 0.5.

    `tuning` has the evaluation of every weight on the tuning half; the others are of the held-out half.
    """

    weight: float
    tuning: dict[float, Evaluation]
    tuned: Evaluation
    default: Evaluation
    comparison: Comparison
    untuned: float = DEFAULT_WEIGHT

    @property
    def is_proven(self) -> bool:
        """Whether the weight is better than the default on queries that it was not chosen by."""
        return self.comparison.diff > 0 and self.comparison.p_value <= ALPHA

    @property
    def conclusion(self) -> str:
        """What follows, in a sentence."""
        found = (
            f"{METRIC} {self.comparison.mean_b:.4f} beside {self.comparison.mean_a:.4f} of the default on "
            f"{counted(len(self.tuned.query_ids), 'query')} of the other half, p = {self.comparison.p_value:.3f}"
        )
        if self.weight == self.untuned:
            return f"keep the default: no other weight did better on the tuning half than {self.untuned:g}"
        if self.is_proven:
            return f"use {self.weight:g}: {found}"
        return f"keep the default of {self.untuned:g}: {self.weight:g} is not proven to be better, {found}"

    def evidence(self, evalset: EvalSet) -> dict[str, Any]:
        """What the weight rests on, to be stored with it."""
        return {
            "labelled_set": evalset.content_hash,
            "metric": METRIC,
            "queries": len(self.tuned.query_ids),
            "tuned": self.comparison.mean_b,
            "default": self.comparison.mean_a,
            "p_value": self.comparison.p_value,
            "is_proven": self.is_proven,
        }


def halves(evalset: EvalSet) -> tuple[EvalSet, EvalSet]:
    """Judged queries to tune on and to report on, split by a hash of their ids: no order or later import moves one."""
    picked = {query for query in evalset.judged if hashlib.blake2b(query.encode()).digest()[0] % 2 == 0}
    return evalset.subset(picked), evalset.subset(set(evalset.judged) - picked)


def tune(
    database: Database, tenant: str, bot: str, profile: str, evalset: EvalSet, settings: RunSettings | None = None
) -> Tuned:
    """Try every weight from 0 (words alone) to 1 (meaning alone) in steps of a tenth, and the one that holds without
    tuning.

    The best has the highest Recall@5, then nDCG@10, and then is the closest to that.

    Raises:
        UsageError: one of the two halves has no query.
        ProfileNotReady: the profile is not completely built.
    """
    settings = settings or RunSettings()
    labels = labels_of(database, tenant, bot, evalset)
    evalset = labels.counted(evalset)
    to_tune, held_out = halves(evalset)
    if not to_tune.queries or not held_out.queries:
        raise UsageError(
            f"{counted(len(evalset.judged), 'judged query')} cannot be split into two halves; label more of them"
        )
    untuned = _untuned(database, tenant, bot, profile)
    weights = tuple(sorted({*WEIGHTS, untuned}))
    tuning = _evaluations(database, tenant, bot, profile, to_tune, labels, settings, weights)
    best = max(weights, key=lambda weight: (*_quality(tuning[weight]), -abs(weight - untuned)))
    shown = _evaluations(database, tenant, bot, profile, held_out, labels, settings, tuple({best, untuned}))
    compared = compare(shown[untuned], shown[best], METRIC)
    return Tuned(best, tuning, shown[best], shown[untuned], compared, untuned)


def _untuned(database: Database, tenant: str, bot: str, profile: str) -> float:
    with database.work(tenant, bot) as connection:
        return untuned_weight(connection, built_profile(connection, tenant, bot, profile))


def _quality(evaluation: Evaluation) -> tuple[float, float]:
    means = evaluation.means
    return round(means[METRIC], 9), round(means[_TIE_BREAKER], 9)


def _evaluations(
    database: Database,
    tenant: str,
    bot: str,
    profile: str,
    evalset: EvalSet,
    labels: Labels,
    settings: RunSettings,
    weights: tuple[float, ...],
) -> dict[float, Evaluation]:
    targets = [
        target_of(database, tenant, bot, profile, "hybrid", replace(settings, dense_weight=weight))
        for weight in weights
    ]
    answers = ask_all(evalset, targets, settings.depth, "try weights", labels)
    return {weight: evaluate(evalset, heard.run) for weight, heard in zip(weights, answers, strict=True)}
