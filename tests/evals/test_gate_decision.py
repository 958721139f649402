from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evals.gate import Criterion, GateInput, GatePolicy, Verdict, decide
from evals.labels import Labels
from rag_assets.errors import UsageError
from tests.support.measurements import evaluation_of

GAIN = GatePolicy()
MAINTENANCE = GatePolicy(min_recall_gain=None, non_inferior=0.01)
WORSE = [0.0] * 20 + [1.0] * 40
BETTER = [0.0] * 5 + [1.0] * 55


def good(**changes: object) -> GateInput:
    """A candidate that passes: 40 of 60 queries answered before, 55 after."""
    given = GateInput(
        candidate=evaluation_of(BETTER),
        baseline=evaluation_of(WORSE),
        critical=frozenset({"q30", "q31"}),
        active_sources=12,
        candidate_p95_ms=20.0,
        baseline_p95_ms=18.0,
        index_recall=0.995,
    )
    return replace(given, **changes)  # type: ignore[arg-type]


def criterion(verdict: Verdict, name: str) -> Criterion:
    (found,) = [c for c in verdict.criteria if c.name == name]
    return found


def test_a_proven_improvement_passes_with_every_number_reported() -> None:
    verdict = decide(good(), GAIN)
    assert (verdict.outcome, verdict.exit_code, verdict.reasons) == ("passed", 0, ())
    assert [c.name for c in verdict.criteria] == [
        "coverage", "run_not_empty", "valid_scores", "labels", "judged_queries",
        "recall_gain", "significance", "critical_queries", "latency", "index_recall",
    ]  # fmt: skip
    assert criterion(verdict, "recall_gain").value == pytest.approx(55 / 40 - 1)
    assert criterion(verdict, "judged_queries").value == 60
    assert criterion(verdict, "latency").value == 20
    assert all(c.value is not None and c.reason for c in verdict.criteria)


def test_the_reverse_of_an_improvement_is_refused() -> None:
    verdict = decide(good(candidate=evaluation_of(WORSE), baseline=evaluation_of(BETTER)), GAIN)
    assert (verdict.outcome, verdict.exit_code) == ("refused", 1)
    assert criterion(verdict, "recall_gain").passed is False
    assert criterion(verdict, "significance").passed is False


REFUSALS = {
    "missing source": (
        {"missing_sources": ("a.md",)},
        "coverage",
        "the candidate lacks 1 of 12 ready sources: a.md",
    ),
    "critical query": (
        {"critical": frozenset({"q0", "q59"}), "candidate": evaluation_of([*BETTER[:-1], 0.0])},
        "critical_queries",
        "1 of 2 critical queries got worse: q59",
    ),
    "empty run": (
        {"candidate": evaluation_of([0.0] * 60, missing=[f"q{n}" for n in range(60)])},
        "run_not_empty",
        "0 of 60 judged queries got documents",
    ),
    "NaN metric": (
        {"candidate": evaluation_of([math.nan] * 30 + [1.0] * 30)},
        "valid_scores",
        "scores or metrics that are not finite numbers: 30",
    ),
    "NaN scores": ({"invalid_scores": 7}, "valid_scores", "scores or metrics that are not finite numbers: 7"),
    "slow": ({"candidate_p95_ms": 40.0}, "latency", "p95 is 40.0 ms, at most 28.0 ms is allowed, baseline 18.0 ms"),
    "NaN latency": ({"candidate_p95_ms": math.nan}, "latency", "p95 is nan ms"),
    "bad index": ({"index_recall": 0.98}, "index_recall", "the index finds 0.9800"),
    "NaN index": ({"index_recall": math.nan}, "index_recall", "the index finds nan"),
}


@pytest.mark.parametrize(("changes", "name", "reason"), REFUSALS.values(), ids=REFUSALS)
@pytest.mark.parametrize("policy", [GAIN, MAINTENANCE], ids=["gain", "maintenance"])
def test_each_fault_refuses_with_its_own_reason(
    policy: GatePolicy, changes: dict[str, object], name: str, reason: str
) -> None:
    verdict = decide(good(**changes), policy)
    assert (verdict.outcome, verdict.exit_code) == ("refused", 1)
    assert criterion(verdict, name).passed is False
    assert criterion(verdict, name).reason.startswith(reason)


