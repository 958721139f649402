"""`rag eval sweep` and `rag eval tune`."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from evals.metrics import HEADLINE, Evaluation
from evals.runner import measure, stored_set
from evals.tuning import DEFAULT_WEIGHT, Tuned
from evals.tuning import tune as find
from rag_assets.commands.bars import shown
from rag_assets.commands.evaluate import measured_payload, show_measured
from rag_assets.commands.options import Bot, Json, SearchMode, Tenant, key
from rag_assets.commands.session import check_names, ready_database
from rag_assets.commands.shell import CommandResult
from rag_assets.errors import ProfileNotReady
from rag_assets.ingest.pairs import enabled_profiles
from rag_assets.store.database import Database
from rag_assets.store.tenants import spaces_of


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
    as_json: Json = False,
) -> CommandResult:
    """Measure every profile in every mode, side by side in one table. All runs are recorded."""
    rows: list[dict[str, Any]] = []
    problems: dict[str, None] = {}
    with ready_database() as database, shown(silent=as_json):
        check_names(database, tenant, bot, *(profiles or ()))
        for profile in profiles or _complete_profiles(database, tenant, bot):
            for mode in modes or list(SearchMode):
                done = measure(database, tenant, bot, profile, mode.value)
                rows.append({"mode": mode.value, "run": done.id, **measured_payload(done.measured)})
                problems |= dict.fromkeys(done.problems)
    payload = {"tenant": tenant, "bot": bot, "runs": rows, "problems": list(problems)}
    return CommandResult(payload, lambda console: show_measured(console, rows, tuple(problems)))


def tune(
    tenant: Tenant,
    bot: Bot,
    profile: Annotated[
        str, typer.Option(help="Profile whose hybrid search is tuned.", show_default=False, callback=key("profile"))
    ],
    as_json: Json = False,
) -> CommandResult:
    """Find the weight of meaning in hybrid search on one half of the queries, and report the other half.

    A query's half follows from its id. Use the weight with: `rag eval run --weight W`.
    """
    with ready_database() as database, shown(silent=as_json):
        check_names(database, tenant, bot, profile)
        found = find(database, tenant, bot, profile, stored_set(database, tenant, bot).evalset)
    payload = {
        "tenant": tenant,
        "bot": bot,
        "profile": profile,
        "weight": found.weight,
        "tuning": [{"weight": weight, **_numbers(one)} for weight, one in found.tuning.items()],
        "held_out": {
            "tuned": {"weight": found.weight, **_numbers(found.tuned)},
            "default": {"weight": DEFAULT_WEIGHT, **_numbers(found.default)},
            "difference": found.comparison.diff,
            "p_value": found.comparison.p_value,
        },
    }
    return CommandResult(payload, lambda console: _show_tuned(console, payload, found))


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
    console.print(
        f"weight {found.weight:g}: recall@5 {found.comparison.diff:+.4f} against the default on the other half, "
        f"p = {found.comparison.p_value:.3f}"
    )


def _add_row(table: Table, name: str, row: dict[str, Any], style: str = "") -> None:
    numbers = (f"{row[metric]:.4f}" for metric in HEADLINE)
    table.add_row(name, f"{row['weight']:g}", str(row["queries"]), *numbers, style=style)
