"""Statements as values, so that the same ones can be sent over a blocking connection and over an asynchronous one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.rows import BaseRowFactory, namedtuple_row

Connection = psycopg.Connection[tuple[Any, ...]]
AsyncConnection = psycopg.AsyncConnection[tuple[Any, ...]]
Scope = Mapping[str, str | None]

SET_SCOPE = (
    "SELECT set_config('rag.tenant', %(tenant)s, true), set_config('rag.bot', %(bot)s, true), "
    "set_config('rag.space', %(space)s, true), set_config('rag.profile', %(profile)s, true), "
    "set_config('rag.user', %(user)s, true)"
)


def scope_values(scope: Scope) -> dict[str, str]:
    """The values of `SET_SCOPE`: every part that `scope` leaves out is emptied."""
    return {name: scope.get(name) or "" for name in ("tenant", "bot", "space", "profile", "user")}


@dataclass(frozen=True)
class Statement:
    """A statement with its values, and what its rows become."""

    text: str
    values: Mapping[str, Any] = field(default_factory=dict)
    rows: BaseRowFactory[Any] = namedtuple_row


def ask(connection: Connection, scope: Scope, statements: Sequence[Statement]) -> list[list[Any]]:
    """The rows of each statement, all read under `scope` in one transaction and one round trip.

    The scope's settings end with the transaction.
    """
    with connection.pipeline(), connection.transaction():
        connection.execute(SET_SCOPE, scope_values(scope))
        cursors = [connection.cursor(row_factory=statement.rows) for statement in statements]
        for cursor, statement in zip(cursors, statements, strict=True):
            cursor.execute(statement.text, statement.values)
    return [cursor.fetchall() for cursor in cursors]


async def aask(connection: AsyncConnection, scope: Scope, statements: Sequence[Statement]) -> list[list[Any]]:
    """As `ask`."""
    async with connection.pipeline(), connection.transaction():
        await connection.execute(SET_SCOPE, scope_values(scope))
        cursors = [connection.cursor(row_factory=statement.rows) for statement in statements]
        for cursor, statement in zip(cursors, statements, strict=True):
            await cursor.execute(statement.text, statement.values)
    return [await cursor.fetchall() for cursor in cursors]
