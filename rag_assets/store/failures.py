"""Errors of the database's driver, turned into ours: none of the driver's own leaves a search, and of those
that say that the server is away none leaves at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors

from rag_assets.errors import DatabaseRefused, DatabaseUnavailable, RagError, SearchFailed

_NO_SCHEMA = (errors.InvalidSchemaName, errors.UndefinedTable, errors.UndefinedColumn, errors.UndefinedFunction)


def first_line(error: Exception) -> str:
    """What an error says first; the server's details, which may repeat a row, follow on more lines."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def failure_of(error: psycopg.Error, what: str) -> RagError:
    """What an error of the driver means for somebody who searches `what`, a database's description."""
    said = first_line(error)
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return DatabaseUnavailable(f"the search did not reach {what}: {said}")
    if isinstance(error, _NO_SCHEMA):
        return DatabaseRefused(f"{what} has no rag-assets schema of this version ({said}); bring it there with: rag up")
    if isinstance(error, errors.InsufficientPrivilege):
        return DatabaseRefused(f"{what} does not let this login search ({said}); grant it the role rag_app")
    return SearchFailed(f"{what} failed at the search: {said} ({type(error).__name__})")


@contextmanager
def available(failure: str, what: str) -> Iterator[None]:
    """Around connecting to `what`, a database's description, and working there: a server that is away or breaks off
    is an error of ours, which begins with `failure`; what else the driver raises is a fault of ours and stays."""
    try:
        yield
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise DatabaseUnavailable(f"{failure} {what}: {first_line(error)}") from error


@contextmanager
def as_ours(what: str) -> Iterator[None]:
    """Errors of the driver inside leave as `failure_of` them; around `await` too."""
    try:
        yield
    except psycopg.Error as error:
        raise failure_of(error, what) from error
