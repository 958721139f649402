"""`rag erase`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rag_assets.commands.options import AnyBot, Json, Tenant
from rag_assets.commands.session import ready_database
from rag_assets.commands.shell import CommandResult, check_asking, confirmed, note, printable, stderr_console
from rag_assets.launch.instance import has_history, purge_dagster, remove_staged
from rag_assets.printing import counted
from rag_assets.settings import Settings, load_settings
from rag_assets.store import erase as store
from rag_assets.store.batch_jobs import list_jobs
from rag_assets.store.database import Database


def erase(
    tenant: Tenant,
    bot: AnyBot = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
) -> CommandResult:
    """Remove everything of a tenant, or of one bot of it: rows, staged files and Dagster's records.

    Shows what would go and asks. Afterwards every table is counted; anything left is an error.
    """
    check_asking(as_json, not yes, "erase")
    settings = load_settings()
    with ready_database(settings) as database:
        counts = store.erasable(database, tenant, bot)
        name = tenant if bot is None else f"{tenant}/{bot}"
        if not yes:
            note(f"to be erased: {name}", "bold")
            stderr_console().print(_table(counts))
            if not confirmed(f"Erase {name}? There is no way back. [y/N]", "erase"):
                return CommandResult({}, lambda console: console.print("nothing was erased"))
        # Files first: while the tenant's rows are there, an erasure that was cut off can be asked for again.
        files, runs = _remove_work(settings, tenant, bot)
        jobs, not_deleted = _abandon_jobs(database, tenant, bot)
        report = store.erase(database, tenant, bot)
        # What an ingest wrote meanwhile. It finds no rows any more, nor the file it is at, and nobody could ask again.
        late_files, late_runs = _remove_work(settings, tenant, bot)
    payload = {
        "tenant": tenant,
        "bot": bot,
        "erased": dict(report.counts),
        "remaining": dict(report.remaining),
        "staged_files": files + late_files,
        "dagster_runs": runs + late_runs,
        "batch_jobs": jobs,
        "batch_jobs_left": not_deleted,
    }
    return CommandResult(payload, lambda console: _show(console, name, payload, ask=not yes))


def _table(counts: Mapping[str, int]) -> Table:
    table = Table("table", "rows")
    table.columns[1].justify = "right"
    for name, count in counts.items():
        if count:
            table.add_row(name, f"{count:,}")
    return table


def _show(console: Console, name: str, payload: Mapping[str, Any], ask: bool) -> None:
    if not ask:
        console.print(_table(payload["erased"]))
    rows = sum(payload["erased"].values())
    console.print(
        f"{name} is gone: {counted(rows, 'row')}, {counted(payload['staged_files'], 'staged file')}, "
        f"{counted(payload['dagster_runs'], 'Dagster run')}; 0 rows left, counted",
        markup=False,
    )
    for reason in payload["batch_jobs_left"]:
        console.print(
            Text(f"left at the provider, which deletes files after 48 hours: batch job {printable(reason)}", "red"),
            soft_wrap=True,
        )


def _remove_work(settings: Settings, tenant: str, bot: str | None) -> tuple[int, int]:
    """Remove the tenant's staged files and Dagster runs, which hold text too; how many there were of each.

    Neither is kept apart by bot, so those of the tenant's other bots go along: the files are written anew by
    the next ingest, and what is lost of the runs is their history.
    """
    files = remove_staged(settings, tenant)
    runs = purge_dagster(settings, tenant, keep_partition=bot is not None) if has_history(settings) else 0
    return files, runs


def _abandon_jobs(database: Database, tenant: str, bot: str | None) -> tuple[int, list[str]]:
    """Stop and delete what the provider has of the tenant's batch jobs; how many, and what was not possible."""
    with database.work(tenant) as connection:
        if not list_jobs(connection, tenant, bot, unfinished=True):
            return 0, []
    from rag_assets.ingest.batch_api.collect import abandon_jobs  # loads the provider's library, 0.3 s

    return abandon_jobs(database, tenant, bot)
