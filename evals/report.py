"""The report of an evaluation: Markdown with tables and bars, of one profile or of a candidate beside its baseline."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

from evals.bars import Bar, chart, gains, shares
from evals.datasets import EvalSet
from evals.gate import METRIC, Verdict
from evals.junit import junit
from evals.metrics import HEADLINE, Evaluation
from evals.plots import gains_and_losses, latency_plot, metric_bars, similarity_histogram
from evals.runs import RetrievalRun
from evals.significance import confidence_intervals, paired_differences, randomization_test
from rag_assets.printing import counted

__all__ = [
    "Measured",
    "Report",
    "gains_and_losses",
    "junit",
    "latency_plot",
    "metric_bars",
    "render",
    "similarity_histogram",
    "split_scores",
    "write_report",
]

SHOWN_QUERIES = 20
_SHOWN_DOCUMENTS = 5
_SHOWN_PROBLEMS = 20
_SYMBOL = {True: "passed", False: "**refused**", None: "**not judged**"}
_MARKDOWN = re.compile(r"([\\`*_\[\]|~])")


@dataclass(frozen=True)
class Measured:
    """A profile, what it returned and how it did; through which retriever, where it was not asked in a mode."""

    profile: str
    run: RetrievalRun
    evaluation: Evaluation
    retriever: str | None = None

    @property
    def name(self) -> str:
        """What tells it from others in a report."""
        return self.profile if self.retriever is None else f"{self.profile} with {self.retriever}"


@dataclass(frozen=True)
class Report:
    """What a report shows. Without a baseline there is nothing to compare, without a verdict no criteria."""

    title: str
    evalset: EvalSet
    candidate: Measured
    baseline: Measured | None = None
    verdict: Verdict | None = None
    facts: tuple[tuple[str, str], ...] = ()  # shown first: tenant, bot, mode, profile specification, …

    @property
    def measured(self) -> tuple[Measured, ...]:
        """Baseline first, as the plots show them."""
        return (self.baseline, self.candidate) if self.baseline else (self.candidate,)

    @cached_property
    def intervals(self) -> dict[str, dict[str, tuple[float, float]]]:
        """Confidence intervals by profile and metric."""
        return {m.name: confidence_intervals(m.evaluation) for m in self.measured}

    @cached_property
    def differences(self) -> dict[str, float]:
        """Candidate minus baseline in Recall@5, by query; empty where they were not measured on the same queries."""
        if self.baseline is None:
            return {}
        before, after = self.baseline.evaluation, self.candidate.evaluation
        if not before.query_ids or set(before.query_ids) != set(after.query_ids):
            return {}
        values = paired_differences(before, after, METRIC)
        return dict(zip(before.query_ids, values.tolist(), strict=True))


def write_report(report: Report, path: Path, *, plots: bool = False) -> None:
    """Write the report; with `plots`, pictures of its bars go to a folder of the same name beside it."""
    path.write_text(render(report, path.with_suffix("") if plots else None), encoding="utf-8")


def render(report: Report, plots: Path | None = None) -> str:
    """The report as Markdown, with bars drawn as text; and as PNG files too in the folder `plots`, which is made.

    Links to them are relative to the folder's parent: the report belongs beside the folder.

    Raises:
        OSError: the folder cannot be written.
    """
    blocks = [f"# {_text(report.title)}", *_verdict(report), *_facts(report), *_metrics(report)]
    blocks += [*_bars(report), *_pictures(report, plots)]
    blocks += [*_changed(report), *_left_out(report)]
    return "\n\n".join(blocks) + "\n"


def split_scores(run: RetrievalRun, evalset: EvalSet) -> tuple[list[float], list[float]]:
    """Scores of the returned documents of judged queries: of relevant ones, and of all others."""
    relevant: list[float] = []
    others: list[float] = []
    for query in evalset.judged:
        grades = evalset.qrels[query]
        for document, score in run.rankings.get(query, ()):
            (relevant if grades.get(document, 0) > 0 else others).append(score)
    return relevant, others


def _verdict(report: Report) -> Iterator[str]:
    if (verdict := report.verdict) is None:
        return
    yield f"**Verdict: {verdict.outcome}**"
    yield _table(
        ("criterion", "outcome", "value", "limit", "reason"),
        (
            (_text(c.name), _SYMBOL[c.passed], _number(c.value), _number(c.limit), _text(c.reason))
            for c in verdict.criteria
        ),
    )


def _facts(report: Report) -> Iterator[str]:
    evaluation = report.candidate.evaluation
    own = (
        ("judged queries", str(len(evaluation.query_ids))),
        ("without an answer in the candidate's run", str(len(evaluation.missing))),
        ("labelled set", report.evalset.content_hash[:12]),
        ("candidate's run", report.candidate.run.run_hash[:12]),
    )
    yield _table(("", ""), ((_text(name), _text(value)) for name, value in (*report.facts, *own)))


def _metrics(report: Report) -> Iterator[str]:
    yield "## Metrics"
    yield "Means over the judged queries, with 95% bootstrap confidence intervals."
    names = [
        name for name in report.candidate.evaluation.values if all(name in m.evaluation.values for m in report.measured)
    ]
    compared = report.baseline is not None and bool(report.differences)
    rows = []
    for name in [n for n in HEADLINE if n in names] + [n for n in names if n not in HEADLINE]:
        cells = [_with_interval(m.evaluation.means[name], report.intervals[m.name][name]) for m in report.measured]
        if compared and report.baseline is not None:
            diffs = paired_differences(report.baseline.evaluation, report.candidate.evaluation, name)
            cells += [f"{diffs.mean():+.4f}", f"{randomization_test(diffs):.4f}"]
        rows.append([_text(name), *cells])
    columns = ["metric", *(_text(m.name) for m in report.measured), *(("difference", "p") if compared else ())]
    yield _table(columns, rows)
    yield from _latencies(report.measured)


def _latencies(measured: Sequence[Measured]) -> Iterator[str]:
    stages = dict.fromkeys(stage for m in measured for stage in m.run.latencies_ms)
    if not stages:
        return
    yield "Latency in milliseconds, p50 / p95:"
    yield _table(
        ("stage", *(_text(m.name) for m in measured)),
        ((_text(stage), *(_latency(m.run, stage) for m in measured)) for stage in stages),
    )


def _latency(run: RetrievalRun, stage: str) -> str:
    low, high = run.percentile_ms(stage, 0.5), run.percentile_ms(stage, 0.95)
    return "–" if low is None or high is None else f"{low:.1f} / {high:.1f}"


def _plots(report: Report) -> dict[str, bytes]:
    shown = {
        m.name: {name: mean for name, mean in m.evaluation.means.items() if name in HEADLINE} for m in report.measured
    }
    plots = {"metrics": metric_bars(shown, report.intervals)}
    if report.differences:
        plots["gains-and-losses"] = gains_and_losses(list(report.differences.values()), METRIC)
    relevant, others = split_scores(report.candidate.run, report.evalset)
    if relevant or others:
        plots["scores"] = similarity_histogram(relevant, others)
    latencies = {
        m.name: {stage: list(values.values()) for stage, values in m.run.latencies_ms.items()}
        for m in report.measured
        if m.run.latencies_ms
    }
    if latencies:
        plots["latency"] = latency_plot(latencies)
    return plots


def _bars(report: Report) -> Iterator[str]:
    yield chart(_metric_bars(report), 1.0)
    if report.differences:
        yield f"Queries by their difference in {METRIC}:"
        yield chart(gains(list(report.differences.values())))
    relevant, others = split_scores(report.candidate.run, report.evalset)
    if relevant or others:
        yield f"Scores of the {len(relevant)} relevant and {len(others)} other documents that were returned:"
        yield chart(shares(relevant, others))


def _metric_bars(report: Report) -> list[Bar]:
    column = max(len(_plain(m.name)) for m in report.measured) + 1
    bars = []
    for metric in HEADLINE:
        known = (m for m in report.measured if metric in m.evaluation.values)
        for number, measured in enumerate(known):
            mean = measured.evaluation.means[metric]
            label = f"{'' if number else metric:<13}{_plain(measured.name):<{column}}"
            bars.append(Bar(label, mean, f"{mean:.4f}"))
    return bars


def _plain(name: str) -> str:
    """A name inside a block of text: on one line, and no end of the block."""
    return " ".join(name.split()).replace("`", "'")


def _pictures(report: Report, folder: Path | None) -> Iterator[str]:
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    for name, png in _plots(report).items():
        (folder / f"{name}.png").write_bytes(png)
        yield f"![{name}]({quote(folder.name)}/{name}.png)"


def _changed(report: Report) -> Iterator[str]:
    differences = report.differences
    won = sorted((q for q, diff in differences.items() if diff > 0), key=lambda q: (-differences[q], q))
    lost = sorted((q for q, diff in differences.items() if diff < 0), key=lambda q: (differences[q], q))
    for title, queries in (("Queries lost", lost), ("Queries won", won)):
        if report.baseline is None or not differences:
            continue
        yield f"## {title}: {len(queries)}"
        if queries:
            yield _changed_table(report, report.baseline, queries[:SHOWN_QUERIES])
        if len(queries) > SHOWN_QUERIES:
            yield f"The {SHOWN_QUERIES} largest differences of {len(queries)} are shown."


def _changed_table(report: Report, baseline: Measured, queries: Iterable[str]) -> str:
    texts = {query.id: query for query in report.evalset.queries}
    rows = []
    for query in queries:
        asked = texts[query]
        mark = " (critical)" if query in report.evalset.critical else ""
        grades = report.evalset.qrels[query]
        before, after = (_returned(m.run.top(query, _SHOWN_DOCUMENTS), grades) for m in (baseline, report.candidate))
        rows.append((_text(query) + mark, _text(asked.text), f"{report.differences[query]:+.2f}", before, after))
    return "Relevant documents are bold.\n\n" + _table(
        ("query", "text", "difference", _text(baseline.name), _text(report.candidate.name)), rows
    )


def _returned(documents: Sequence[str], grades: Mapping[str, int]) -> str:
    shown = (f"**{_text(d)}**" if grades.get(d, 0) > 0 else _text(d) for d in documents)
    return "<br>".join(f"{rank}. {name}" for rank, name in enumerate(shown, start=1)) or "nothing"


def _left_out(report: Report) -> Iterator[str]:
    evaluation = report.candidate.evaluation
    problems = dict.fromkeys((*map(str, report.evalset.problems), *(report.verdict.problems if report.verdict else ())))
    lines = [f"- {_text(problem)}" for problem in list(problems)[:_SHOWN_PROBLEMS]]
    if len(problems) > _SHOWN_PROBLEMS:
        lines.append(f"- and {len(problems) - _SHOWN_PROBLEMS} more")
    for ids, what in (
        (evaluation.unjudged, ("query", "without a relevant document, left out of every mean")),
        (evaluation.missing, ("judged query", "without an answer, counted as 0")),
        (evaluation.unknown, ("query", "of the run that the labelled set does not have")),
    ):
        if ids:
            more = ", …" if len(ids) > _SHOWN_PROBLEMS else ""
            kind, said = what
            lines.append(f"- {counted(len(ids), kind)} {said}: {_text(', '.join(ids[:_SHOWN_PROBLEMS]))}{more}")
    if lines:
        yield "## Left out or counted as 0"
        yield "\n".join(lines)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _text(value: str) -> str:
    """Text of a document or person inside a table cell: no markup of its own, on one line."""
    return _MARKDOWN.sub(r"\\\1", html.escape(" ".join(value.split()), quote=False))


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:g}" if float(value).is_integer() else f"{value:.4f}"


def _with_interval(mean: float, interval: tuple[float, float]) -> str:
    return f"{mean:.4f} [{interval[0]:.4f}, {interval[1]:.4f}]"
