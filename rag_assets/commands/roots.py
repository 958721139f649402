"""`rag root`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rag_assets.commands.options import (
    AllFolders,
    AnyBot,
    Bot,
    BotVisibility,
    Encoding,
    Exclude,
    GitIgnore,
    Include,
    Json,
    NoIndex,
    Tenant,
    User,
    given_options,
)
from rag_assets.commands.session import ready_database
from rag_assets.commands.shell import CommandResult, check_asking, note, printable
from rag_assets.errors import UsageError, unknown
from rag_assets.ingest import roots as changes
from rag_assets.ingest.visibility import check_visibility, visible_to
from rag_assets.printing import counted, moment
from rag_assets.sources.options import DEFAULT_OPTIONS
from rag_assets.sources.roots import resolve_roots
from rag_assets.sources.secrets import shown
from rag_assets.store.roots import Root, list_roots, set_options
from rag_assets.store.tenants import spaces_of

_Root = Annotated[str, typer.Argument(metavar="ROOT", help="Its address, a path to it, or its id.")]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Only tell what would be done; write nothing.")]


def list_command(tenant: Tenant, bot: AnyBot = None, as_json: Json = False) -> CommandResult:
    """List the source roots of a tenant's bots: when each was looked at, what is there, and what is wrong."""
    with ready_database() as database, database.work(tenant) as connection:
        spaces_of(connection, tenant, bot)
        roots = list_roots(connection, tenant, bot)
    payload = {"tenant": tenant, "bot": bot, "roots": [root_payload(root) for root in roots]}
    return CommandResult(payload, lambda console: _show_list(console, roots))


def show(root: _Root, tenant: Tenant, bot: Bot, as_json: Json = False) -> CommandResult:
    """Show what a root was told, what its last scan found, and what is held back of it."""
    with ready_database() as database, database.work(tenant) as connection:
        found = changes.find_root(connection, tenant, bot, root)
    payload = {"tenant": tenant, **root_payload(found)}
    return CommandResult(payload, lambda console: _show_one(console, payload))


def set_command(
    root: _Root,
    tenant: Tenant,
    bot: Bot,
    exclude: Exclude = None,
    include: Include = None,
    gitignore: GitIgnore = None,
    all_folders: AllFolders = None,
    noindex: NoIndex = None,
    encoding: Encoding = None,
    interval: Annotated[
        int | None,
        typer.Option(
            "--interval",
            metavar="SECONDS",
            help="Between two looks. (default: by its kind)",
            show_default=False,
        ),
    ] = None,
    max_loss_percent: Annotated[
        int | None,
        typer.Option(
            "--max-loss-percent",
            help="Where more of its sources are gone at once, they are kept until that is confirmed; 100: never.",
            show_default=False,
        ),
    ] = None,
    visibility: BotVisibility = None,
    user: User = None,
    unset: Annotated[
        list[str] | None,
        typer.Option("--unset", metavar="OPTION", help="Make this option as by default again. May be repeated."),
    ] = None,
    as_json: Json = False,
) -> CommandResult:
    """Change what a root was told; what is not named stays.

    Patterns that are given take the place of those before. What they leave out is taken away by the next scan.
    """
    reset = _defaults_of(unset or [])
    given = given_options(exclude, include, gitignore, all_folders, noindex, encoding)
    given |= {"interval_s": interval} if interval is not None else {}
    check_visibility(visibility, user)
    given |= visible_to(visibility, user)
    given |= {"max_loss_percent": max_loss_percent} if max_loss_percent is not None else {}
    if both := given.keys() & reset.keys():
        raise UsageError(f"{', '.join(sorted(both))}: either set or --unset")
    if not given and not reset:
        raise UsageError("nothing to set; see: rag root set --help")
    options = changes.checked_options({**reset, **given})
    with ready_database() as database, database.work(tenant) as connection:
        found = changes.find_root(connection, tenant, bot, root)
        stored = set_options(connection, found, options)
    payload = {"tenant": tenant, "bot": bot, "root": shown(found.uri), "options": stored.model_dump(mode="json")}
    return CommandResult(payload, lambda console: _show_options(console, payload))


def _defaults_of(unset: Sequence[str]) -> dict[str, Any]:
    """The default values of the options that are named as on the command line."""
    defaults = DEFAULT_OPTIONS.model_dump()
    names = {"interval": "interval_s"} | {name.replace("_", "-"): name for name in defaults if name != "interval_s"}
    named = [name.lstrip("-") for name in unset]
    for name in named:
        if name not in names:
            raise unknown("option", name, names, of="of a root")
    if {"visibility", "user"} & set(named):
        named += ["visibility", "user"]
    return {names[name]: defaults[names[name]] for name in named}


def remove(
    root: _Root,
    tenant: Tenant,
    bot: Bot,
    dry_run: _DryRun = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
) -> CommandResult:
    """Forget a root, and withdraw its sources, but for those that lie under another root of the bot.

    Says how many that are, and asks.
    """
    check_asking(as_json, not (yes or dry_run), "remove")
    with ready_database() as database:
        with database.work(tenant) as connection:
            found = changes.find_root(connection, tenant, bot, root)
        payload: dict[str, Any] = {"tenant": tenant, "bot": bot, "root": shown(found.uri), "dry_run": dry_run}
        if dry_run:
            payload["withdrawn"] = changes.count_removed(database, found)
            return CommandResult(payload, lambda console: _say(console, _removal(payload, "would be withdrawn")))
        if not yes and not _confirmed(found, changes.count_removed(database, found)):
            return CommandResult({}, lambda console: console.print("nothing was removed"))
        payload["withdrawn"] = changes.remove_root(database, found)
    return CommandResult(payload, lambda console: _say(console, _removal(payload, "withdrawn")))


