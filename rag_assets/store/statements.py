"""Statements as values, so that the same ones can be sent over a blocking connection and over an asynchronous one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import psycopg
from psycopg.rows import BaseRowFactory, namedtuple_row

Connection = psycopg.Connection[tuple[Any, ...]]
AsyncConnection = psycopg.AsyncConnection[tuple[Any, ...]]
Scope = Mapping[str, str | None]
Role = Literal["owner", "ingest", "app"]

_PARTS = ("tenant", "bot", "space", "profile", "user", "key", "expires", "signature")
SEARCH_PATH = "rag, public, extensions"  # as the embedded server's logins have it
SET_SCOPE = "SELECT " + ", ".join(f"set_config('rag.{part}', %({part})s, true)" for part in _PARTS)
# Role and path too end with the transaction: behind a pooler the next one may be somebody else's.
ENTER = (
    "SELECT set_config('role', %(role)s, true), "
    f"CASE WHEN current_setting('search_path') <> '{SEARCH_PATH}' "
    f"THEN set_config('search_path', '{SEARCH_PATH}', true) END, "
    f"set_config('rag.actor', %(actor)s, true), {SET_SCOPE.removeprefix('SELECT ')}"
)


def storable(text: str) -> str:
    """The text without what Postgres cannot hold: NUL is a space, and half of a surrogate pair a question mark."""
    return text.replace("\x00", " ").encode("utf-8", "replace").decode()


def scope_values(scope: Scope) -> dict[str, str]:
    """The values of `SET_SCOPE`: every part that `scope` leaves out is emptied."""
    return {part: scope.get(part) or "" for part in _PARTS}


def enter_values(role: Role, scope: Scope, actor: str = "") -> dict[str, str]:
    """The values of `ENTER`: the role, the scope, and who is written down as having done it."""
    return {"role": f"rag_{role}", "actor": actor, **scope_values(scope)}


@dataclass(frozen=True)
class Statement:
    """A statement with its values, and what its rows become. `on_primary`: it writes, or has to see what was written a
    moment ago, and so is no statement for a replica."""

    text: str
    values: Mapping[str, Any] = field(default_factory=dict)
    rows: BaseRowFactory[Any] = namedtuple_row
    on_primary: bool = False


def are_for_primary(statements: Sequence[Statement]) -> bool:
    """Whether any of them is."""
    return any(statement.on_primary for statement in statements)


def ask(connection: Connection, scope: Scope, statements: Sequence[Statement]) -> list[list[Any]]:
    """The rows of each statement, all read as the app under `scope` in one transaction and one round trip.

    Role and scope end with the transaction, which cannot write unless one of the statements is for the primary.
    """
    if connection.read_only is not (reads := not are_for_primary(statements)):
        connection.read_only = reads
    with connection.pipeline(), connection.transaction():
        connection.execute(ENTER, enter_values("app", scope))
        cursors = [connection.cursor(row_factory=statement.rows) for statement in statements]
        for cursor, statement in zip(cursors, statements, strict=True):
            cursor.execute(statement.text, statement.values)
    return [cursor.fetchall() for cursor in cursors]


async def aask(connection: AsyncConnection, scope: Scope, statements: Sequence[Statement]) -> list[list[Any]]:
    """As `ask`."""
    if connection.read_only is not (reads := not are_for_primary(statements)):
        await connection.set_read_only(reads)
    async with connection.pipeline(), connection.transaction():
        await connection.execute(ENTER, enter_values("app", scope))
        cursors = [connection.cursor(row_factory=statement.rows) for statement in statements]
        for cursor, statement in zip(cursors, statements, strict=True):
            await cursor.execute(statement.text, statement.values)
    return [await cursor.fetchall() for cursor in cursors]
