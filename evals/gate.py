"""Whether a candidate may replace the active profile. A pure decision: numbers in, verdict out.

Every criterion is judged and reported with its number, also after another one has failed. One that fails
refuses the candidate; one that cannot be judged leaves the verdict undecided; only all of them together pass.
Comparisons are written as `value >= limit`, so that NaN never passes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from evals.labels import MAX_LEFT_OUT, NO_LABELS, Labels, some
from evals.metrics import Evaluation
from evals.significance import Comparison, compare, lower_bound, paired_differences
from rag_assets.errors import UsageError
from rag_assets.printing import counted

Outcome = Literal["passed", "refused", "undecided"]

METRIC = "recall@5"


@dataclass(frozen=True)
class GatePolicy:
    """What a candidate has to prove: a relative gain in Recall@5, or that it is not worse by more than a margin.

    `non_inferior` is absolute: .01 allows Recall@5 to be lower by one hundredth. p95 limits are in milliseconds;
    the ratio is to the baseline and counts only where the difference exceeds `p95_slack_ms`, because at a few
    milliseconds it measures the machine. None switches a limit off. `max_left_out` is the share of the labels that may
    name documents which no profile can hold: so many are left out, and with more nothing is decided.

    Raises:
        UsageError: both or neither of gain and margin, or a number out of its range.
    """

    min_recall_gain: float | None = 0.10
    non_inferior: float | None = None
    alpha: float = 0.05
    min_queries: int = 30
    max_p95_ms: float | None = None
    max_p95_ratio: float | None = 1.5
    min_index_recall: float | None = 0.99
    p95_slack_ms: float = 10.0
    max_left_out: float = MAX_LEFT_OUT

    def __post_init__(self) -> None:
        if (self.min_recall_gain is None) == (self.non_inferior is None):
            raise UsageError("a gate asks for a minimum recall gain or for non-inferiority: set exactly one")
        limits = (self.max_p95_ms, self.max_p95_ratio, self.min_index_recall)
        margins = (self.min_recall_gain, self.non_inferior, self.p95_slack_ms, self.min_queries - 1, *limits)
        if not all(margin is None or (margin >= 0 and math.isfinite(margin)) for margin in margins):
            raise UsageError("limits of a gate are finite numbers of 0 or more, with at least one query")
        if self.non_inferior is not None and self.non_inferior >= 1:
            raise UsageError(
                f"--non-inferior {self.non_inferior:g} lets Recall@5 fall to nothing: it is a share, such as 0.01"
            )
        if not 0 < self.alpha < 1:
            raise UsageError(f"alpha must be between 0 and 1, not {self.alpha}")
        if not 0 <= self.max_left_out < 1:
            raise UsageError(f"the share of labels that may be left out is from 0 to below 1, not {self.max_left_out}")


@dataclass(frozen=True)
class GateInput:
    """What was measured. None is "not measured" and never passes a limit.

    `active_sources` counts the ready sources of the active profile, `missing_sources` names those that the
    candidate lacks. `labels` says which labels decide nothing. `invalid_scores` counts scores of the candidate's run
    that are not finite. `index_recall` is 1 where the search is exact. `same_spec` says that candidate and baseline are
    built and asked alike. `unstable` says why two measurements cannot be compared at all.
    """

    candidate: Evaluation
    baseline: Evaluation
    critical: frozenset[str] = frozenset()
    active_sources: int = 0
    missing_sources: tuple[str, ...] = ()
    candidate_p95_ms: float | None = None
    baseline_p95_ms: float | None = None
    index_recall: float | None = None
    labels: Labels = NO_LABELS
    invalid_scores: int = 0
    same_spec: bool = False
    unstable: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Criterion:
    """One condition; `passed` is None where it could not be judged. `reason` is meant for a person."""

    name: str
    passed: bool | None
    value: float | None
    limit: float | None
    reason: str


@dataclass(frozen=True)
class Verdict:
    """The decision, every criterion, and what was wrong with the labelled set."""

    outcome: Outcome
    criteria: tuple[Criterion, ...]
    problems: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 passed, 1 refused, 2 undecided."""
        return {"passed": 0, "refused": 1, "undecided": 2}[self.outcome]

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it did not pass."""
        return tuple(f"{c.name}: {c.reason}" for c in self.criteria if c.passed is not True)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON, which has no NaN and no infinity: those become null."""
        return {
            "outcome": self.outcome,
            "exit_code": self.exit_code,
            "criteria": [
                {
                    "name": criterion.name,
                    "passed": criterion.passed,
                    "value": _finite(criterion.value),
                    "limit": _finite(criterion.limit),
                    "reason": criterion.reason,
                }
                for criterion in self.criteria
            ],
            "problems": list(self.problems),
        }


