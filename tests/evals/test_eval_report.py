from __future__ import annotations

import re
import struct
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from evals.datasets import Problem, Query
from evals.gate import Criterion, GateInput, GatePolicy, Verdict, decide
from evals.metrics import evaluate
from evals.report import (
    Measured,
    Report,
    gains_and_losses,
    junit,
    latency_plot,
    metric_bars,
    render,
    similarity_histogram,
    split_scores,
    write_report,
)
from evals.runs import RetrievalRun
from tests.support.measurements import run_of, set_of

CRITERIA = (
    Criterion("coverage", True, 0, 0, "all there"),
    Criterion("recall_gain", False, 0.01, 0.1, "too little"),
    Criterion("labels", None, 1, 0, "unknown <document> \x00 & more"),
)


def size_of(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    return width, height


@pytest.fixture(scope="module")
def report() -> Report:
    """Forty queries; the candidate wins q0 and q1 and loses q2."""
    evalset = set_of({f"q{n}": {f"d{n}": 1} for n in range(40)}, unlabelled=["no-label"], critical=["q2"])
    queries = (Query("q0", "what | <script>alert(1)</script>\nis *this*"), *evalset.queries[1:])
    evalset = replace(evalset, queries=queries, problems=(Problem(3, "qrels.tsv", "q1 repeats line 2; dropped"),))
    before = {f"q{n}": [f"d{n}", "other"] for n in range(2, 40)} | {"q0": ["x", "y"]}
    after = before | {"q0": ["x", "d0"], "q1": ["d1"], "q2": ["z"]}
    runs = [
        replace(run_of(rankings), latencies_ms={"embed": {"q0": 1.0, "q1": 2.0}, "search": {"q0": 3.0}})
        for rankings in (before, after)
    ]
    baseline, candidate = (
        Measured(name, run, evaluate(evalset, run)) for name, run in zip(("old", "new"), runs, strict=True)
    )
    given = GateInput(candidate.evaluation, baseline.evaluation, evalset.critical, active_sources=3, index_recall=1.0)
    verdict = decide(given, GatePolicy(max_p95_ratio=None))
    return Report("Candidate new", evalset, candidate, baseline, verdict, (("tenant", "quarrowby"),))


def test_the_report_shows_verdict_metrics_and_what_changed_with_the_documents(report: Report) -> None:
    text = render(report)
    assert "**Verdict: refused**" in text
    assert re.search(
        r"\| critical\\_queries \| \*\*refused\*\* \| 1 \| 0 \| 1 of 1 critical query got worse: q2 \|", text
    )
    assert re.search(
        r"\| recall@5 \| 0\.9500 \[0\.\d{4}, [01]\.\d{4}\] \| 0\.9750 \[.*\] \| \+0\.0250 \| [01]\.\d{4} \|", text
    )
    assert "## Queries won: 2" in text
    assert "## Queries lost: 1" in text
    assert "| q2 (critical) | question q2 | -1.00 | 1. **d2**<br>2. other | 1. z |" in text
    assert "| q1 | question q1 | +1.00 | nothing | 1. **d1** |" in text
    assert "| embed | 1.0 / 2.0 | 1.0 / 2.0 |" in text
    assert "qrels.tsv:3: q1 repeats line 2; dropped" in text
    assert "1 query without a relevant document, left out of every mean: no-label" in text


def test_text_of_queries_and_documents_cannot_break_tables_or_add_markup(report: Report) -> None:
    text = render(report)
    assert "<script>" not in text
    assert r"what \| &lt;script&gt;alert(1)&lt;/script&gt; is \*this\*" in text
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1


def test_a_report_is_small_and_is_text_that_every_reader_of_markdown_shows(report: Report, tmp_path: Path) -> None:
    write_report(report, tmp_path / "gate.md")
    text = (tmp_path / "gate.md").read_text(encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["gate.md"]
    assert "data:" not in text
    assert "![" not in text
    assert len(text.encode()) < 20_000
    blocks = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 3
    old, new = (re.search(rf"{name} +(█+)\S? +([01]\.\d+)", blocks[0]) for name in ("old", "new"))
    assert old
    assert new
    assert len(old[1]) < len(new[1])
    assert re.search(r"worse by .5 or more +\S+ +1\n", blocks[1])
    assert re.search(r"better by .5 or more +\S+ +2\n", blocks[1])


def test_pictures_lie_as_files_in_a_folder_beside_the_report_where_they_are_asked_for(
    report: Report, tmp_path: Path
) -> None:
    write_report(report, tmp_path / "my report.md", plots=True)
    text = (tmp_path / "my report.md").read_text(encoding="utf-8")
    links = re.findall(r"!\[([a-z-]+)\]\((.+)\)", text)
    assert [name for name, _ in links] == ["metrics", "gains-and-losses", "scores", "latency"]
    assert links[0][1] == "my%20report/metrics.png"
    for _, link in links:
        assert size_of((tmp_path / link.replace("%20", " ")).read_bytes()) == (480, 240)


def test_no_name_ends_a_block_of_bars(report: Report) -> None:
    text = render(replace(report, candidate=replace(report.candidate, profile="a\n```\n# b")))
    assert text.count("```") == 6
    assert "\n# b" not in text


def test_a_report_of_one_profile_compares_nothing(report: Report) -> None:
    text = render(replace(report, baseline=None, verdict=None))
    assert "Verdict" not in text
    assert "Queries won" not in text
    assert "| metric | new |" in text


def test_a_report_of_runs_over_other_queries_shows_both_without_a_difference(report: Report) -> None:
    half = report.evalset.subset([f"q{n}" for n in range(20)])
    assert report.baseline is not None
    baseline = replace(report.baseline, evaluation=evaluate(half, report.baseline.run))
    text = render(replace(report, baseline=baseline))
    assert "| metric | old | new |" in text
    assert "Queries won" not in text


def test_an_empty_set_and_an_empty_run_still_have_a_report() -> None:
    evalset, run = set_of({}, unlabelled=["q"]), RetrievalRun.from_chunks({})
    text = render(Report("Nothing", evalset, Measured("new", run, evaluate(evalset, run))))
    assert "| judged queries | 0 |" in text


def test_only_the_largest_changes_are_listed() -> None:
    evalset = set_of({f"q{n}": {"a": 1} for n in range(30)})
    runs = [run_of({}), run_of({f"q{n}": ["a"] for n in range(30)})]
    old, new = (Measured(name, run, evaluate(evalset, run)) for name, run in zip(("old", "new"), runs, strict=True))
    text = render(Report("All won", evalset, new, old))
    assert "The 20 largest differences of 30 are shown." in text
    assert text.count("| +1.00 |") == 20


PLOTS = {
    "metrics": lambda: metric_bars({"a": {"recall@5": 0.5}, "b": {"recall@5": 0.7}}, {"a": {"recall@5": (0.4, 0.6)}}),
    "many metrics": lambda: metric_bars({name: {f"m@{n}": 0.5 for n in range(24)} for name in "abcdef"}),
    "nan metrics": lambda: metric_bars({"a": {"recall@5": float("nan")}}, {"a": {"recall@5": (float("nan"),) * 2}}),
    "no metrics": lambda: metric_bars({}),
    "gains": lambda: gains_and_losses(np.random.default_rng(0).normal(0, 0.3, 10_000).tolist(), "recall@5"),
    "no gains": lambda: gains_and_losses([0.0, 0.0], "recall@5"),
    "scores": lambda: similarity_histogram(np.linspace(0.5, 1, 900).tolist(), np.linspace(0, 0.8, 9_000).tolist()),
    "no scores": lambda: similarity_histogram([], []),
    "one score": lambda: similarity_histogram([0.5], [0.5]),
    "latency": lambda: latency_plot({"a": {"embed": [1, 2, 3], "search": [4, 5]}, "b": {"embed": [1.0]}}),
    "no latency": lambda: latency_plot({}),
}


@pytest.mark.parametrize("draw", PLOTS.values(), ids=PLOTS)
def test_plots_are_small_and_drawn_for_every_amount_of_data(draw: object) -> None:
    png = draw()  # type: ignore[operator]
    assert size_of(png) == (480, 240)
    assert len(png) <= 30_000


def test_the_same_data_draws_the_same_bytes() -> None:
    assert PLOTS["gains"]() == PLOTS["gains"]()


def test_scores_are_split_by_label_over_judged_queries() -> None:
    evalset = set_of({"q": {"a": 1, "b": 0}}, unlabelled=["r"])
    run = RetrievalRun.from_chunks({"q": [("a", 0.9), ("b", 0.8), ("c", 0.7)], "r": [("a", 0.1)]})
    assert split_scores(run, evalset) == ([0.9], [0.8, 0.7])


def test_junit_has_a_failure_for_a_refusal_and_an_error_for_what_nobody_judged() -> None:
    root = ElementTree.fromstring(junit(Verdict("refused", CRITERIA, ("qrels.tsv:3: dropped",))))
    (suite,) = root
    assert {k: suite.get(k) for k in ("tests", "failures", "errors")} == {"tests": "3", "failures": "1", "errors": "1"}
    outcomes = {case.get("name"): [child.tag for child in case] for case in suite.iter("testcase")}
    assert outcomes == {"coverage": ["system-out"], "recall_gain": ["failure"], "labels": ["error"]}
    failure = suite.find("./testcase/failure")
    assert failure is not None
    assert failure.get("message") == "too little"
    assert failure.text == "value 0.01, limit 0.1: too little"


def test_junit_is_valid_xml_with_any_text() -> None:
    root = ElementTree.fromstring(junit(Verdict("undecided", CRITERIA), suite="a <b> & \x0b"))
    error = root.find(".//error")
    assert error is not None
    assert error.get("message") == "unknown <document> \ufffd & more"
