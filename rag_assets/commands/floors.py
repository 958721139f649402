"""`rag eval tune --floor`: below which best score there is no reliable source."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from evals.floors import FoundFloor, find_floors, read_questions, unanswerable_of
from evals.runner import stored_set
from rag_assets.commands.shell import FAILED, CommandResult
from rag_assets.errors import UsageError
from rag_assets.printing import counted
from rag_assets.store.database import Database
from rag_assets.store.floors import reset_floors, set_floor
from rag_assets.store.profiles import BuiltProfile


def tune_floors(
    database: Database, built: BuiltProfile, questions: Path | None, keep: float, *, apply: bool, force: bool
) -> CommandResult:
    """Find the floors of a profile's scores, and store those that are proven, or all with `force`, if `apply`."""
    named = {"tenant": built.tenant, "bot": built.bot, "profile": built.profile.name}
    evalset = stored_set(database, built.tenant, built.bot).evalset
    texts = read_questions(questions) if questions is not None else unanswerable_of(evalset)
    if not texts:
        raise UsageError("questions that nobody can answer are needed: --unanswerable FILE, one a line")
    found = find_floors(database, built.tenant, built.bot, built.profile.name, evalset, texts, keep)
    stored = [one for one in found if apply and (one.is_proven or force)]
    with database.work(built.tenant, built.bot) as connection:
        for one in stored:
            evidence = {**one.evidence(evalset), "forced": force}
            set_floor(connection, built, one.mode, one.floor, one.dense_weight, evidence)
    rows = [{**_row(one), "applied": one in stored} for one in found]
    payload = {**named, "questions": len(texts), "keep": keep, "floors": rows}
    return CommandResult(payload, lambda console: _show(console, rows), FAILED if apply and not stored else 0)


def reset_floors_of(database: Database, built: BuiltProfile) -> CommandResult:
    """Forget the floors of a profile."""
    with database.work(built.tenant, built.bot) as connection:
        count = reset_floors(connection, built)
    named = {"tenant": built.tenant, "bot": built.bot, "profile": built.profile.name}
    text = f"{counted(count, 'floor')} of {built.profile.name} forgotten: every score is an answer's"
    return CommandResult({**named, "reset": count > 0}, lambda console: console.print(text, markup=False))


def _row(one: FoundFloor) -> Mapping[str, Any]:
    return {
        "mode": one.mode,
        "floor": one.floor,
        "dense_weight": one.dense_weight,
        "tuning": one.tuning.as_dict(),
        "held_out": {**one.held_out.as_dict(), "p_value": one.held_out.p_value},
        "is_proven": one.is_proven,
        "conclusion": one.conclusion,
    }


def _show(console: Console, rows: list[dict[str, Any]]) -> None:
    table = Table("mode", "floor", "half", "labelled", "let through", "unanswerable", "refused")
    for row in rows:
        for half in ("tuning", "held_out"):
            one = row[half]
            table.add_row(
                row["mode"], f"{row['floor']:.3f}", half.replace("_", " "),
                str(one["answerable"]), f"{one['kept']:.1%}", str(one["unanswerable"]), f"{one['refused']:.1%}",
            )  # fmt: skip
    console.print(table)
    for row in rows:
        console.print(row["conclusion"] + ("; stored" if row["applied"] else ""), markup=False)
