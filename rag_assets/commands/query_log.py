"""`rag log`: what was asked, where the query log is on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from rag_assets.commands.options import AnyBot, Json, Tenant
from rag_assets.commands.session import check_names, ready_database
from rag_assets.commands.shell import CommandResult, check_asking, confirmed
from rag_assets.errors import UsageError
from rag_assets.printing import counted, moment
from rag_assets.settings import load_settings
from rag_assets.store.query_log import LoggedQuery, count_queries, logged_queries, newest_queries, purge_queries

_QUERY_CHARS = 60  # in the table

Since = Annotated[
    str | None,
    typer.Option(metavar="DATE", help="Only what was asked then or later: a date or a time (of UTC, unless it says)."),
]


def show(
    tenant: Tenant,
    bot: AnyBot = None,
    since: Since = None,
    limit: Annotated[int, typer.Option(help="Most queries to show, the newest.", min=1, max=10_000)] = 50,
    as_json: Json = False,
) -> CommandResult:
    """Show what was asked, the newest first: masked queries, what was found, how long it took, and what was said of it.

    There is a log where the application searches with RAG_QUERY_LOG=1. Who asked stands there as a mark, the same for
    the same user.
    """
    begin = _time(since)
    with ready_database() as database:
        check_names(database, tenant, bot)
        found = newest_queries(database, tenant, bot, begin, limit)
    payload = {"tenant": tenant, "bot": bot, "queries": [one.to_dict() for one in found]}
    return CommandResult(payload, lambda console: _show(console, tenant, found))


def export(
    tenant: Tenant,
    out: Annotated[Path, typer.Option(metavar="FILE.jsonl", help="Where to write; it must not be there yet.")],
    bot: AnyBot = None,
    since: Since = None,
    as_json: Json = False,
) -> CommandResult:
    """Write the log as JSON lines, oldest first: queries with their results, citations and feedback.

    Each line has its query as `_id` and `text`, as the queries of a labelled set have them, so that it can become one
    once somebody has said what is right.
    """
    begin, written = _time(since), 0
    with ready_database() as database:
        check_names(database, tenant, bot)
        try:
            with out.open("x", encoding="utf-8") as file:
                for one in logged_queries(database, tenant, bot, begin):
                    file.write(json.dumps(_exported(one), ensure_ascii=False) + "\n")
                    written += 1
        except OSError as error:
            raise UsageError(f"{out} cannot be written: {error.strerror or error}") from error
    payload = {"tenant": tenant, "bot": bot, "file": str(out), "queries": written}
    text = f"{counted(written, 'query', 'queries')} of {_name(tenant, bot)} written to {out}"
    return CommandResult(payload, lambda console: console.print(text, markup=False))


def purge(
    tenant: Tenant,
    bot: AnyBot = None,
    days: Annotated[
        int | None,
        typer.Option(
            "--older-than",
            metavar="DAYS",
            help="What was asked more than so many days ago; 0 for all. (default: RAG_QUERY_LOG_DAYS)",
            show_default=False,
            min=0,
        ),
    ] = None,
    user: Annotated[str | None, typer.Option(help="Only what this user has asked.", show_default=False)] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
) -> CommandResult:
    """Delete entries of the log: what is older than it is to be kept, or what one user has asked.

    With --user and no --older-than, everything of that user goes. What is too old also goes by itself: at each ingest
    of the tenant, and every night where `rag dev` or another Dagster daemon runs.
    """
    if user == "":
        raise UsageError("--user is empty; leave it out for all users")
    check_asking(as_json, not yes, "purge")
    kept = days if days is not None else 0 if user is not None else load_settings().query_log_days
    with ready_database() as database:
        check_names(database, tenant, bot)
        going = count_queries(database, tenant, kept, bot, user)
        if going and not yes:
            question = f"Delete {counted(going, 'query', 'queries')} of {_name(tenant, bot)}? [y/N]"
            if not confirmed(question, "purge"):
                return CommandResult({}, lambda console: console.print("nothing was deleted"))
        deleted = purge_queries(database, tenant, kept, bot, user)
    payload = {"tenant": tenant, "bot": bot, "user": user, "older_than_days": kept, "deleted": deleted}
    text = f"{counted(deleted, 'query', 'queries')} of {_name(tenant, bot)} deleted"
    return CommandResult(payload, lambda console: console.print(text, markup=False))


def _time(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"--since {text}: it has to be a date or a time, such as 2026-01-31") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _name(tenant: str, bot: str | None) -> str:
    return tenant if bot is None else f"{tenant}/{bot}"


def _exported(one: LoggedQuery) -> dict[str, Any]:
    told = one.to_dict()
    return {"_id": told.pop("query_id"), "text": told.pop("query"), **told}


def _show(console: Console, tenant: str, found: Sequence[LoggedQuery]) -> None:
    if not found:
        text = f"nothing is in the query log of {tenant}; searches with RAG_QUERY_LOG=1 are written there"
        console.print(text, markup=False)
        return
    table = Table("asked", "bot", "who", "query", "profile", "rung", "found", "ms", "said")
    for column in table.columns[6:8]:
        column.justify = "right"
    for one in found:
        short = one.query if len(one.query) <= _QUERY_CHARS else f"{one.query[:_QUERY_CHARS]}…"
        table.add_row(
            moment(one.asked_at.astimezone(UTC)),
            one.bot,
            (one.user_mark or "")[:8],
            short,
            one.profile,
            one.rung or one.error or "",
            str(len(one.results)),
            f"{one.timings_ms.get('total', 0.0):.0f}",
            _said(one),
        )
    console.print(table)


def _said(one: LoggedQuery) -> str:
    helpful = sum(one.feedback.values())
    told = [f"cites {len(one.citations)}"] if one.citations is not None else []
    told += [f"{helpful} helped"] if helpful else []
    told += [f"{len(one.feedback) - helpful} did not"] if helpful < len(one.feedback) else []
    return ", ".join(told)
