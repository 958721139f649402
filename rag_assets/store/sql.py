"""The named queries of `sql/queries.sql`, and their rows by name; Python code holds no SQL of its own but what must
be composed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

from psycopg.rows import RowFactory, scalar_row
from psycopg.sql import SQL, Composed

from rag_assets.settings import bundled
from rag_assets.store.statements import Connection

Statement = str | SQL | Composed
_Row = TypeVar("_Row")
_HEADER = re.compile(r"^-- (\w+) --$", re.MULTILINE)


@cache
def _queries() -> dict[str, str]:
    pieces = _HEADER.split((bundled("sql") / "queries.sql").read_text())
    return {name: text.strip() for name, text in zip(pieces[1::2], pieces[2::2], strict=True)}


def query(name: str) -> str:
    """The text of one named query. A name that does not exist is a KeyError: a fault of ours, not the caller's."""
    return _queries()[name]


def rows(
    connection: Connection, row: RowFactory[_Row], statement: Statement, values: Mapping[str, Any] | None = None
) -> list[_Row]:
    """What a query returns, each row as `row` makes it of the columns' names."""
    return connection.cursor(row_factory=row).execute(statement, values).fetchall()


def first_row(
    connection: Connection, row: RowFactory[_Row], statement: Statement, values: Mapping[str, Any] | None = None
) -> _Row | None:
    """The first row of what a query returns; None where there is none."""
    return connection.cursor(row_factory=row).execute(statement, values).fetchone()


def scalars(connection: Connection, statement: Statement, values: Mapping[str, Any] | None = None) -> list[Any]:
    """The only column of what a query returns."""
    return connection.cursor(row_factory=scalar_row).execute(statement, values).fetchall()


def scalar(connection: Connection, statement: Statement, values: Mapping[str, Any] | None = None) -> Any:
    """The only column of a query's first row; None where there is none."""
    return connection.cursor(row_factory=scalar_row).execute(statement, values).fetchone()
