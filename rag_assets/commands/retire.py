"""`rag profile retire` and `rag profile drop-retired`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rag_assets.commands.options import Bot, Json, Tenant, key
from rag_assets.commands.session import ready_database
from rag_assets.commands.shell import FAILED, CommandResult, check_asking, note, printable, stderr_console
from rag_assets.errors import UsageError
from rag_assets.store import retirement
from rag_assets.store.retirement import Dropped


def retire(
    name: Annotated[
        str,
        typer.Argument(help="The profile that is not needed any more.", show_default=False, callback=key("profile")),
    ],
    tenant: Tenant,
    bot: Bot,
    force: Annotated[bool, typer.Option("--force", help="Also if a rollback would go back to it.")] = False,
    as_json: Json = False,
) -> CommandResult:
    """Take a profile of a bot out of use. Its chunks stay until `rag profile drop-retired`.

    Exit code 1 where the profile is active, a canary, or what a rollback goes back to.
    """
    with ready_database() as database:
        retirement.retire(database, tenant, bot, name, force=force)
    payload = {"tenant": tenant, "bot": bot, "profile": name, "status": "retired"}
    text = f"{name} of {tenant}/{bot} is retired; its chunks can be dropped after the soak time"
    return CommandResult(payload, lambda console: console.print(text, markup=False))


def drop_retired(
    tenant: Tenant,
    bot: Bot,
    soak_days: Annotated[float, typer.Option(help="Only what was retired at least so many days ago.", min=0)] = 7.0,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
) -> CommandResult:
    """Drop the chunks of a bot's retired profiles after their soak time.

    Shows what would go and asks. The chunks are counted first: a profile that holds another number than was
    published into it is left alone, and the exit code is 1.
    """
    check_asking(as_json, not yes, "drop")
    with ready_database() as database:
        found = retirement.droppable(database, tenant, bot, soak_days)
        if any(not one.refused for one in found):
            if not yes and not _confirmed(found):
                return CommandResult({}, lambda console: console.print("nothing was dropped"))
            found = retirement.drop_retired(database, tenant, bot, soak_days)
    payload = {
        "tenant": tenant, "bot": bot,
        "dropped": [asdict(one) for one in found if not one.refused],
        "refused": [asdict(one) for one in found if one.refused],
    }  # fmt: skip
    return CommandResult(payload, lambda console: _show(console, found), FAILED if payload["refused"] else 0)


def _confirmed(found: list[Dropped]) -> bool:
    stderr_console().print(_table(found))
    note("Drop these profiles? There is no way back. [y/N]", "bold")
    line = sys.stdin.readline()
    if not line:
        raise UsageError("nobody is there to ask; say --yes to drop without being asked")
    return line.strip().lower() in ("y", "yes")


def _show(console: Console, found: list[Dropped]) -> None:
    if not found:
        console.print("no retired profile has soaked for so long: nothing was dropped")
        return
    console.print(_table(found))


def _table(found: list[Dropped]) -> Table:
    table = Table("profile", "published chunks", "chunks to go", "refused")
    for one in found:
        cells = (one.profile, f"{one.chunks_expected:,}", f"{one.chunks_dropped:,}", one.refused)
        table.add_row(*(Text(printable(cell)) for cell in cells))
    return table
