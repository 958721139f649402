"""`rag up` and `rag down`."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console

from rag_assets.commands.options import Json
from rag_assets.commands.shell import CommandResult
from rag_assets.homes import users_home
from rag_assets.printing import counted
from rag_assets.settings import Settings, load_settings
from rag_assets.store.database import Database, describe
from rag_assets.store.profiles import list_specs
from rag_assets.store.server import stop_server
from rag_assets.store.set_up import set_up


def up(
    user: Annotated[
        bool, typer.Option("--user", help="In the user's home, which commands find from every folder without its own.")
    ] = False,
    as_json: Json = False,
) -> CommandResult:
    """Start the database if need be and bring its schema up to date. Safe to repeat.

    Without RAG_HOME, its home is the folder .rag of the working folder or the nearest one above it, else the user's,
    if there is one; where there is none, a new one is made in the working folder.
    """
    settings = Settings(home=users_home()) if user else load_settings()
    database = Database.from_settings(settings, operator=True)
    applied = set_up(database)
    with database.work() as connection:
        profiles = [profile.name for profile in list_specs(connection)]
    payload: dict[str, Any] = {
        "database": describe(database.url),
        "embedded": settings.database_url is None,
        "home": str(settings.home),
        "migrations": applied,
        "profiles": profiles,
    }
    return CommandResult(payload, lambda console: _show_up(console, payload))


def _show_up(console: Console, payload: dict[str, Any]) -> None:
    kind = "embedded PostgreSQL" if payload["embedded"] else "DATABASE_URL"
    console.print(f"{kind}: {payload['database']}", markup=False)
    console.print(f"home: {payload['home']}", markup=False, soft_wrap=True)
    applied = payload["migrations"]
    schema = f"{counted(len(applied), 'migration')} applied" if applied else "up to date"
    console.print(f"schema: {schema}")
    console.print(f"profiles: {', '.join(payload['profiles'])}", markup=False)


def down(as_json: Json = False) -> CommandResult:
    """Stop the embedded database of RAG_HOME. A server that DATABASE_URL names is left alone."""
    settings = load_settings()
    if settings.database_url:
        text, stopped = "DATABASE_URL is set: that server is not ours to stop, nothing was done", False
    else:
        # Without its folder there is no server, and asking must not make one.
        stopped = settings.home.exists() and stop_server(settings.home)
        text = f"stopped the database in {settings.home}" if stopped else f"no database runs in {settings.home}"
    payload = {"stopped": stopped, "message": text}
    return CommandResult(payload, lambda console: console.print(text, markup=False, soft_wrap=True))
