"""`rag push`."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from rag_assets.commands.options import Bot, Json, Tenant
from rag_assets.commands.session import check_names, ready_database
from rag_assets.commands.shell import CommandResult, printable
from rag_assets.doors.push import delete_pushed, push_document, pushed_status
from rag_assets.errors import UsageError, unknown_path
from rag_assets.settings import load_settings
from rag_assets.store.database import Database

_SAID = {
    "pushed": "is kept; the next ingest reads it",
    "unchanged": "is there already, as it is",
    "forgotten": "was forgotten as it is, and is not taken again",
}


def push(
    tenant: Tenant,
    bot: Bot,
    id: Annotated[str, typer.Option("--id", metavar="KEY", help="Your own name of the document.", show_default=False)],
    file: Annotated[
        str | None, typer.Argument(help="The document; - reads it from stdin.", metavar="[FILE|-]", show_default=False)
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="What people know it by. (default: the name of the file, else the id)", show_default=False),
    ] = None,
    content_type: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="Its content type, where the name does not tell it.")
    ] = None,
    meta: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Metadata, which searches can filter by. May be repeated."),
    ] = None,
    user: Annotated[
        str | None, typer.Option(help="For this user alone. (default: for all of the bot)", show_default=False)
    ] = None,
    status: Annotated[bool, typer.Option("--status", help="Only tell what became of it.")] = False,
    delete: Annotated[bool, typer.Option("--delete", help="Delete it, instead of keeping one.")] = False,
    as_json: Json = False,
) -> CommandResult:
    """Keep a document for a bot, without a file to come from; the next ingest reads it as any source.

    Pushed again under the same id it is another version of the same source.
    """
    if status + delete + (file is not None) != 1:
        raise UsageError("give a FILE, or - for stdin; or else --status or --delete")
    if file is None and (name is not None or content_type is not None or meta):
        raise UsageError("--name, --type and --meta describe a FILE: leave them out with --status and --delete")
    with ready_database() as database:
        check_names(database, tenant, bot)
        if file is None:
            return _told(database, tenant, bot, id, user, delete)
        known = name if name is not None or file == "-" else Path(file).name
        described: dict[str, Any] = {"name": known, "content_type": content_type, "metadata": _metadata(meta or [])}
        pushed = push_document(database, tenant, bot, id, _read(file), user=user, **described)
    return CommandResult(pushed, lambda console: _say(console, f"{id} {_SAID[pushed['outcome']]}"))


def _told(database: Database, tenant: str, bot: str, key: str, user: str | None, delete: bool) -> CommandResult:
    if delete:
        deleted = delete_pushed(database, tenant, bot, key, user=user)
        done = "is deleted; the next ingest takes it out of searches" if deleted else "was not there"
        return CommandResult({"id": key, "deleted": deleted}, lambda console: _say(console, f"{key} {done}"))
    found = pushed_status(database, tenant, bot, key, user=user)
    why = f": {found['error']}" if found["error"] else ""
    return CommandResult(found, lambda console: _say(console, f"{key} is {found['state']}{why}"))


def _say(console: Console, text: str) -> None:
    console.print(printable(text))


def _read(file: str) -> bytes:
    most = int(load_settings().push_file_mb * 2**20) + 1  # a byte more is refused, and no more is read
    if file == "-":
        return sys.stdin.buffer.read(most)
    if not Path(file).is_file():
        raise unknown_path(file, "file")
    try:
        with Path(file).open("rb") as opened:
            return opened.read(most)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error


def _metadata(words: list[str]) -> dict[str, Any]:
    """`year=2024` is a number, as filters compare it; anything else is text."""
    given: dict[str, Any] = {}
    for word in words:
        key, sign, value = word.partition("=")
        if not sign or not key.strip():
            raise UsageError(f"--meta {word}: write it as key=value")
        if key.strip() in given:
            raise UsageError(f"--meta {key.strip()} is given twice: say which one it is")
        given[key.strip()] = _value(value)
    return given


def _value(text: str) -> int | float | str:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # or brackets in brackets
        return text
    return value if type(value) in (int, float) and math.isfinite(value) else text
