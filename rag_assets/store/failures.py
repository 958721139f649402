"""Errors of the database's driver, turned into ours: none of the driver's own leaves a search."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors

from rag_assets.errors import DatabaseFailed, DatabaseRefused, DatabaseUnavailable, RagError

_ROLE = "rag_app"
_NO_SCHEMA = (errors.InvalidSchemaName, errors.UndefinedTable, errors.UndefinedColumn, errors.UndefinedFunction)


def first_line(error: Exception) -> str:
    """What an error says first; the server's details, which may repeat a row, follow on more lines."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def failure_of(error: psycopg.Error, what: str, doing: str = "the search did not reach") -> RagError:
    """What an error of the driver means for somebody who works on `what`, a database's description; `doing` begins the
    text where the server is away."""
    said = first_line(error)
    if _ROLE in said and isinstance(error, psycopg.OperationalError):  # before the first statement: no code tells it
        return DatabaseRefused(f"{what} does not let this login search ({said}); grant it the role {_ROLE}")
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return DatabaseRefused(f"{what} is read-only ({said}); ingest into the primary server")
    if isinstance(error, errors.QueryCanceled):  # it would be cancelled again
        return DatabaseFailed(f"{what} took longer than it allows: {said}")
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return DatabaseUnavailable(f"{doing} {what}: {said}")
    if isinstance(error, _NO_SCHEMA):
        return DatabaseRefused(f"{what} has no rag-assets schema of this version ({said}); bring it there with: rag up")
    if isinstance(error, errors.InsufficientPrivilege):
        return DatabaseRefused(f"{what} does not let this login do that ({said}); grant it the role {_ROLE}")
    return DatabaseFailed(f"{what} failed: {said} ({type(error).__name__})")


@contextmanager
def available(failure: str, what: str) -> Iterator[None]:
    """Around connecting to `what`, a database's description, and working there: errors of the driver leave as ours,
    those of a server that is away beginning with `failure`. What a constraint or a type refuses stays as it is: whoever
    writes knows what it means."""
    try:
        yield
    except (psycopg.IntegrityError, psycopg.DataError):
        raise
    except psycopg.Error as error:
        raise failure_of(error, what, failure) from error


@contextmanager
def as_ours(what: str) -> Iterator[None]:
    """Errors of the driver inside a search leave as `failure_of` them; around `await` too."""
    try:
        yield
    except psycopg.Error as error:
        raise failure_of(error, what) from error
