from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ttest_rel

from evals.metrics import Evaluation
from evals.significance import (
    bootstrap_means,
    compare,
    confidence_intervals,
    lower_bound,
    mean_interval,
    randomization_test,
    relative_gain,
)
from rag_assets.errors import UsageError
from tests.support.measurements import evaluation_of

RECALLS = st.lists(st.sampled_from([0.0, 0.2, 0.5, 1.0]), min_size=2, max_size=30)


def test_a_comparison_counts_and_averages_the_differences() -> None:
    found = compare(evaluation_of([0, 0.5, 1, 1]), evaluation_of([1, 1, 1, 0.5]), "recall@5")
    assert (found.wins, found.losses, found.ties) == (2, 1, 1)
    assert (found.mean_a, found.mean_b, found.diff) == (0.625, 0.875, 0.25)
    assert found.relative_gain == pytest.approx(0.4)
    assert found.ci_low <= found.diff <= found.ci_high


def test_the_p_value_is_the_share_of_sign_patterns_that_differ_as_much() -> None:
    diffs = np.array([1, 1, 0.5, 0.5, 0.2, -0.2, 1.0, 0.0])
    sizes = np.abs(diffs[diffs != 0])
    sums = [abs(np.dot(signs, sizes)) for signs in product((-1, 1), repeat=len(sizes))]
    exact = np.mean([total >= diffs.sum() - 1e-9 for total in sums])
    assert randomization_test(diffs, permutations=50_000) == pytest.approx(exact, abs=0.005)


def test_ties_of_the_observed_sum_count_although_floats_add_up_differently() -> None:
    diffs = np.full(7, 0.1)
    assert randomization_test(diffs, permutations=50_000) == pytest.approx(2 / 2**7, abs=0.002)


def test_the_p_value_is_near_that_of_a_paired_t_test_on_many_queries() -> None:
    generator = np.random.default_rng(1)
    before = generator.random(400)
    after = before + generator.normal(0.012, 0.1, 400)
    assert randomization_test(after - before) == pytest.approx(ttest_rel(after, before).pvalue, abs=0.01)


@settings(deadline=None, max_examples=40)
@given(RECALLS, st.randoms())
def test_the_p_value_depends_on_neither_direction_nor_order(values: list[float], random: object) -> None:
    diffs = np.array(values) - 0.2
    shuffled = diffs.tolist()
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert randomization_test(diffs) == randomization_test(np.array(shuffled)) == randomization_test(-diffs)
    assert 0 < randomization_test(diffs) <= 1


def test_without_a_difference_nothing_is_significant_and_every_bound_is_0() -> None:
    zeros = np.zeros(50)
    assert randomization_test(zeros) == 1
    assert mean_interval(zeros) == (0, 0)
    assert lower_bound(zeros, 0.05) == 0


def test_nan_stays_nan_instead_of_becoming_a_p_value() -> None:
    assert math.isnan(randomization_test(np.array([0.1, np.nan])))


def test_runs_over_other_queries_cannot_be_compared_and_another_order_can() -> None:
    a = evaluation_of([0, 1, 1])
    with pytest.raises(UsageError, match="same judged queries"):
        compare(a, evaluation_of([0, 1]), "recall@5")
    with pytest.raises(UsageError, match="same judged queries"):
        compare(evaluation_of([]), evaluation_of([]), "recall@5")
    reordered = Evaluation(("q2", "q0", "q1"), {"recall@5": np.array([1.0, 0.0, 1.0])})
    assert compare(a, reordered, "recall@5").ties == 3


def test_the_relative_gain_over_nothing_is_infinite_or_none() -> None:
    assert relative_gain(0, 0.5) == math.inf
    assert relative_gain(0, -0.5) == -math.inf
    assert relative_gain(0, 0) == 0


def test_intervals_cover_the_true_mean_as_often_as_they_say() -> None:
    generator = np.random.default_rng(5)
    samples = (generator.random(80) < 0.3 for _ in range(200))
    covered = sum(low <= 0.3 <= high for low, high in (mean_interval(s.astype(np.float64)) for s in samples))
    assert 180 <= covered <= 199


def test_intervals_of_all_metrics_share_their_resamples_and_repeat_exactly() -> None:
    values = np.random.default_rng(2).random(60)
    evaluation = Evaluation(tuple(map(str, range(60))), {"a": values, "b": values, "c": values / 2})
    found = confidence_intervals(evaluation)
    assert found == confidence_intervals(evaluation)
    assert found["a"] == found["b"] == pytest.approx(mean_interval(values))
    assert found["c"] == pytest.approx(tuple(bound / 2 for bound in found["a"]))
    assert list(confidence_intervals(evaluation, ["c"])) == ["c"]
    assert all(map(math.isnan, confidence_intervals(evaluation_of([]))["recall@5"]))


def test_chunks_of_resamples_add_up_to_all_of_them() -> None:
    means = bootstrap_means(np.ones((3_000, 1)), resamples=1_500)
    assert means.shape == (1_500, 1)
    assert (means == 1).all()


@settings(deadline=None, max_examples=30)
@given(RECALLS)
def test_the_one_sided_bound_lies_below_the_mean_and_above_the_two_sided_one(values: list[float]) -> None:
    diffs = np.array(values)
    bound, (low, _) = lower_bound(diffs, 0.05), mean_interval(diffs, 0.95)
    assert low - 1e-12 <= bound <= diffs.mean() + 1e-12