UNDECIDED = {
    "too few queries": (
        {"candidate": evaluation_of([1.0] * 29), "baseline": evaluation_of([0.0] * 29), "critical": frozenset()},
        "judged_queries",
        "29 judged queries, at least 30 are needed",
    ),
    "no labels": (
        {"candidate": evaluation_of([]), "baseline": evaluation_of([]), "critical": frozenset()},
        "run_not_empty",
        "no query is judged",
    ),
    "unknown documents": (
        {"labels": Labels({}, absent=("x.md", "y.md"), labels=40, lost=2)},
        "labels",
        "2 labelled documents are in no source: x.md, y.md: 2 of 40 labels (5.00%), where 1.00% may be left out; "
        "ingest these documents, or take their labels out, or allow a larger share with --max-left-out",
    ),
    "other queries": (
        {"baseline": evaluation_of(WORSE[:-1])},
        "judged_queries",
        "candidate and baseline were not measured on the same judged queries",
    ),
    "critical without label": (
        {"critical": frozenset({"q1", "lost"})},
        "critical_queries",
        "critical queries without a judgement: lost",
    ),
    "latency unknown": ({"candidate_p95_ms": None}, "latency", "the p95 latency was not measured"),
    "baseline latency unknown": ({"baseline_p95_ms": None}, "latency", "the p95 latency was not measured"),
    "index unknown": ({"index_recall": None}, "index_recall", "the recall of the index was not measured"),
}


@pytest.mark.parametrize(("changes", "name", "reason"), UNDECIDED.values(), ids=UNDECIDED)
@pytest.mark.parametrize("policy", [GAIN, MAINTENANCE], ids=["gain", "maintenance"])
def test_what_could_not_be_judged_is_undecided_and_never_a_pass(
    policy: GatePolicy, changes: dict[str, object], name: str, reason: str
) -> None:
    verdict = decide(good(**changes), policy)
    assert (verdict.outcome, verdict.exit_code) == ("undecided", 2)
    assert criterion(verdict, name).passed is None
    assert criterion(verdict, name).reason == reason


def test_a_definite_fault_refuses_also_where_the_labels_are_too_few() -> None:
    few = {"candidate": evaluation_of([1.0] * 5), "baseline": evaluation_of([0.0] * 5), "critical": frozenset()}
    verdict = decide(good(missing_sources=("a.md",), **few), GAIN)
    assert verdict.outcome == "refused"
    assert criterion(verdict, "recall_gain").passed is None


def test_a_gain_that_chance_explains_is_refused() -> None:
    recalls = [0.0, 1.0] * 20
    better = [1.0, 1.0, 1.0, 1.0, *recalls[4:]]
    verdict = decide(good(candidate=evaluation_of(better), baseline=evaluation_of(recalls), critical=frozenset()), GAIN)
    assert criterion(verdict, "recall_gain").passed is True
    assert criterion(verdict, "significance").passed is False
    assert verdict.outcome == "refused"


def test_row_87_the_same_profile_never_passes_a_gain_and_always_passes_non_inferiority() -> None:
    noise = np.random.default_rng(7)
    for _ in range(50):
        recalls = noise.choice([0.0, 0.5, 1.0], 60).tolist()
        before, after = noise.uniform(1, 300, 2).tolist()
        given = good(
            candidate=evaluation_of(recalls),
            baseline=evaluation_of(recalls),
            candidate_p95_ms=after,
            baseline_p95_ms=before,
            same_spec=True,
        )
        assert decide(given, GAIN).outcome == "refused"
        assert decide(given, GatePolicy(min_recall_gain=0.0)).outcome == "refused"
        assert decide(given, MAINTENANCE).outcome == "passed"
        assert decide(given, replace(MAINTENANCE, non_inferior=0.0)).outcome == "passed"


