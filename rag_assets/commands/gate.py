"""`rag eval gate`: judge a candidate, and show and write the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from evals.asking import RunSettings
from evals.gate import Criterion, GatePolicy, Verdict
from evals.junit import junit as junit_xml
from evals.labels import MAX_LEFT_OUT
from evals.report import Report, write_report
from evals.runner import GateOutcome, judge
from rag_assets.commands.bars import shown
from rag_assets.commands.evaluate import (
    NOT_RECORDED,
    Mode,
    Plots,
    Qrels,
    Weight,
    judged_fact,
    labels_from,
    measured_payload,
    number_text,
    run_settings,
    show_measured,
    show_problems,
)
from rag_assets.commands.options import Bot, Json, RetrieverFile, SearchMode, Tenant, existing, key
from rag_assets.commands.session import check_names, ready_database
from rag_assets.commands.shell import CommandResult, note, printable
from rag_assets.errors import RagError, UsageError
from rag_assets.retrieval.files import read_retriever_file

_Gain = Annotated[
    float | None, typer.Option(help="Relative gain in recall@5 to be proven. (default: 0.10)", show_default=False)
]
_Margin = Annotated[
    float | None, typer.Option(help="Instead: recall@5 may be lower by at most this, absolute.", show_default=False)
]
_Budget = Annotated[
    float | None, typer.Option(help="Budget of the 95th percentile of the latency.", show_default=False)
]
_Ratio = Annotated[float, typer.Option(help="The same relative to the baseline; differences under 10 ms do not count.")]
_LeftOut = Annotated[float, typer.Option(help="Share of the labels that may name documents which no profile can hold.")]
_BaselineRetriever = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.toml",
        help="Ask the baseline with this one. (default: as the candidate; the same profile in its --mode)",
        callback=existing("file"),
        show_default=False,
    ),
]
_OUTCOME = {True: ("passed", "green"), False: ("refused", "red"), None: ("not judged", "yellow")}


def gate(
    tenant: Tenant,
    bot: Bot,
    candidate: Annotated[
        str, typer.Option(help="Profile that is to be promoted.", show_default=False, callback=key("profile"))
    ],
    baseline: Annotated[
        str | None,
        typer.Option(
            help="Profile to compare with. (default: the active one)", show_default=False, callback=key("profile")
        ),
    ] = None,
    mode: Mode = SearchMode.hybrid,
    weight: Weight = None,
    retriever: RetrieverFile = None,
    baseline_retriever: _BaselineRetriever = None,
    min_recall_gain: _Gain = None,
    non_inferior: _Margin = None,
    min_queries: Annotated[int, typer.Option(help="Fewer judged queries decide nothing.")] = 30,
    max_p95_ms: _Budget = None,
    max_p95_ratio: _Ratio = 1.5,
    max_left_out: _LeftOut = MAX_LEFT_OUT,
    qrels: Qrels = None,
    junit: Annotated[Path | None, typer.Option(help="Write the verdict as JUnit XML.", show_default=False)] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write the report as Markdown.", show_default=False)] = None,
    plots: Plots = False,
    as_json: Json = False,
) -> CommandResult:
    """Measure a candidate beside the baseline and judge it: exit code 0 passed, 1 refused, 2 could not be judged.

    Every criterion is judged and shown with its number. The verdict is recorded; `rag promote` asks for it. With
    --retriever and the profile that is active, the retriever is judged against the mode: no profile is promoted by it.
    """
    settings = run_settings(weight, retriever)
    other = RunSettings(retriever=read_retriever_file(baseline_retriever)) if baseline_retriever else None
    if min_recall_gain is None and non_inferior is None:
        min_recall_gain = GatePolicy.min_recall_gain
    policy = GatePolicy(
        min_recall_gain, non_inferior, min_queries=min_queries, max_p95_ms=max_p95_ms, max_p95_ratio=max_p95_ratio,
        max_left_out=max_left_out,
    )  # fmt: skip
    named = {"tenant": tenant, "bot": bot, "mode": mode.value, "candidate": candidate, "baseline": baseline}
    try:
        with ready_database() as database, shown(silent=as_json, kept=NOT_RECORDED):
            check_names(database, tenant, bot, candidate, baseline)
            evalset = labels_from(database, tenant, bot, qrels)
            found = judge(database, tenant, bot, candidate, baseline, mode.value, policy, evalset, settings, other)
    except UsageError:
        raise
    except RagError as error:
        return _not_judged(named, error, junit)
    _write_junit(junit, found.verdict, found.candidate.profile)
    if markdown is not None:
        _write_markdown(markdown, plots, found, named, policy)
    payload = _payload(found, named)
    return CommandResult(payload, lambda console: _show_gate(console, payload), found.verdict.exit_code)


def _payload(found: GateOutcome, named: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **found.verdict.as_dict(), **named, "baseline": found.baseline.profile, "verdict": found.verdict_id,
        "retriever": found.candidate.retriever, "baseline_retriever": found.baseline.retriever,
        "asked_alike": found.asked_alike,
        "runs": {"candidate": found.candidate_run_id, "baseline": found.baseline_run_id},
        "measured": [measured_payload(found.baseline), measured_payload(found.candidate)],
        "labels": found.labels.as_dict(),
    }  # fmt: skip


def _not_judged(named: dict[str, Any], error: RagError, junit: Path | None) -> CommandResult:
    """An answer of its own: CI must not take a database that is down for a candidate that is bad."""
    verdict = Verdict("undecided", (Criterion("measurement", None, None, None, str(error)),))
    _write_junit(junit, verdict, named["candidate"])
    payload = {
        **verdict.as_dict(), **named, "verdict": None,
        "error": {"type": type(error).__name__, "message": str(error)},
    }  # fmt: skip
    return CommandResult(payload, lambda _: note(f"Error: could not be judged: {error}", "bold red"), verdict.exit_code)


def _write_junit(path: Path | None, verdict: Verdict, candidate: str) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(junit_xml(verdict, f"promotion_gate.{candidate}"), encoding="utf-8")


def _write_markdown(path: Path, plots: bool, found: GateOutcome, named: Mapping[str, Any], policy: GatePolicy) -> None:
    wanted = f"gain of {policy.min_recall_gain:.0%}" if policy.min_recall_gain is not None else "non-inferiority"
    told = ("tenant", "bot") if found.candidate.retriever else ("tenant", "bot", "mode")
    facts = tuple((name, str(named[name])) for name in told)
    title = f"{found.candidate.name} beside {found.baseline.name}: {found.verdict.outcome}"
    facts += (("asked for", wanted), judged_fact(found.labels))
    path.parent.mkdir(parents=True, exist_ok=True)
    report = Report(title, found.evalset, found.candidate, found.baseline, found.verdict, facts)
    write_report(report, path, plots=plots)


def _show_gate(console: Console, payload: Mapping[str, Any]) -> None:
    show_measured(console, payload["measured"])
    table = Table("criterion", "outcome", "value", "limit", "reason")
    for one in payload["criteria"]:
        word, style = _OUTCOME[one["passed"]]
        table.add_row(
            one["name"], Text(word, style=style), number_text(one["value"], 4), number_text(one["limit"], 4),
            Text(printable(one["reason"])),
        )  # fmt: skip
    console.print(table)
    show_problems(console, payload["problems"])
    style = {"passed": "bold green", "refused": "bold red", "undecided": "bold yellow"}[payload["outcome"]]
    what = f"{payload['candidate']} against {payload['baseline']}: {payload['outcome']} (verdict {payload['verdict']})"
    console.print(Text(what, style=style))
    if payload["outcome"] == "passed":
        console.print(Text(_next_step(payload), style="dim"))


def _next_step(payload: Mapping[str, Any]) -> str:
    where = f"--tenant {payload['tenant']} --bot {payload['bot']}"
    if payload["asked_alike"]:
        return f"promote it with: rag promote {payload['candidate']} {where}"
    how = f"--retriever {payload['retriever']}" if payload["retriever"] else f"--mode {payload['mode']}"
    return f"the way of asking was judged, and no profile is promoted by it; search so with: {how}"