def decide(given: GateInput, policy: GatePolicy) -> Verdict:
    """Judge every criterion of the policy."""
    criteria = tuple(_criteria(given, policy))
    outcome: Outcome = "passed"
    if given.unstable:
        outcome = "undecided"  # not even a refusal can rest on what was measured
    elif any(criterion.passed is False for criterion in criteria):
        outcome = "refused"
    elif any(criterion.passed is None for criterion in criteria):
        outcome = "undecided"
    return Verdict(outcome, criteria, given.problems)


def _criteria(given: GateInput, policy: GatePolicy) -> Iterator[Criterion]:
    if given.unstable:
        yield Criterion("stable_measurement", None, len(given.unstable), 0, "; ".join(given.unstable))
    yield _coverage(given)
    yield _run_not_empty(given)
    yield (scores := _valid_scores(given))
    yield (labels := _labels(given, policy))
    yield (queries := _judged_queries(given, policy))
    # Numbers from broken labels or a handful of queries are shown and decide nothing.
    reliable = bool(labels.passed and queries.passed)
    comparable = scores.passed and _same_queries(given)
    comparison = compare(given.baseline, given.candidate, METRIC) if comparable else None
    if policy.min_recall_gain is not None:
        yield _recall_gain(given, comparison, policy.min_recall_gain, reliable)
        yield _significance(comparison, policy.alpha, reliable)
    if policy.non_inferior is not None:
        yield _non_inferiority(given, comparison, policy.non_inferior, policy.alpha, reliable)
    yield _critical_queries(given)
    yield _latency(given, policy)
    yield _index_recall(given, policy.min_index_recall)


def _coverage(given: GateInput) -> Criterion:
    missing = len(given.missing_sources)
    reason = f"every ready source of the active profile is in the candidate: {given.active_sources:,}"
    if missing:
        lacks = f"{missing:,} of {counted(given.active_sources, 'ready source')}"
        reason = f"the candidate lacks {lacks}: {some(given.missing_sources)}"
    return Criterion("coverage", missing == 0, missing, 0, reason)


def _run_not_empty(given: GateInput) -> Criterion:
    judged = len(given.candidate.query_ids)
    answered = judged - len(given.candidate.missing)
    reason = f"{answered} of {counted(judged, 'judged query')} got documents"
    if not judged:
        return Criterion("run_not_empty", None, 0, 1, "no query is judged")
    return Criterion("run_not_empty", answered >= 1, answered, 1, reason)


def _valid_scores(given: GateInput) -> Criterion:
    metrics = (values for run in (given.candidate, given.baseline) for values in run.values.values())
    invalid = given.invalid_scores + sum(int((~np.isfinite(values)).sum()) for values in metrics)
    reason = (
        f"scores or metrics that are not finite numbers: {invalid}" if invalid else "every score is a finite number"
    )
    return Criterion("valid_scores", invalid == 0, invalid, 0, reason)


def _labels(given: GateInput, policy: GatePolicy) -> Criterion:
    labels, limit = given.labels, policy.max_left_out
    problems = list(labels.problems())
    share = labels.lost_share
    if labels.ambiguous:
        return Criterion("labels", None, share, limit, "; ".join(problems))
    if not problems:
        return Criterion("labels", True, 0, limit, "every labelled document is in a source")
    reason = f"{'; '.join(problems)}: {labels.lost} of {counted(labels.labels, 'label')} ({share:.2%})"
    if share <= limit:
        return Criterion("labels", True, share, limit, f"{reason}, left out, where {limit:.2%} may be")
    way_out = "ingest these documents, or take their labels out, or allow a larger share with --max-left-out"
    return Criterion("labels", None, share, limit, f"{reason}, where {limit:.2%} may be left out; {way_out}")


def _judged_queries(given: GateInput, policy: GatePolicy) -> Criterion:
    judged = len(given.candidate.query_ids)
    if not _same_queries(given):
        reason = "candidate and baseline were not measured on the same judged queries"
        return Criterion("judged_queries", None, judged, policy.min_queries, reason)
    enough = judged >= policy.min_queries
    reason = f"{counted(judged, 'judged query')}, at least {policy.min_queries} are needed"
    return Criterion("judged_queries", True if enough else None, judged, policy.min_queries, reason)


def _recall_gain(given: GateInput, comparison: Comparison | None, limit: float, reliable: bool) -> Criterion:
    if comparison is None:
        return _not_compared("recall_gain", limit)
    gain = comparison.relative_gain
    reason = (
        f"{METRIC} went from {comparison.mean_a:.4f} to {comparison.mean_b:.4f}, "
        f"{gain:+.1%} where {limit:+.1%} is required"
    )
    passed = gain >= limit
    if given.same_spec:
        passed, reason = False, f"the same profile cannot be an improvement on itself; {reason}"
    return Criterion("recall_gain", passed if reliable else None, gain, limit, reason)


