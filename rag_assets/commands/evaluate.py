"""`rag eval import`, `run`, `gate` and `report`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from evals.asking import RunSettings
from evals.datasets import EvalSet, labels_of_unknown_documents, load_evalset, with_labels
from evals.gate import Criterion, GatePolicy, Verdict
from evals.junit import junit
from evals.report import Measured, Report, write_report
from evals.runner import GateOutcome, corpus_of, import_set, judge, measure, measure_pair, run_metrics, stored_set
from rag_assets.commands.bars import shown
from rag_assets.commands.ingest import ingest_roots, outcome_payload, show_outcome
from rag_assets.commands.options import Bot, Json, SearchMode, Tenant, key
from rag_assets.commands.session import ready_database
from rag_assets.commands.shell import Answer, note, printable
from rag_assets.errors import RagError, UsageError
from rag_assets.settings import load_settings
from rag_assets.store.database import Database
from rag_assets.store.evals import document_ids
from rag_assets.store.tenants import spaces_of

HEADLINE = ("recall@5", "hit_rate@5", "mrr@10", "ndcg@10", "precision@5")
SHOWN_PROBLEMS = 10
_OUTCOME = {True: ("passed", "green"), False: ("refused", "red"), None: ("not judged", "yellow")}

Mode = Annotated[SearchMode, typer.Option(help="By meaning, by words, or both fused.")]
Weight = Annotated[float, typer.Option(help="Weight of meaning in hybrid mode; words have the rest.", min=0.0, max=1.0)]
Qrels = Annotated[
    Path | None,
    typer.Option(help="Other labels for the imported queries. (default: those imported)", show_default=False),
]


def import_command(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Holds queries, labels, and documents: corpus.jsonl or sources/."),
    ],
    tenant: Tenant,
    bot: Bot,
    profile: Annotated[
        str | None,
        typer.Option(
            help="Profile to build. (default: the bot's active one, else static-256)",
            show_default=False,
            callback=key("profile"),
        ),
    ] = None,
    as_json: Json = False,
) -> Answer:
    """Ingest a labelled collection, and keep its queries and labels as what the bot is measured by.

    BEIR layout (corpus.jsonl, queries.jsonl, qrels/test.tsv), TREC layout (topics.tsv, qrels.tsv with four
    columns), or a folder sources/ beside queries and labels. Critical queries stand in critical.txt. Without
    documents, queries and labels are kept for a bot that has them already.
    """
    load_evalset(folder)  # what cannot be understood is found before anything is written
    corpus, settings = corpus_of(folder), load_settings()
    with ready_database(settings) as database, shown(silent=as_json):
        ingested = None
        if corpus is not None:
            name, outcome = ingest_roots(database, settings, tenant, bot, [str(corpus)], profile)
            ingested = outcome_payload(tenant, bot, name, outcome)
        evalset = import_set(database, tenant, bot, folder)
        unknown = _unknown_documents(database, tenant, bot, evalset)
    problems = [str(problem) for problem in evalset.problems]
    problems += [f"the labelled document {name} is in no source" for name in unknown]
    payload = {
        "tenant": tenant, "bot": bot, "queries": len(evalset.queries), "judged": len(evalset.judged),
        "critical": len(evalset.critical), "content_hash": evalset.content_hash, "problems": problems,
        "ingest": ingested,
    }  # fmt: skip
    return Answer(payload, lambda console: _show_import(console, payload))


def run(
    tenant: Tenant,
    bot: Bot,
    profile: Annotated[
        str | None,
        typer.Option(help="Profile to measure. (default: the active one)", show_default=False, callback=key("profile")),
    ] = None,
    mode: Mode = SearchMode.hybrid,
    weight: Weight = 0.5,
    qrels: Qrels = None,
    as_json: Json = False,
) -> Answer:
    """Put every labelled query to one profile, and measure what comes back and how long it takes.

    The run is recorded with the corpus that it searched. `recall@5` is the share of the relevant documents
    among the first five; `hit_rate@5` is the share of queries with any, which some call recall.
    """
    with ready_database() as database, shown(silent=as_json):
        evalset = labels_from(database, tenant, bot, qrels)
        done = measure(database, tenant, bot, profile, mode.value, _settings(weight), evalset)
    payload = {
        "tenant": tenant, "bot": bot, "mode": mode.value, "run": done.id,
        **measured_payload(done.measured), "problems": list(done.problems),
    }  # fmt: skip
    return Answer(payload, lambda console: show_measured(console, [payload], done.problems))


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
    weight: Weight = 0.5,
    min_recall_gain: Annotated[
        float | None, typer.Option(help="Relative gain in recall@5 to be proven. (default: 0.10)", show_default=False)
    ] = None,
    non_inferior: Annotated[
        float | None,
        typer.Option(help="Instead: recall@5 may be lower by at most this, absolute.", show_default=False),
    ] = None,
    min_queries: Annotated[int, typer.Option(help="Fewer judged queries decide nothing.")] = 30,
    max_p95_ms: Annotated[
        float | None, typer.Option(help="Budget of the 95th percentile of the latency.", show_default=False)
    ] = None,
    max_p95_ratio: Annotated[
        float, typer.Option(help="The same relative to the baseline; differences under 10 ms do not count.")
    ] = 1.5,
    qrels: Qrels = None,
    junit: Annotated[Path | None, typer.Option(help="Write the verdict as JUnit XML.", show_default=False)] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write the report as Markdown.", show_default=False)] = None,
    as_json: Json = False,
) -> Answer:
    """Measure a candidate beside the baseline and judge it: exit code 0 passed, 1 refused, 2 could not be judged.

    Every criterion is judged and shown with its number. The verdict is recorded; `rag promote` asks for it.
    """
    if min_recall_gain is None and non_inferior is None:
        min_recall_gain = GatePolicy.min_recall_gain
    policy = GatePolicy(
        min_recall_gain, non_inferior, min_queries=min_queries, max_p95_ms=max_p95_ms, max_p95_ratio=max_p95_ratio
    )
    named = {"tenant": tenant, "bot": bot, "mode": mode.value, "candidate": candidate, "baseline": baseline}
    try:
        with ready_database() as database, shown(silent=as_json):
            evalset = labels_from(database, tenant, bot, qrels)
            found = judge(database, tenant, bot, candidate, baseline, mode.value, policy, evalset, _settings(weight))
    except UsageError:
        raise
    except RagError as error:
        return _not_judged(named, error, junit)
    _write(junit, markdown, found, named, policy)
    payload = {
        **found.verdict.as_dict(), **named, "baseline": found.baseline.name, "verdict": found.verdict_id,
        "runs": {"candidate": found.candidate_run_id, "baseline": found.baseline_run_id},
        "measured": [measured_payload(found.baseline), measured_payload(found.candidate)],
    }  # fmt: skip
    return Answer(payload, lambda console: _show_gate(console, payload), found.verdict.exit_code)


def report(
    tenant: Tenant,
    bot: Bot,
    candidate: Annotated[str, typer.Option(help="Profile to report on.", show_default=False, callback=key("profile"))],
    out: Annotated[Path, typer.Option(help="File to write, in Markdown.", show_default=False)],
    baseline: Annotated[
        str | None,
        typer.Option(help="Profile to compare with. (default: none)", show_default=False, callback=key("profile")),
    ] = None,
    mode: Mode = SearchMode.hybrid,
    weight: Weight = 0.5,
    as_json: Json = False,
) -> Answer:
    """Write tables, plots and the queries won and lost. The runs are recorded; no verdict is."""
    with ready_database() as database, shown(silent=as_json):
        evalset, settings = stored_set(database, tenant, bot).evalset, _settings(weight)
        before = None
        if baseline is None:
            after = measure(database, tenant, bot, candidate, mode.value, settings).measured
        else:
            after, before = measure_pair(database, tenant, bot, candidate, baseline, mode.value, settings)
    facts = (("tenant", tenant), ("bot", bot), ("mode", mode.value))
    title = f"{candidate} beside {baseline}" if baseline else candidate
    out.parent.mkdir(parents=True, exist_ok=True)
    write_report(Report(title, evalset, after, before, facts=facts), out)
    measured = [measured_payload(one) for one in (before, after) if one is not None]
    payload = {"tenant": tenant, "bot": bot, "mode": mode.value, "file": str(out), "measured": measured}

    def show(console: Console) -> None:
        show_measured(console, measured)
        console.print(f"report: {out}", markup=False)

    return Answer(payload, show)


def labels_from(database: Database, tenant: str, bot: str, qrels: Path | None) -> EvalSet | None:
    """The imported queries with the labels of a file; None where no file is named."""
    return None if qrels is None else with_labels(stored_set(database, tenant, bot).evalset, qrels)


def measured_payload(measured: Measured) -> dict[str, Any]:
    """What every command prints of a run: the usual metrics first, all others under `metrics`."""
    metrics = run_metrics(measured)
    own = {"profile": measured.name, "queries": metrics.pop("queries")}
    own |= {name: metrics.pop(name) for name in HEADLINE}
    own |= {"p50_ms": metrics.pop("total_p50_ms"), "p95_ms": metrics.pop("total_p95_ms")}
    return {**own, "metrics": metrics}


def show_measured(console: Console, rows: list[dict[str, Any]], problems: tuple[str, ...] = ()) -> None:
    """A table with a line for each run, and what was wrong with the labels."""
    extra = [name for name in ("mode", "weight") if any(name in row for row in rows)]
    table = Table("profile", *extra, "queries", *HEADLINE, "p50 ms", "p95 ms")
    for row in rows:
        numbers = [_number(row[name], 4) for name in HEADLINE] + [_number(row[n], 1) for n in ("p50_ms", "p95_ms")]
        table.add_row(row["profile"], *(str(row.get(name, "")) for name in extra), str(row["queries"]), *numbers)
    console.print(table)
    show_problems(console, problems)


def show_problems(console: Console, problems: tuple[str, ...] | list[str]) -> None:
    """The first problems, one a line."""
    for problem in problems[:SHOWN_PROBLEMS]:
        console.print(Text(printable(problem), style="yellow"), soft_wrap=True)
    if len(problems) > SHOWN_PROBLEMS:
        console.print(Text(f"and {len(problems) - SHOWN_PROBLEMS} more; all of them with --json", style="yellow"))


def _settings(weight: float) -> RunSettings:
    return RunSettings(dense_weight=weight)


def _unknown_documents(database: Database, tenant: str, bot: str, evalset: EvalSet) -> tuple[str, ...]:
    with database.transaction("ingest", {"tenant": tenant}) as connection:
        known = document_ids(connection, spaces_of(connection, tenant, bot)[0])
    return labels_of_unknown_documents(evalset, known)


def _show_import(console: Console, payload: Mapping[str, Any]) -> None:
    if payload["ingest"]:
        show_outcome(console, payload["ingest"])
    console.print(
        f"{payload['tenant']}/{payload['bot']} is measured by {payload['judged']} judged queries of "
        f"{payload['queries']}, {payload['critical']} of them critical",
        markup=False,
    )
    show_problems(console, payload["problems"])


def _not_judged(named: dict[str, Any], error: RagError, junit: Path | None) -> Answer:
    """An answer of its own: CI must not take a database that is down for a candidate that is bad."""
    verdict = Verdict("undecided", (Criterion("measurement", None, None, None, str(error)),))
    _write_junit(junit, verdict, named["candidate"])
    payload = {
        **verdict.as_dict(), **named, "verdict": None,
        "error": {"type": type(error).__name__, "message": str(error)},
    }  # fmt: skip
    return Answer(payload, lambda _: note(f"Error: could not be judged: {error}", "bold red"), verdict.exit_code)


def _write_junit(path: Path | None, verdict: Verdict, candidate: str) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(junit(verdict, f"promotion_gate.{candidate}"), encoding="utf-8")


def _write(
    junit: Path | None, markdown: Path | None, found: GateOutcome, named: Mapping[str, Any], policy: GatePolicy
) -> None:
    _write_junit(junit, found.verdict, found.candidate.name)
    if markdown is None:
        return

    wanted = f"gain of {policy.min_recall_gain:.0%}" if policy.min_recall_gain is not None else "non-inferiority"
    facts = tuple((name, str(named[name])) for name in ("tenant", "bot", "mode"))
    title = f"{found.candidate.name} beside {found.baseline.name}: {found.verdict.outcome}"
    markdown.parent.mkdir(parents=True, exist_ok=True)
    report = Report(
        title, found.evalset, found.candidate, found.baseline, found.verdict, (*facts, ("asked for", wanted))
    )
    write_report(report, markdown)


def _show_gate(console: Console, payload: Mapping[str, Any]) -> None:
    show_measured(console, payload["measured"])
    table = Table("criterion", "outcome", "value", "limit", "reason")
    for one in payload["criteria"]:
        word, style = _OUTCOME[one["passed"]]
        table.add_row(
            one["name"], Text(word, style=style), _number(one["value"], 4), _number(one["limit"], 4),
            Text(printable(one["reason"])),
        )  # fmt: skip
    console.print(table)
    show_problems(console, payload["problems"])
    style = {"passed": "bold green", "refused": "bold red", "undecided": "bold yellow"}[payload["outcome"]]
    what = f"{payload['candidate']} against {payload['baseline']}: {payload['outcome']} (verdict {payload['verdict']})"
    console.print(Text(what, style=style))
    if payload["outcome"] == "passed":
        words = f"rag promote {payload['candidate']} --tenant {payload['tenant']} --bot {payload['bot']}"
        console.print(Text(f"promote it with: {words}", style="dim"))


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:g}" if float(value).is_integer() else f"{value:.{digits}f}"
