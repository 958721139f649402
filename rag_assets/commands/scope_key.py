"""`rag scope-key`."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from rag_assets.commands.options import Json
from rag_assets.commands.session import ready_database
from rag_assets.commands.shell import CommandResult, check_asking, confirmed, note
from rag_assets.printing import moment
from rag_assets.settings import load_settings
from rag_assets.signing import ScopeKey, new_key, parse_key
from rag_assets.store import scope_keys as store
from rag_assets.store.scope_keys import Signing

_Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def add(
    new: Annotated[bool, typer.Option("--new", help="Make a new key, although RAG_SCOPE_KEY is set.")] = False,
    as_json: Json = False,
) -> CommandResult:
    """Let the database verify scopes with a key: that of RAG_SCOPE_KEY, or else a new one, which is shown.

    A new one is not shown again. No search is refused for it; that begins with `rag scope-key on`.
    """
    given = None if new else _given()
    key = given or new_key()
    with ready_database() as database:
        added = store.add_scope_key(database, key)
    payload = {"id": key.id, "added": added, "key": None if given else key.text}
    return CommandResult(payload, lambda console: _show_added(console, payload))


def list_command(as_json: Json = False) -> CommandResult:
    """List the keys that the database verifies scopes with, and whether scopes have to be signed."""
    with ready_database() as database:
        signing = store.scope_signing(database)
    payload = _payload(signing)
    return CommandResult(payload, lambda console: _show(console, payload))


def retire(
    key: Annotated[str, typer.Argument(metavar="ID", help="The key's id.", show_default=False)],
    force: Annotated[
        bool, typer.Option("--force", help="Also the last key in use, without which every search is refused.")
    ] = False,
    as_json: Json = False,
) -> CommandResult:
    """Refuse scopes that are signed with a key, from now on. Applications sign with another one before."""
    with ready_database() as database:
        changed = store.retire_scope_key(database, key, force=force)
    text = f"{key} is retired" if changed else f"{key} was retired before"
    return CommandResult({"id": key, "retired": changed}, lambda console: console.print(text))


def on(yes: _Yes = False, as_json: Json = False) -> CommandResult:
    """Refuse scopes that are not signed: whoever has only the application's login reads nothing.

    Shows the keys and asks: applications that do not sign yet are refused from that moment on.
    """
    check_asking(as_json, not yes, "change it")
    with ready_database() as database:
        signing = store.scope_signing(database)
        if signing.since is None and signing.in_use:
            _warn_here(signing)
            question = f"Refuse every search that is not signed with {', '.join(signing.in_use)}? [y/N]"
            if not yes and not confirmed(question, "turn it on"):
                return CommandResult({}, lambda console: console.print("nothing was changed"))
        changed = store.require_signed_scopes(database)
        payload = _payload(store.scope_signing(database)) | {"changed": changed}
    return CommandResult(payload, lambda console: console.print("scopes have to be signed"))


def off(yes: _Yes = False, as_json: Json = False) -> CommandResult:
    """Take scopes that are not signed again. Keys stay as they are."""
    check_asking(as_json, not yes, "change it")
    with ready_database() as database:
        question = "Let whoever has the application's login read every tenant? [y/N]"
        if not yes and not confirmed(question, "turn it off"):
            return CommandResult({}, lambda console: console.print("nothing was changed"))
        changed = store.take_unsigned_scopes(database)
        payload = _payload(store.scope_signing(database)) | {"changed": changed}
    return CommandResult(payload, lambda console: console.print("scopes need no signature"))


def _given() -> ScopeKey | None:
    key = load_settings().scope_key
    return parse_key(key.get_secret_value()) if key is not None else None


def _warn_here(signing: Signing) -> None:
    here = _given()
    if here is None or here.id not in signing.in_use:
        found = "is not set here" if here is None else f"is {here.id} here, which is not in use"
        note(f"Warning: RAG_SCOPE_KEY {found}: searches from this shell will be refused", "yellow")


def _payload(signing: Signing) -> dict[str, Any]:
    here = _given()
    return {
        "required": signing.since is not None,
        "since": signing.since.isoformat() if signing.since else None,
        "turned_on_by": signing.turned_on_by,
        "keys": [
            {
                "id": key.id,
                "created_at": key.created_at.isoformat(),
                "created_by": key.created_by,
                "retired_at": key.retired_at.isoformat() if key.retired_at else None,
                "here": here is not None and here.id == key.id,
            }
            for key in signing.keys
        ],
    }


def _show_added(console: Console, payload: dict[str, Any]) -> None:
    if payload["key"]:
        console.print(f"RAG_SCOPE_KEY={payload['key']}", soft_wrap=True)
        note("Give it to the applications; it is not shown again. Then: rag scope-key on")
    elif payload["added"]:
        console.print(f"the key {payload['id']} of RAG_SCOPE_KEY is known now")
    else:
        console.print(f"the key {payload['id']} of RAG_SCOPE_KEY was known before")


def _show(console: Console, payload: dict[str, Any]) -> None:
    if payload["required"]:
        console.print(f"scopes have to be signed, since {moment(payload['since'])}, by {payload['turned_on_by']}")
    else:
        console.print("scopes need no signature; rag scope-key on requires one")
    if payload["keys"]:
        table = Table("key", "added", "by", "state", "RAG_SCOPE_KEY")
        for key in payload["keys"]:
            state = f"retired {moment(key['retired_at'])}" if key["retired_at"] else "in use"
            table.add_row(key["id"], moment(key["created_at"]), key["created_by"], state, "here" if key["here"] else "")
        console.print(table)
