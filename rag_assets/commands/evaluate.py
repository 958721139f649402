"""`rag eval import`, `run` and `report`, and how a measured run is shown."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from evals.asking import RunSettings
from evals.datasets import EvalSet, load_evalset, with_labels
from evals.gate import GatePolicy
from evals.labels import Labels
from evals.metrics import HEADLINE
from evals.naming import labels_of
from evals.report import Measured, Report, write_report
from evals.runner import corpus_of, import_set, measure, measure_pair, run_metrics, stored_set
from rag_assets.commands.bars import shown
from rag_assets.commands.ingest import ingest_roots, outcome_payload, show_outcome
from rag_assets.commands.options import Bot, Json, RetrieverFile, SearchMode, Tenant, existing, key
from rag_assets.commands.session import check_names, ready_database
from rag_assets.commands.shell import CommandResult, printable
from rag_assets.errors import UsageError
from rag_assets.printing import counted
from rag_assets.retrieval.files import read_retriever_file
from rag_assets.settings import load_settings
from rag_assets.store.database import Database

SHOWN_PROBLEMS = 10
NOT_RECORDED = "what is built is kept, and this run is not recorded"

Mode = Annotated[SearchMode, typer.Option(help="By meaning, by words, or both fused.")]
Weight = Annotated[
    float | None,
    typer.Option(
        help="Weight of meaning in hybrid mode; words have the rest. (default: tuned, else found, else 0.5)",
        show_default=False, min=0.0, max=1.0,
    ),
]  # fmt: skip
Plots = Annotated[bool, typer.Option("--plots", help="Write pictures too, to a folder of the report's name beside it.")]
Qrels = Annotated[
    Path | None,
    typer.Option(
        help="Other labels for the imported queries. (default: those imported)",
        show_default=False,
        callback=existing("file"),
    ),
]


def import_command(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="Holds queries, labels, and documents: corpus.jsonl or sources/.",
            callback=existing("folder"),
        ),
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
) -> CommandResult:
    """Ingest a labelled collection, and keep its queries and labels as what the bot is measured by.

    BEIR layout (corpus.jsonl, queries.jsonl, qrels/test.tsv), TREC layout (topics.tsv, qrels.tsv with four
    columns), or a folder sources/ beside queries and labels. Critical queries stand in critical.txt. Without
    documents, queries and labels are kept for a bot that has them already.
    """
    load_evalset(folder)  # what cannot be understood is found before anything is written
    corpus, settings = corpus_of(folder), load_settings()
    with ready_database(settings, makes_home=True) as database, shown(silent=as_json):
        ingested = None
        if corpus is not None:
            name, outcome = ingest_roots(database, settings, tenant, bot, [str(corpus)], profile)
            ingested = outcome_payload(tenant, bot, name, outcome)
        evalset = import_set(database, tenant, bot, folder)
        labels = labels_of(database, tenant, bot, evalset)
    problems = [str(problem) for problem in evalset.problems]
    problems += labels.problems()
    payload = {
        "tenant": tenant, "bot": bot, "queries": len(evalset.queries), "judged": len(evalset.judged),
        "critical": len(evalset.critical), "content_hash": evalset.content_hash, "problems": problems,
        "hints": _hints(tenant, bot, evalset, labels), "labels": labels.as_dict(), "ingest": ingested,
    }  # fmt: skip
    return CommandResult(payload, lambda console: _show_import(console, payload))


def run(
    tenant: Tenant,
    bot: Bot,
    profile: Annotated[
        str | None,
        typer.Option(help="Profile to measure. (default: the active one)", show_default=False, callback=key("profile")),
    ] = None,
    mode: Mode = SearchMode.hybrid,
    weight: Weight = None,
    retriever: RetrieverFile = None,
    qrels: Qrels = None,
    as_json: Json = False,
) -> CommandResult:
    """Put every labelled query to one profile, and measure what comes back and how long it takes.

    The run is recorded with the corpus that it searched. `recall@5` is the share of the relevant documents
    among the first five; `hit_rate@5` is the share of queries with any, which some call recall.
    """
    settings = run_settings(weight, retriever)
    with ready_database() as database, shown(silent=as_json, kept=NOT_RECORDED):
        check_names(database, tenant, bot, profile)
        evalset = labels_from(database, tenant, bot, qrels)
        done = measure(database, tenant, bot, profile, mode.value, settings, evalset)
    payload = {
        "tenant": tenant, "bot": bot, "mode": None if retriever else mode.value, "run": done.id,
        **measured_payload(done.measured), "labels": done.labels.as_dict(), "problems": list(done.problems),
    }  # fmt: skip
    return CommandResult(payload, lambda console: show_measured(console, [payload], done.problems))


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
    weight: Weight = None,
    retriever: RetrieverFile = None,
    plots: Plots = False,
    as_json: Json = False,
) -> CommandResult:
    """Write tables, bars and the queries won and lost. The runs are recorded; no verdict is."""
    settings = run_settings(weight, retriever)
    with ready_database() as database, shown(silent=as_json, kept=NOT_RECORDED):
        check_names(database, tenant, bot, candidate, baseline)
        evalset = stored_set(database, tenant, bot).evalset
        before = None
        if baseline is None:
            after = measure(database, tenant, bot, candidate, mode.value, settings).measured
        else:
            after, before = measure_pair(database, tenant, bot, candidate, baseline, mode.value, settings)
    how = ("retriever", str(retriever)) if retriever else ("mode", mode.value)
    facts = (("tenant", tenant), ("bot", bot), how)
    title = f"{candidate} beside {baseline}" if baseline else candidate
    out.parent.mkdir(parents=True, exist_ok=True)
    write_report(Report(title, evalset, after, before, facts=facts), out, plots=plots)
    measured = [measured_payload(one) for one in (before, after) if one is not None]
    payload = {
        "tenant": tenant, "bot": bot, "mode": None if retriever else mode.value, "file": str(out), "measured": measured,
    }  # fmt: skip

    def show(console: Console) -> None:
        show_measured(console, measured)
        console.print(f"report: {out}", markup=False)

    return CommandResult(payload, show)


def run_settings(weight: float | None, retriever: Path | None) -> RunSettings:
    """How queries are put, by the options of a command.

    Raises:
        UsageError: a file that is no retriever's, or one beside a weight.
    """
    if retriever is None:
        return RunSettings(dense_weight=weight)
    if weight is not None:
        raise UsageError("--weight goes with a --mode; the file of a retriever says dense_weight where it wants one")
    return RunSettings(retriever=read_retriever_file(retriever))


def labels_from(database: Database, tenant: str, bot: str, qrels: Path | None) -> EvalSet | None:
    """The imported queries with the labels of a file; None where no file is named."""
    return None if qrels is None else with_labels(stored_set(database, tenant, bot).evalset, qrels)


def measured_payload(measured: Measured) -> dict[str, Any]:
    """What every command prints of a run: the usual metrics first, all others under `metrics`."""
    metrics = run_metrics(measured)
    own = {"profile": measured.profile, "retriever": measured.retriever, "queries": metrics.pop("queries")}
    own |= {name: metrics.pop(name) for name in HEADLINE}
    own |= {"p50_ms": metrics.pop("total_p50_ms"), "p95_ms": metrics.pop("total_p95_ms")}
    return {**own, "metrics": metrics}


def show_measured(console: Console, rows: list[dict[str, Any]], problems: tuple[str, ...] = ()) -> None:
    """A table with a line for each run, and what was wrong with the labels."""
    extra = [name for name in ("mode", "retriever", "weight") if any(row.get(name) is not None for row in rows)]
    table = Table("profile", *extra, "queries", *HEADLINE, "p50 ms", "p95 ms")
    for row in rows:
        numbers = [number_text(row[name], 4) for name in HEADLINE]
        numbers += [number_text(row[name], 1) for name in ("p50_ms", "p95_ms")]
        table.add_row(row["profile"], *(_cell(row.get(name)) for name in extra), str(row["queries"]), *numbers)
    console.print(table)
    show_problems(console, problems)


def _cell(value: object) -> Text:
    return Text("" if value is None else printable(str(value)))


def show_problems(console: Console, problems: tuple[str, ...] | list[str]) -> None:
    """The first problems, one a line."""
    for problem in problems[:SHOWN_PROBLEMS]:
        console.print(Text(printable(problem), style="yellow"), soft_wrap=True)
    if len(problems) > SHOWN_PROBLEMS:
        console.print(Text(f"and {len(problems) - SHOWN_PROBLEMS} more; all of them with --json", style="yellow"))


def number_text(value: float | None, digits: int) -> str:
    """Whole numbers without a point, others to so many digits, a dash for None."""
    return "–" if value is None else f"{value:g}" if float(value).is_integer() else f"{value:.{digits}f}"


def judged_fact(labels: Labels) -> tuple[str, str]:
    """A line of a report: how many of the labels can be judged."""
    return "labels judged", f"{labels.labels - labels.lost} of {labels.labels} ({1 - labels.lost_share:.2%})"


def _hints(tenant: str, bot: str, evalset: EvalSet, labels: Labels) -> list[str]:
    """What to do about labels that nothing can answer, and about too few of them."""
    hints = []
    if labels.without_document:
        hints.append(
            "ingest these documents, or take their labels out; a label names a document by its path under its root, by "
            f"the record's own id, or by an end of its address: rag sources --tenant {tenant} --bot {bot}"
        )
    if len(evalset.judged) < GatePolicy.min_queries:
        hints.append(
            f"with {counted(len(evalset.judged), 'judged query')} rag eval gate decides nothing: it needs "
            f"{GatePolicy.min_queries}, unless --min-queries says otherwise"
        )
    return hints


def _show_import(console: Console, payload: Mapping[str, Any]) -> None:
    if payload["ingest"]:
        show_outcome(console, payload["ingest"])
    console.print(
        f"{payload['tenant']}/{payload['bot']} is measured by {counted(payload['judged'], 'judged query')} of "
        f"{payload['queries']}, {payload['critical']} of them critical",
        markup=False,
    )
    show_problems(console, payload["problems"])
    for hint in payload["hints"]:
        console.print(Text(printable(hint), style="yellow"), soft_wrap=True)