def move(
    old: Annotated[str, typer.Argument(metavar="OLD", help="A remembered root: its address, path or id.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The folder, file or address where it is now.")],
    tenant: Tenant,
    bot: Bot,
    as_json: Json = False,
) -> CommandResult:
    """Say that a root lies somewhere else now: its sources keep their ids, and nothing is embedded again.

    Where the new place is remembered as a root already, the two become one.
    """
    (uri,) = resolve_roots([new])
    with ready_database() as database:
        with database.work(tenant) as connection:
            found = changes.find_root(connection, tenant, bot, old)
        moved = changes.move_root(database, found, uri)
    payload = {"tenant": tenant, "bot": bot, "root": shown(uri), "was": shown(found.uri), **vars(moved)}
    return CommandResult(payload, lambda console: _show_move(console, payload))


def confirm(root: _Root, tenant: Tenant, bot: Bot, as_json: Json = False) -> CommandResult:
    """Say that what is held back of a root has gone on purpose: it is withdrawn."""
    with ready_database() as database:
        with database.work(tenant) as connection:
            found = changes.find_root(connection, tenant, bot, root)
        withdrawn = changes.confirm_loss(database, found)
    payload = {"tenant": tenant, "bot": bot, "root": shown(found.uri), "withdrawn": withdrawn}
    text = (
        f"{counted(withdrawn, 'source is', 'sources are')} withdrawn"
        if withdrawn
        else "nothing of this root is held back"
    )
    return CommandResult(payload, lambda console: _say(console, text))


def root_payload(root: Root) -> dict[str, Any]:
    """A root as `--json` prints it."""
    scan = root.scan.model_dump(mode="json") if root.scan else {}
    times = {name: getattr(root, name) for name in ("scanned_at", "next_scan_at")}
    return {
        "id": str(root.id),
        "bot": root.bot,
        "root": shown(root.uri),
        "options": root.options.model_dump(mode="json"),
        **{name: time.isoformat() if time else None for name, time in times.items()},
        "error": root.last_error,
        **{name: scan.get(name, 0) for name in ("files", "bytes", "sources")},
        "skipped": scan.get("skipped", {}),
        "held": scan.get("held"),
    }


def _confirmed(root: Root, sources: int) -> bool:
    note(f"Remove root {shown(root.uri)} of {root.tenant}/{root.bot}, with {counted(sources, 'source')}? [y/N]", "bold")
    line = sys.stdin.readline()
    if not line:
        raise UsageError("nobody is there to ask; say --yes to remove without being asked")
    return line.strip().lower() in ("y", "yes")


def _removal(payload: dict[str, Any], what: str) -> str:
    root = f"root {payload['root']} of {payload['tenant']}/{payload['bot']}"
    return f"{root}: {counted(payload['withdrawn'], 'source')} {what}"


def _say(console: Console, text: str) -> None:
    console.print(Text(printable(text)), soft_wrap=True)


def _show_list(console: Console, roots: Sequence[Root]) -> None:
    table = Table("bot", "root", "last scan", "files", "sources", "skipped", "held", "error")
    for root in roots:
        entry = root_payload(root)
        table.add_row(
            root.bot,
            Text(printable(shown(root.uri))),
            f"{root.scanned_at:%Y-%m-%d %H:%M}" if root.scanned_at else "never",
            f"{entry['files']:,}",
            f"{entry['sources']:,}",
            f"{sum(one['count'] for one in entry['skipped'].values()):,}",
            Text(f"{entry['held']['sources']:,}" if entry["held"] else "", style="bold red"),
            Text(printable(root.last_error or ""), style="red"),
        )
    console.print(table if roots else "no roots yet", markup=False)


def _show_one(console: Console, payload: dict[str, Any]) -> None:
    table = Table(show_header=False)
    times = {name: moment(payload[name]) if payload[name] else "" for name in ("scanned_at", "next_scan_at")}
    told = {
        **{name: payload[name] for name in ("root", "id", "bot")},
        "scanned at": times["scanned_at"] or "never",
        "next scan at": times["next_scan_at"] or "the next look of `rag dev`, or `rag ingest`",
        **{name: f"{payload[name]:,}" for name in ("files", "bytes", "sources")},
    }
    told |= {"error": payload["error"]} if payload["error"] else {}
    for name, value in told.items():
        table.add_row(name, Text(printable(value)))
    for reason, skipped in payload["skipped"].items():
        examples = ", ".join(skipped["examples"])
        table.add_row(f"skipped: {reason}", Text(printable(f"{skipped['count']:,}: {examples}")))
    if payload["held"]:
        held = payload["held"]
        table.add_row(
            "held back", Text(f"{held['sources']:,} of {held['of']:,}, since {moment(held['since'])}", "bold red")
        )
    console.print(table)
    _show_options(console, payload)


def _show_options(console: Console, payload: dict[str, Any]) -> None:
    table = Table("option", "value")
    for name, value in payload["options"].items():
        text = ", ".join(value) if isinstance(value, list) else "" if value is None else str(value)
        text = text or "–"
        table.add_row(name, Text(printable(text)))
    console.print(table)


def _show_move(console: Console, payload: dict[str, Any]) -> None:
    sources, was = counted(payload["sources"], "source"), payload["was"]
    _say(console, f"root {was} is {payload['root']} now: {sources}, with the ids that they had")
    if payload["replaced"]:
        _say(console, f"withdrawn, as it had been read there a second time: {counted(payload['replaced'], 'source')}")
    if payload["missing"]:
        _say(
            console,
            f"{counted(payload['missing'], 'file is', 'files are')} not at the new place: gone for the next scan",
        )
