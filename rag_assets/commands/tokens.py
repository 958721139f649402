"""`rag token`: who may come in through `rag serve`."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table

from rag_assets.commands.options import AnyBot, Bot, Json, Tenant, key
from rag_assets.commands.session import ready_database
from rag_assets.commands.shell import CommandResult
from rag_assets.errors import UsageError
from rag_assets.printing import moment
from rag_assets.store.tokens import MAX_LIFE, MAY, add_token, list_tokens, revoke_token

_LIFE = re.compile(r"(\d{1,6})([hdw])")
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_NEVER = "never"
_ID_CHARS = 36  # never cut: the id is what `rag token revoke` takes
_STATE_STYLES = {"active": "green", "expired": "yellow", "revoked": "dim"}

AnyTenant = Annotated[
    str | None,
    typer.Option("--tenant", help="Only this tenant's. (default: all)", show_default=False, callback=key("tenant")),
]


def add(
    name: Annotated[str, typer.Argument(help="What the token is called: who has it, say.", show_default=False)],
    tenant: Tenant,
    bot: Bot,
    user: Annotated[
        str | None,
        typer.Option(help="The user who asks with it: their private sources are searched, too.", show_default=False),
    ] = None,
    may: Annotated[
        str, typer.Option(metavar="WHAT,…", help="What it may do: some of search, feedback, push.")
    ] = "search",
    expires: Annotated[
        str, typer.Option(metavar="TIME", help="After which time it ends: 12h, 90d, 2w, or never.")
    ] = "90d",
    as_json: Json = False,
) -> CommandResult:
    """Make a token for `rag serve`: whoever has it asks as one bot of one tenant. It is shown once.

    Only its hash is kept. Names of tokens are told apart within a tenant; that of a revoked one is free again.
    """
    wanted = [one.strip() for one in may.split(",") if one.strip()]
    for one in wanted:
        if one not in MAY:
            raise UsageError(f"--may {one!r}: a token may do some of {', '.join(MAY)}")
    if not wanted:
        raise UsageError(f"--may is empty: name some of {', '.join(MAY)}")
    lives = _life(expires)
    with ready_database() as database:
        made = add_token(database, name, tenant, bot, user=user, may=wanted, lives=lives)
    payload = {
        "token": made.token,
        "id": str(made.id),
        "name": name,
        "tenant": tenant,
        "bot": bot,
        "user": user,
        "may": [one for one in MAY if one in wanted],
        "expires_at": _iso(made.expires_at),
        "created_at": _iso(made.created_at),
    }
    return CommandResult(payload, lambda console: _show_made(console, payload))


def _life(text: str) -> timedelta | None:
    if text == _NEVER:
        return None
    found = _LIFE.fullmatch(text)
    life = int(found[1]) * _UNITS[found[2]] if found else timedelta()
    if not timedelta() < life <= MAX_LIFE:
        raise UsageError(
            f"--expires {text!r}: a number of hours, days or weeks, such as 12h, 90d or 2w, at most "
            f"{MAX_LIFE.days}d; or never"
        )
    return life


def _show_made(console: Console, payload: dict[str, Any]) -> None:
    console.print(payload["token"], style="bold")
    until = f"until {moment(payload['expires_at'])}" if payload["expires_at"] else "and never expires"
    who = f"{payload['tenant']}/{payload['bot']}" + (f" as user {payload['user']}" if payload["user"] else "")
    console.print(f"It is shown only now. It may {', '.join(payload['may'])} for {who}, {until}.")
    console.print(f"Take it back with: rag token revoke {payload['id']}", style="dim")


def list_command(tenant: AnyTenant = None, bot: AnyBot = None, as_json: Json = False) -> CommandResult:
    """List tokens, with what each may do, and whether it is active, expired or revoked. None is shown itself."""
    if bot is not None and tenant is None:
        raise UsageError("--bot goes with a --tenant")
    with ready_database() as database:
        found = [_told(one) for one in list_tokens(database, tenant, bot)]
    return CommandResult({"tokens": found}, lambda console: _show_list(console, found))


def _told(row: dict[str, Any]) -> dict[str, Any]:
    """A token of the store, JSON-ready."""
    times = {name: _iso(row[name]) for name in ("expires_at", "revoked_at", "created_at")}
    return {**row, "id": str(row["id"]), "may": list(row["may"]), **times}


def _iso(time: datetime | None) -> str | None:
    return time.isoformat() if time is not None else None


def _show_list(console: Console, found: list[dict[str, Any]]) -> None:
    if not found:
        console.print("there are no tokens")
        return
    table = Table("state", "name", "for", "user", "may", "expires", Column("id", no_wrap=True, min_width=_ID_CHARS))
    for one in found:
        table.add_row(
            one["state"],
            one["name"],
            f"{one['tenant']}/{one['bot']}",
            one["user"] or "",
            ", ".join(one["may"]),
            moment(one["expires_at"]) if one["expires_at"] else "never",
            one["id"],
            style=_STATE_STYLES.get(one["state"]),
        )
    console.print(table)


def revoke(
    token: Annotated[
        str, typer.Argument(metavar="TOKEN", help="Its id; or the token itself; or its NAME, with --tenant.")
    ],
    tenant: Annotated[
        str | None,
        typer.Option("--tenant", help="Key of the tenant.", show_default=False, callback=key("tenant")),
    ] = None,
    as_json: Json = False,
) -> CommandResult:
    """Take a token back: it is refused from now on, by servers that run within 5 seconds."""
    with ready_database() as database:
        row, is_new = revoke_token(database, token, tenant)
    payload = {**_told(row), "revoked": is_new}
    said = "revoked" if is_new else "was revoked before"
    return CommandResult(
        payload, lambda console: console.print(f"{row['name']} of {row['tenant']}/{row['bot']}: {said} ({row['id']})")
    )
