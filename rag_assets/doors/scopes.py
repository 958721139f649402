"""The scope of each request at a door: it comes from the application, never from what is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rag_assets.errors import InvalidArgument, RagError, ScopeError, shown
from rag_assets.keys import check_key
from rag_assets.retrieval.scope import RetrievalScope, aopen_scope, open_scope
from rag_assets.store.database import Database, require_database

_KEYS = ("tenant", "bot", "profile")
_ARGUMENTS = (*_KEYS, "user_id", "request_key")

# A scope that was opened, the arguments of `open_scope`, or a function that says one of both for each request.
ScopeGiven = RetrievalScope | Mapping[str, Any] | Callable[..., RetrievalScope | Mapping[str, Any]]


class RequestScopes:
    """Opens the scope of each request, from what the application gave once. Safe to use from many threads and tasks."""

    def __init__(self, given: object, database: Database | None) -> None:
        """`given`: a scope, which is used as it is; the arguments of `open_scope`, with which one is opened for each
        request; or a function that returns one of both, called for each request.

        Raises:
            ScopeError: it is something else.
            InvalidArgument: an argument of `open_scope` is unknown, missing or no key; or there is no database to
                open a scope with.
        """
        if database is not None:
            require_database(database)
        self._given = given if callable(given) else _checked(given)
        self._database = database
        if isinstance(self._given, Mapping):
            self._required()

    def open(self, *request: Any) -> RetrievalScope:
        """The scope of a request, which a function is given as `request`.

        Raises:
            ScopeError: the function failed, or returned something else.
            RagError: as `open_scope`.
        """
        said = self._said(*request)
        return said if isinstance(said, RetrievalScope) else open_scope(self._required(), **said)

    async def aopen(self, *request: Any) -> RetrievalScope:
        """As `open`, for tasks of an event loop."""
        said = self._said(*request)
        return said if isinstance(said, RetrievalScope) else await aopen_scope(self._required(), **said)

    def _said(self, *request: Any) -> RetrievalScope | Mapping[str, Any]:
        if isinstance(self._given, RetrievalScope | Mapping):
            return self._given
        try:
            said = self._given(*request)
        except RagError:
            raise
        except Exception as error:  # whatever it is: without a scope nothing is searched
            raise ScopeError(f"the function of scope failed with {type(error).__name__}: {error}", "scope") from error
        return _checked(said)

    def _required(self) -> Database:
        if self._database is None:
            raise InvalidArgument(
                "this retriever has no database to open a scope with: name it as database", "database"
            )
        return self._database


def _checked(given: object) -> RetrievalScope | Mapping[str, Any]:
    if isinstance(given, RetrievalScope):
        return given
    if not isinstance(given, Mapping):
        raise ScopeError(
            "scope must be a RetrievalScope, the arguments of open_scope, or a function that returns one of both, got "
            f"{type(given).__name__}: nothing is searched",
            "scope",
        )
    unknown = [name for name in given if name not in _ARGUMENTS]
    if unknown:
        raise InvalidArgument(f"scope: {shown(unknown[0])} is none of {', '.join(_ARGUMENTS)}", "scope")
    for name in _KEYS:
        if name != "profile" or given.get(name) is not None:
            check_key(given.get(name, ""), name)
    return dict(given)