def test_the_same_profile_cannot_claim_a_gain_that_an_approximate_index_made_up() -> None:
    verdict = decide(good(same_spec=True), GAIN)
    assert verdict.outcome == "refused"
    assert criterion(verdict, "recall_gain").reason.startswith("the same profile cannot be an improvement on itself")


def test_non_inferiority_is_refused_where_the_loss_could_exceed_the_margin() -> None:
    slightly = evaluation_of([*WORSE[:-1], 0.5])
    given = good(candidate=slightly, baseline=evaluation_of(WORSE))
    assert decide(given, MAINTENANCE).outcome == "refused"
    assert decide(given, replace(MAINTENANCE, non_inferior=0.05)).outcome == "passed"


def test_a_few_milliseconds_more_are_no_refusal_and_a_budget_is_absolute() -> None:
    given = good(candidate_p95_ms=9.0, baseline_p95_ms=2.0)
    assert decide(given, GAIN).outcome == "passed"
    assert decide(given, replace(GAIN, p95_slack_ms=0.0)).outcome == "refused"
    assert decide(given, replace(GAIN, max_p95_ms=8.0)).outcome == "refused"
    assert decide(replace(given, same_spec=True), replace(MAINTENANCE, max_p95_ms=8.0)).outcome == "refused"


def test_limits_that_are_switched_off_pass_and_say_so() -> None:
    policy = replace(GAIN, max_p95_ratio=None, min_index_recall=None)
    verdict = decide(good(candidate_p95_ms=None, index_recall=None), policy)
    assert verdict.outcome == "passed"
    assert criterion(verdict, "latency").reason == criterion(verdict, "index_recall").reason == "no limit is set"


def test_a_critical_query_may_move_within_the_first_five() -> None:
    verdict = decide(good(critical=frozenset({"q0"})), GAIN)
    assert criterion(verdict, "critical_queries").reason == "none of 1 critical query got worse"


@pytest.mark.parametrize(
    "values",
    [
        {"non_inferior": 0.01},
        {"min_recall_gain": None},
        {"min_recall_gain": -0.1},
        {"min_recall_gain": math.nan},
        {"alpha": 0.0},
        {"alpha": math.nan},
        {"min_queries": 0},
        {"max_p95_ms": math.inf},
        {"min_recall_gain": None, "non_inferior": 1.0},
        {"min_recall_gain": None, "non_inferior": 5.0},
    ],
)
def test_a_policy_that_could_not_refuse_is_refused_itself(values: dict[str, float | None]) -> None:
    with pytest.raises(UsageError):
        GatePolicy(**values)  # type: ignore[arg-type]


def test_a_verdict_is_valid_json_also_with_nan_and_infinity() -> None:
    given = good(baseline=evaluation_of([0.0] * 60), candidate_p95_ms=math.nan, problems=("qrels.tsv:3: dropped",))
    plain = json.loads(json.dumps(decide(given, GAIN).as_dict(), allow_nan=False))
    values = {c["name"]: c["value"] for c in plain["criteria"]}
    assert (values["recall_gain"], values["latency"]) == (None, None)
    assert (plain["outcome"], plain["exit_code"], plain["problems"]) == ("refused", 1, ["qrels.tsv:3: dropped"])


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(*[st.sampled_from([0.0, 0.5, 1.0, math.nan])] * 2), max_size=40), st.booleans())
def test_only_a_verdict_with_every_criterion_met_passes(pairs: list[tuple[float, float]], gain: bool) -> None:
    before, after = ([pair[side] for pair in pairs] for side in (0, 1))
    verdict = decide(
        good(candidate=evaluation_of(after), baseline=evaluation_of(before)), GAIN if gain else MAINTENANCE
    )
    assert (verdict.outcome == "passed") == all(c.passed is True for c in verdict.criteria)
    if any(map(math.isnan, [*before, *after])):
        assert verdict.outcome == "refused"


def test_the_decision_needs_neither_dagster_nor_ranx_nor_matplotlib() -> None:
    code = (
        "import sys, evals.gate, evals.report; "
        "print({'dagster', 'ranx', 'matplotlib', 'psycopg', 'numba'} & set(sys.modules))"
    )
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert output.strip() == "set()"
