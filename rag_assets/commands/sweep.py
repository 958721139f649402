"""`rag eval sweep` and `rag eval tune`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from evals.asking import RunSettings
from evals.floors import KEEP
from evals.metrics import HEADLINE, Evaluation
from evals.runner import measure, stored_set
from evals.tuning import Tuned
from evals.tuning import tune as find
from rag_assets.commands.bars import shown
from rag_assets.commands.evaluate import NOT_RECORDED, measured_payload, run_settings, show_measured
from rag_assets.commands.floors import reset_floors_of, tune_floors
from rag_assets.commands.options import Bot, Json, SearchMode, Tenant, existing, key
from rag_assets.commands.session import check_names, ready_database
from rag_assets.commands.shell import FAILED, CommandResult
from rag_assets.errors import ProfileNotReady, UsageError
from rag_assets.ingest.pairs import enabled_profiles
from rag_assets.store.database import Database
from rag_assets.store.profiles import BuiltProfile, built_profile
from rag_assets.store.search import Mode
from rag_assets.store.tenants import spaces_of
from rag_assets.store.weights import reset_tuned_weight, set_tuned_weight, untuned_weight

_Unanswerable = Annotated[
    Path | None,
    typer.Option(
        help="With --floor: questions that nobody can answer, one a line. (default: imported ones of that kind)",
        show_default=False,
        callback=existing("file"),
    ),
]
_Keep = Annotated[
    float | None,
    typer.Option(
        help=f"With --floor: the share of labelled queries to let through. (default: {KEEP:g})",
        show_default=False,
        min=0.0,
        max=1.0,
    ),
]


def sweep(
    tenant: Tenant,
    bot: Bot,
    profiles: Annotated[
        list[str] | None,
        typer.Option(
            "--profile",
            help="Profile to measure; may be repeated. (default: all that are built)",
            callback=key("profile"),
        ),
    ] = None,
    modes: Annotated[
        list[SearchMode] | None, typer.Option("--mode", help="Mode to measure; may be repeated. (default: all)")
    ] = None,
    retrievers: Annotated[
        list[Path] | None,
        typer.Option(
            "--retriever", metavar="FILE.toml", callback=existing("file"), show_default=False,
            help="Measure the retriever that this file describes too; may be repeated.",
        ),
    ] = None,
    as_json: Json = False,
) -> CommandResult:  # fmt: skip
    """Measure profiles in every mode, and by retrievers, side by side in one table. All runs are recorded."""
    ways: list[tuple[Mode | None, RunSettings]] = [(mode.value, RunSettings()) for mode in modes or list(SearchMode)]
    ways += [(None, run_settings(None, path)) for path in retrievers or ()]
    rows: list[dict[str, Any]] = []
    problems: dict[str, None] = {}
    with ready_database() as database, shown(silent=as_json, kept=NOT_RECORDED):
        check_names(database, tenant, bot, *(profiles or ()))
        for profile in profiles or _complete_profiles(database, tenant, bot):
            for mode, settings in ways:
                done = measure(database, tenant, bot, profile, mode or "hybrid", settings)
                rows.append({"mode": mode, "run": done.id, **measured_payload(done.measured)})
                problems |= dict.fromkeys(done.problems)
    payload = {"tenant": tenant, "bot": bot, "runs": rows, "problems": list(problems)}
    return CommandResult(payload, lambda console: show_measured(console, rows, tuple(problems)))


def tune(
    tenant: Tenant,
    bot: Bot,
    profile: Annotated[
        str, typer.Option(help="Profile whose hybrid search is tuned.", show_default=False, callback=key("profile"))
    ],
    apply: Annotated[
        bool, typer.Option("--apply", help="Let searches of the profile use the weight, if it is proven to be better.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="With --apply: also if it is not proven.")] = False,
    reset: Annotated[bool, typer.Option("--reset", help="Measure nothing, and use the untuned weight again.")] = False,
    floor: Annotated[
        bool, typer.Option("--floor", help="Find the scores below which there is no reliable source, not the weight.")
    ] = False,
    unanswerable: _Unanswerable = None,
    keep: _Keep = None,
    as_json: Json = False,
) -> CommandResult:
    """Find the weight of meaning in hybrid search on one half of the queries, and report the other half.

    A query's half follows from its id. With --apply the weight is stored for the profile of this bot, with what it
    rests on, and searches use it; exit code 1 where it is not proven. `rag profile show` tells it, and --reset takes it
    away. It is compared with the weight that holds without it: the one found without labels, else 0.5. With --floor
    the same is done for the best scores below which what is found is no answer.
    """
    if (reset and apply) or (force and not apply):
        raise UsageError("say --apply, or --apply --force, or --reset")
    if (unanswerable is not None or keep is not None) and not floor:
        raise UsageError("--unanswerable and --keep are for --floor")
    named = {"tenant": tenant, "bot": bot, "profile": profile}
    with ready_database() as database, shown(silent=as_json, kept=NOT_RECORDED):
        check_names(database, tenant, bot, profile)
        with database.work(tenant, bot) as connection:
            built = built_profile(connection, tenant, bot, profile)
            if reset and not floor:
                was_set = reset_tuned_weight(connection, built)
                return _reset_answer(named, was_set, untuned_weight(connection, built))
        if floor and reset:
            return reset_floors_of(database, built)
        if floor:
            share = KEEP if keep is None else keep
            return tune_floors(database, built, unanswerable, share, apply=apply, force=force)
        return _tune_weight(database, built, apply=apply, force=force)


def _tune_weight(database: Database, built: BuiltProfile, *, apply: bool, force: bool) -> CommandResult:
    named = {"tenant": built.tenant, "bot": built.bot, "profile": built.profile.name}
    evalset = stored_set(database, built.tenant, built.bot).evalset
    found = find(database, built.tenant, built.bot, built.profile.name, evalset)
    applied = apply and (found.is_proven or force)
    if applied:
        with database.work(built.tenant, built.bot) as connection:
            set_tuned_weight(connection, built, found.weight, {**found.evidence(evalset), "forced": force})
    payload = {**named, **_tuned_payload(found), "applied": applied}
    code = FAILED if apply and not applied else 0
    return CommandResult(payload, lambda console: _show_tuned(console, payload, found), code)


def _tuned_payload(found: Tuned) -> dict[str, Any]:
    return {
        "weight": found.weight,
        "tuning": [{"weight": weight, **_numbers(one)} for weight, one in found.tuning.items()],
        "held_out": {
            "tuned": {"weight": found.weight, **_numbers(found.tuned)},
            "default": {"weight": found.untuned, **_numbers(found.default)},
            "difference": found.comparison.diff,
            "p_value": found.comparison.p_value,
        },
        "is_proven": found.is_proven,
        "conclusion": found.conclusion,
    }


def _reset_answer(named: Mapping[str, Any], was_set: bool, weight: float) -> CommandResult:
    when = "again" if was_set else "as before"
    text = f"searches of {named['profile']} use the default weight of {weight:g} {when}"
    return CommandResult(
        {**named, "reset": was_set, "weight": weight}, lambda console: console.print(text, markup=False)
    )


def _complete_profiles(database: Database, tenant: str, bot: str) -> list[str]:
    with database.work(tenant) as connection:
        spaces_of(connection, tenant, bot)
    built = enabled_profiles(database, tenant, bot=bot)
    names = [one.profile.name for one in built if one.status in ("ready", "active")]
    if not names:
        raise ProfileNotReady(f"bot {bot!r} of tenant {tenant!r} has no profile that is completely built")
    return names


def _numbers(evaluation: Evaluation) -> dict[str, Any]:
    return {"queries": len(evaluation.query_ids), **{name: evaluation.means[name] for name in HEADLINE}}


def _show_tuned(console: Console, payload: dict[str, Any], found: Tuned) -> None:
    table = Table("queries", "weight", "count", *HEADLINE)
    for row in payload["tuning"]:
        _add_row(table, "tuning half", row, "bold" if row["weight"] == found.weight else "")
    table.add_section()
    for name in ("default", "tuned"):
        _add_row(table, f"other half, {name}", payload["held_out"][name])
    console.print(table)
    console.print(found.conclusion, markup=False)
    if payload["applied"]:
        console.print(f"searches of {payload['profile']} use it from now on", markup=False)
    elif found.is_proven:
        console.print("store it with: --apply", markup=False)


def _add_row(table: Table, name: str, row: dict[str, Any], style: str = "") -> None:
    numbers = (f"{row[metric]:.4f}" for metric in HEADLINE)
    table.add_row(name, f"{row['weight']:g}", str(row["queries"]), *numbers, style=style)