def _significance(comparison: Comparison | None, alpha: float, reliable: bool) -> Criterion:
    if comparison is None:
        return _not_compared("significance", alpha)
    reason = (
        f"p = {comparison.p_value:.4f} (at most {alpha} is required), better: {counted(comparison.wins, 'query')}, "
        f"{comparison.losses} worse, {comparison.ties} equal"
    )
    passed = comparison.p_value <= alpha and comparison.diff > 0
    return Criterion("significance", passed if reliable else None, comparison.p_value, alpha, reason)


def _non_inferiority(
    given: GateInput, comparison: Comparison | None, margin: float, alpha: float, reliable: bool
) -> Criterion:
    if comparison is None:
        return _not_compared("non_inferiority", -margin)
    bound = lower_bound(paired_differences(given.baseline, given.candidate, METRIC), alpha)
    reason = (
        f"{METRIC} differs by {comparison.diff:+.4f}; with {1 - alpha:.0%} confidence by more than {bound:+.4f}, "
        f"and {-margin:+.4f} is allowed"
    )
    return Criterion("non_inferiority", bound >= -margin if reliable else None, bound, -margin, reason)


def _critical_queries(given: GateInput) -> Criterion:
    """Worse means a lower Recall@5: a relevant document that moves within the first five still reaches the answer."""
    name = "critical_queries"
    if not given.critical:
        return Criterion(name, True, 0, 0, "no query is marked as critical")
    candidate, baseline = given.candidate.by_query(METRIC), given.baseline.by_query(METRIC)
    judged = sorted(given.critical & candidate.keys() & baseline.keys())
    worse = [query for query in judged if not candidate[query] >= baseline[query]]
    if worse:
        got = f"{len(worse)} of {counted(len(given.critical), 'critical query')} got worse"
        reason = f"{got}: {some(tuple(worse))}"
        return Criterion(name, False, len(worse), 0, reason)
    if lost := tuple(sorted(given.critical.difference(judged))):
        return Criterion(name, None, 0, 0, f"critical queries without a judgement: {some(lost)}")
    return Criterion(name, True, 0, 0, f"none of {counted(len(judged), 'critical query')} got worse")


def _latency(given: GateInput, policy: GatePolicy) -> Criterion:
    limit, ratio_limit = _latency_limits(given, policy)
    if policy.max_p95_ms is None and policy.max_p95_ratio is None:
        return Criterion("latency", True, given.candidate_p95_ms, None, "no limit is set")
    value, base = given.candidate_p95_ms, given.baseline_p95_ms
    if value is None or (base is None and ratio_limit):
        return Criterion("latency", None, value, limit, "the p95 latency was not measured")
    against = "not measured" if base is None else f"{base:.1f} ms"
    if limit is None:
        reason = f"p95 is {value:.1f} ms, baseline {against}; the same profile is not compared with itself"
        return Criterion("latency", math.isfinite(value), value, None, reason)
    reason = f"p95 is {value:.1f} ms, at most {limit:.1f} ms is allowed, baseline {against}"
    return Criterion("latency", value <= limit, value, limit, reason)


def _latency_limits(given: GateInput, policy: GatePolicy) -> tuple[float | None, bool]:
    """The lowest limit in milliseconds, and whether it takes a baseline to know it."""
    # Two runs of one profile differ in latency by what else the machine does, so only the budget holds for them.
    ratio = None if given.same_spec else policy.max_p95_ratio
    limits = [] if policy.max_p95_ms is None else [policy.max_p95_ms]
    if ratio is not None and given.baseline_p95_ms is not None:
        limits.append(max(ratio * given.baseline_p95_ms, given.baseline_p95_ms + policy.p95_slack_ms))
    return (min(limits) if limits else None), ratio is not None


def _index_recall(given: GateInput, limit: float | None) -> Criterion:
    value = given.index_recall
    if limit is None:
        return Criterion("index_recall", True, value, None, "no limit is set")
    if value is None:
        return Criterion("index_recall", None, None, limit, "the recall of the index was not measured")
    reason = f"the index finds {value:.4f} of the true neighbours, at least {limit} is required"
    return Criterion("index_recall", value >= limit, value, limit, reason)


def _same_queries(given: GateInput) -> bool:
    return bool(given.candidate.query_ids) and set(given.candidate.query_ids) == set(given.baseline.query_ids)


def _not_compared(name: str, limit: float) -> Criterion:
    return Criterion(name, None, None, limit, "the runs could not be compared")


def _finite(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None
