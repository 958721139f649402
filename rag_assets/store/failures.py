"""Errors of the database's driver, turned into ours: none of the driver's own leaves a search."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import errors
from psycopg.abc import RV, PQGen
from psycopg.pq import TransactionStatus

from rag_assets.errors import DatabaseFailed, DatabaseRefused, DatabaseUnavailable, RagError, ScopeRefused

_CANCEL_S = 5.0
_NO_SCHEMA = (errors.InvalidSchemaName, errors.UndefinedTable, errors.UndefinedColumn, errors.UndefinedFunction)
_NO_ROLE = re.compile(r'permission denied to set role "(\w+)"')
_NOT_SET_UP = re.compile(r'role "rag_\w+_login" does not exist')  # a login of the embedded server
_SCOPE_REFUSED = "RS001"  # raised by rag.scope_verified
# By what it says: the way out.
_UNSIGNED = (
    ("is not signed", "give the program RAG_SCOPE_KEY, or pass a signature to open_scope"),
    ("not know|retired", "RAG_SCOPE_KEY has to be a key that rag scope-key list shows as in use"),
    ("expired", "sign a scope when it is opened, and compare the clocks of this machine and the server"),
    ("", "RAG_SCOPE_KEY is not the key of this id, or what was signed is another tenant, bot or user"),
)
_SEARCHES = re.compile(r"function (?:rag\.)?search(?:_space)?\b")
# Before a connection stands, no code tells a server that refuses from one that is away. Each with the way out.
_REFUSALS = (
    (r'database "[^"]*" does not exist|no such database', "it names a database that is not there"),
    (r'role "[^"]*" does not exist|no such user', "it names a login that is not there"),
    (r"authentication failed|no password supplied|no authentication method", "the server does not accept this login"),
    (r"is not permitted to log in", "this role may not log in: ALTER ROLE ... LOGIN"),
    (r"permission denied for database", "this login may not connect to it: GRANT CONNECT ON DATABASE ... TO ..."),
    (
        r"no pg_hba\.conf entry|server does not support SSL|SSL required|certificate",
        "the server admits nobody this way",
    ),
    (
        r"unsupported startup parameter",
        "a pooler takes no options; rag up needs them: name the server itself",
    ),
    (r"statement pooling", "a connection pooler has to be in transaction or session mode"),
    (r"invalid .*value|invalid connection option", "one of its options is wrong"),
)


class OurConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that was opened here, which the driver's logs can tell from those of an application."""

    def wait(self, gen: PQGen[RV], *arguments: Any, **options: Any) -> RV:
        """As the driver's, which cancels what the server is at where a KeyboardInterrupt stops it; here whatever does
        so, as a stopped run of Dagster's: the server would go on building an index that nobody waits for."""
        try:
            return super().wait(gen, *arguments, **options)
        except (Exception, KeyboardInterrupt):
            raise
        except BaseException:
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                with suppress(psycopg.Error):  # the server is away, or what it was at is cancelled, as it should be
                    self.cancel_safe(timeout=_CANCEL_S)
                    super().wait(gen, *arguments, **options)
            raise


class OurAsyncConnection(psycopg.AsyncConnection[tuple[Any, ...]]):
    """The same for `async`."""


class _OursAreReported(logging.Filter):
    """Drops what the driver writes about connections of ours and their pools: that a server is away, or that somebody
    was interrupted in a transaction, is told to whoever works on it."""

    def filter(self, record: logging.LogRecord) -> bool:
        arguments = record.args if isinstance(record.args, tuple) else ()
        connections = (getattr(one, "connection", one) for one in arguments)  # of a transaction: its own
        ours = any(isinstance(one, OurConnection | OurAsyncConnection) for one in connections)
        return record.levelno >= logging.ERROR or not (ours or "rag-assets" in record.getMessage())


for _logger in ("psycopg", "psycopg.pool", "psycopg.transaction"):
    logging.getLogger(_logger).addFilter(_OursAreReported())


def first_line(error: Exception) -> str:
    """What an error says first; the server's details, which may repeat a row, follow on more lines."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def failure_of(
    error: psycopg.Error, what: str, doing: str = "the search did not reach", named: str = "its URL", hint: str = ""
) -> RagError:
    """What an error of the driver means for somebody who works on `what`, a database's description.

    `doing` begins the text where the server is away, and `hint` ends it; `named` is the setting that names the server.
    """
    said = first_line(error)
    if error.sqlstate == _SCOPE_REFUSED:
        way_out = next(way for words, way in _UNSIGNED if re.search(words, said))
        return ScopeRefused(f"{what} takes signed scopes alone, and {said}: {way_out}")
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return DatabaseRefused(
            f"{what} is read-only ({said}); what writes, such as an ingest, needs the primary server: look at {named}"
        )
    if isinstance(error, errors.SerializationFailure):  # none of our transactions is one that could fail to serialize
        return DatabaseUnavailable(
            f"{what} is a replica that cut off what it was asked, to follow its primary ({said}); where that is often, "
            "raise its max_standby_streaming_delay, or turn hot_standby_feedback on"
        )
    if isinstance(error, errors.QueryCanceled):  # it would be cancelled again
        return DatabaseFailed(f"{what} took longer than it allows: {said}")
    if isinstance(error, errors.InvalidCatalogName | errors.InvalidAuthorizationSpecification) or (
        isinstance(error, psycopg.OperationalError) and error.sqlstate is None
    ):
        if _NOT_SET_UP.search(str(error)):
            return DatabaseRefused(f"{what} has not been set up ({said}); do that with: rag up")
        for pattern, way_out in _REFUSALS:
            if re.search(pattern, str(error)):
                return DatabaseRefused(f"{what} cannot be entered ({said}): look at {named}; {way_out}")
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return DatabaseUnavailable(f"{doing} {what}: {said}{f'. {hint}' if hint else ''}")
    if isinstance(error, _NO_SCHEMA):
        return DatabaseRefused(f"{what} has no rag-assets schema of this version ({said}); bring it there with: rag up")
    if isinstance(error, errors.InsufficientPrivilege):
        return _not_granted(what, said)
    return DatabaseFailed(f"{what} failed: {said} ({type(error).__name__})")


def _not_granted(what: str, said: str) -> RagError:
    if missing := _NO_ROLE.search(said):
        return DatabaseRefused(
            f"{what} does not let this login work as {missing[1]} ({said}); grant it the role {missing[1]}: "
            f"GRANT {missing[1]} TO the login, WITH SET TRUE"
        )
    if _SEARCHES.search(said):
        return DatabaseRefused(
            f"{what} does not let rag_app search ({said}): GRANT EXECUTE ON FUNCTION rag.search_space TO rag_app"
        )
    return DatabaseRefused(
        f"{what} does not let this login do that ({said}); its roles were granted less than rag up does"
    )


@contextmanager
def available(failure: str, what: str, named: str = "its URL", hint: str = "") -> Iterator[None]:
    """Around connecting to `what`, a database's description, and working there: errors of the driver leave as ours,
    those of a server that is away beginning with `failure`. What a constraint or a type refuses stays as it is: whoever
    writes knows what it means."""
    try:
        yield
    except (psycopg.IntegrityError, psycopg.DataError):
        raise
    except psycopg.Error as error:
        raise failure_of(error, what, failure, named, hint) from error


@contextmanager
def as_ours(what: str, named: str = "its URL", hint: str = "") -> Iterator[None]:
    """Errors of the driver inside a search leave as `failure_of` them; around `await` too."""
    try:
        yield
    except psycopg.Error as error:
        raise failure_of(error, what, named=named, hint=hint) from error
