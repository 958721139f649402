"""How sure a difference is: bootstrap intervals and a paired randomization test, both seeded."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evals.metrics import Evaluation
from rag_assets.errors import UsageError

Values = NDArray[np.float64]

RESAMPLES = 2_000
PERMUTATIONS = 10_000
_SEED = 20_240_501
_CHUNK = 2_000_000  # numbers held at once: 16 MB
_TIE = 1e-12  # sums of the same numbers in another order differ by this much


@dataclass(frozen=True)
class Comparison:
    """Two runs over the same queries, b against a; differences are b - a.

    `relative_gain` is diff / mean_a (infinite where a has nothing), `p_value` two-sided, `ci_*` the bootstrap
    interval of the difference. `wins` counts the queries where b is better.
    """

    metric: str
    mean_a: float
    mean_b: float
    diff: float
    relative_gain: float
    p_value: float
    ci_low: float
    ci_high: float
    wins: int
    losses: int
    ties: int


def compare(a: Evaluation, b: Evaluation, metric: str, *, confidence: float = 0.95) -> Comparison:
    """Compare b with a, query by query.

    Raises:
        UsageError: they were measured on different queries, or on none.
    """
    diffs = paired_differences(a, b, metric)
    mean_a, diff = float(a.values[metric].mean()), float(diffs.mean())
    low, high = mean_interval(diffs, confidence)
    return Comparison(
        metric=metric,
        mean_a=mean_a,
        mean_b=float(b.values[metric].mean()),
        diff=diff,
        relative_gain=relative_gain(mean_a, diff),
        p_value=randomization_test(diffs),
        ci_low=low,
        ci_high=high,
        wins=int((diffs > 0).sum()),
        losses=int((diffs < 0).sum()),
        ties=int((diffs == 0).sum()),
    )


def paired_differences(a: Evaluation, b: Evaluation, metric: str) -> Values:
    """b - a by query, in the order of a's query ids.

    Raises:
        UsageError: they were measured on different queries, or on none.
    """
    if not a.query_ids or set(a.query_ids) != set(b.query_ids):
        raise UsageError("only runs over the same judged queries can be compared")
    if a.query_ids == b.query_ids:
        return b.values[metric] - a.values[metric]
    position = {query: index for index, query in enumerate(b.query_ids)}
    return b.values[metric][[position[query] for query in a.query_ids]] - a.values[metric]


def relative_gain(baseline: float, diff: float) -> float:
    """diff / baseline; where the baseline is 0, 0 without a difference and infinite with one."""
    if baseline == 0:
        return math.copysign(math.inf, diff) if diff else 0.0
    return diff / baseline


def randomization_test(diffs: Values, permutations: int = PERMUTATIONS, seed: int = _SEED) -> float:
    """Two-sided p-value of Fisher's randomization test: how often chance signs make as large a mean difference.

    It depends on the sizes of the differences only, never on the order of the queries. Without any difference
    it is 1, and it is never below 1 / (permutations + 1). NaN stays NaN.
    """
    if not np.isfinite(diffs).all():
        return float("nan")
    sizes = np.sort(np.abs(diffs[diffs != 0]))
    if sizes.size == 0:
        return 1.0
    observed = abs(float(diffs.sum())) - _TIE * float(sizes.sum())
    generator = np.random.default_rng(seed)
    extreme = 0
    for rows in _chunks(permutations, sizes.size):
        bits = np.unpackbits(generator.integers(0, 256, (rows, -(-sizes.size // 8)), dtype=np.uint8), axis=1)
        sums = 2 * (bits[:, : sizes.size].astype(np.float64) @ sizes) - sizes.sum()
        extreme += int((np.abs(sums) >= observed).sum())
    return (extreme + 1) / (permutations + 1)


def bootstrap_means(values: Values, resamples: int = RESAMPLES, seed: int = _SEED) -> Values:
    """Means of resampled queries: (resamples, metrics) for values (queries, metrics).

    All metrics see the same resamples. The same seed and number of queries give the same resamples.
    """
    count = values.shape[0]
    generator = np.random.default_rng(seed)
    means = [_resample_weights(generator, rows, count) @ values / count for rows in _chunks(resamples, count)]
    return np.concatenate(means)


def mean_interval(values: Values, confidence: float = 0.95) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean of one metric's values."""
    low, high = _quantiles(bootstrap_means(values[:, None]), (1 - confidence) / 2)
    return float(low[0]), float(high[0])


def lower_bound(diffs: Values, alpha: float) -> float:
    """One-sided bound: the mean difference is above it with probability 1 - alpha."""
    return float(np.quantile(bootstrap_means(diffs[:, None])[:, 0], alpha))


def confidence_intervals(
    evaluation: Evaluation, metrics: Sequence[str] | None = None, confidence: float = 0.95
) -> dict[str, tuple[float, float]]:
    """Bootstrap interval of every metric's mean, from one set of resamples; NaN without a query."""
    names = list(metrics if metrics is not None else evaluation.values)
    if not evaluation.query_ids:
        return {name: (float("nan"), float("nan")) for name in names}
    means = bootstrap_means(np.column_stack([evaluation.values[name] for name in names]))
    low, high = _quantiles(means, (1 - confidence) / 2)
    return {name: (float(low[i]), float(high[i])) for i, name in enumerate(names)}


def _quantiles(means: Values, tail: float) -> tuple[Values, Values]:
    low, high = np.quantile(means, (tail, 1 - tail), axis=0)
    return low, high


def _resample_weights(generator: np.random.Generator, rows: int, count: int) -> Values:
    """How often each query is drawn, by resample: (rows, count)."""
    drawn = generator.integers(0, count, (rows, count))
    drawn += np.arange(rows)[:, None] * count
    return np.bincount(drawn.ravel(), minlength=rows * count).reshape(rows, count).astype(np.float64)


def _chunks(total: int, width: int) -> Iterator[int]:
    """Numbers of rows that add up to `total`, each few enough to hold `width` columns in memory."""
    size = max(1, _CHUNK // max(1, width))
    for start in range(0, total, size):
        yield min(size, total - start)
