"""`rag promote`, `rag rollback`, `rag canary` and `rag events`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rag_assets.commands.options import Bot, Json, Tenant, key
from rag_assets.commands.session import ready_database
from rag_assets.commands.shell import CommandResult, printable
from rag_assets.errors import UsageError
from rag_assets.store import promotion
from rag_assets.store.profiles import built_profiles
from rag_assets.store.promotion import list_events, pointers_of, roll_back, set_canary
from rag_assets.store.tenants import spaces_of


def promote(
    profile: Annotated[
        str,
        typer.Argument(help="The candidate that is to serve from now on.", show_default=False, callback=key("profile")),
    ],
    tenant: Tenant,
    bot: Bot,
    force: Annotated[bool, typer.Option("--force", help="Without a passed verdict; recorded as forced.")] = False,
    reason: Annotated[str, typer.Option(help="Why, for the record; needed with --force.", show_default=False)] = "",
    as_json: Json = False,
) -> CommandResult:
    """Let a candidate serve the bot, if the newest verdict on it has passed and still holds.

    The verdict is read again from the database by the statement that moves the pointer: it must compare the
    candidate with the profile that is active now, on the sources that both serve now. Ask for one with
    `rag eval gate`. Exit code 1 where the promotion is refused, with the reason.
    """
    if reason and not force:
        raise UsageError("--reason belongs to --force; a promotion on a verdict has its reason there")
    with ready_database() as database:
        moved = promotion.promote(database, tenant, bot, profile, force=force, reason=reason)
    payload = {
        "tenant": tenant, "bot": bot, "active": moved.active, "previous": moved.previous, "forced": force,
    }  # fmt: skip
    how = "by force" if force else "on its verdict"
    text = f"{moved.active} serves {tenant}/{bot} now, promoted {how}; before: {moved.previous}"
    return CommandResult(payload, lambda console: console.print(text, markup=False))


def rollback(
    tenant: Tenant,
    bot: Bot,
    reason: Annotated[str, typer.Option(help="Why, for the record.", show_default=False)] = "",
    as_json: Json = False,
) -> CommandResult:
    """Go back to the profile that served before the last promotion. Nothing is built, so it is instant."""
    with ready_database() as database:
        moved = roll_back(database, tenant, bot, reason)
    payload = {"tenant": tenant, "bot": bot, "active": moved.active, "previous": moved.previous}
    text = f"{moved.active} serves {tenant}/{bot} again; before: {moved.previous}"
    return CommandResult(payload, lambda console: console.print(text, markup=False))


def canary(
    tenant: Tenant,
    bot: Bot,
    percent: Annotated[int, typer.Option(help="Share of request keys, 0 to 100; 0 ends it.", show_default=False)],
    profile: Annotated[
        str | None,
        typer.Argument(help="The profile that answers them. (default: the canary so far)", callback=key("profile")),
    ] = None,
    as_json: Json = False,
) -> CommandResult:
    """Let a share of requests be answered by another profile than the active one.

    The share is one of request keys (`--request-key` of `rag search`, `request_key` of `open_scope`): a key is
    always answered by the same profile. Requests without a key stay with the active one.
    """
    with ready_database() as database:
        if profile is None and percent > 0:
            profile = _canary_so_far(database, tenant, bot)
        set_canary(database, tenant, bot, profile, percent)
    payload = {"tenant": tenant, "bot": bot, "canary": profile if percent else None, "percent": percent}
    text = f"{profile} answers {percent}% of the request keys of {tenant}/{bot}"
    if not percent:
        text = f"no canary answers for {tenant}/{bot}"
    return CommandResult(payload, lambda console: console.print(text, markup=False))


def events(
    tenant: Tenant,
    bot: Bot,
    limit: Annotated[int, typer.Option(help="Most events to list, newest first.", min=1)] = 50,
    as_json: Json = False,
) -> CommandResult:
    """List what happened to a bot's profiles: created, ready, promoted, forced, rolled back, and by whom."""
    with ready_database() as database, database.work(tenant) as connection:
        spaces_of(connection, tenant, bot)
        found = [{**asdict(event), "at": event.at.isoformat()} for event in list_events(connection, tenant, bot, limit)]
    return CommandResult({"tenant": tenant, "bot": bot, "events": found}, lambda console: _show_events(console, found))


def _show_events(console: Console, found: list[dict[str, Any]]) -> None:
    table = Table("at", "event", "profile", "actor", "evidence")
    for one in found:
        evidence = ", ".join(f"{key} {value}" for key, value in one["evidence"].items() if value not in (None, ""))
        cells = (one["at"][:19].replace("T", " "), one["event"], one["profile"] or "", one["actor"], evidence)
        table.add_row(*(Text(printable(cell)) for cell in cells))
    console.print(table)


def _canary_so_far(database: Any, tenant: str, bot: str) -> str:
    with database.work(tenant) as connection:
        pointers = pointers_of(connection, spaces_of(connection, tenant, bot)[0])
        for built in built_profiles(connection, tenant, bot):
            if built.id == pointers.canary:
                return built.profile.name
    raise UsageError(f"{tenant}/{bot} has no canary so far: name the profile")
