"""What every retriever offers, so that each can be used inside another."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

from rag_assets.chat.protocol import ChatMessage, check_history
from rag_assets.errors import InvalidArgument, shown
from rag_assets.retrieval.arguments import MAX_TOP_K, check_whole, clean_query
from rag_assets.retrieval.filters import check_filters
from rag_assets.retrieval.observed import observed
from rag_assets.retrieval.results import Retrieval
from rag_assets.retrieval.scope import RetrievalScope, require_scope
from rag_assets.retrieval.steps import Steps, adrive, call, drive
from rag_assets.store.database import Database
from rag_assets.store.search import Mode


class Retriever(Protocol):
    """Anything that answers a query inside a scope: blocking for threads, awaited for tasks, with the same answer."""

    def search(
        self,
        query: str,
        scope: RetrievalScope,
        top_k: int = 8,
        filters: Mapping[str, Any] | None = None,
    ) -> Retrieval:
        """The best chunks of the scope, best first, at most `top_k` (1 to 1000).

        `filters` narrow the sources, before anything is ranked: lists of what is allowed (`source_ids`, `source_names`,
        `source_types`, `locales`, `content_types`, `roots`, `path_prefixes`, `tags`), `since` and `until` (a date or a
        time; the latter not included), `metadata` (an object that the source's metadata must contain), and `where`:
        for keys of the metadata `equals`, `in`, `exists`, `gt`, `gte`, `lt` and `lte`.

        Raises:
            ScopeError: without a scope, or its profile is not the one that its `profile_id` names.
            InvalidArgument: names the argument that is out of bounds, unknown or of the wrong kind.
            DatabaseUnavailable: after retries; nothing was widened.
            DatabaseRefused, DatabaseFailed: the server, its schema or the role cannot be searched with; it says why.
            EmbeddingError: the query cannot be embedded, and this retriever has nothing else to search by.
        """
        ...

    async def asearch(
        self,
        query: str,
        scope: RetrievalScope,
        top_k: int = 8,
        filters: Mapping[str, Any] | None = None,
    ) -> Retrieval:
        """As `search`, for tasks of an event loop."""
        ...


class SteppedRetriever:
    """A retriever that is written as `steps`: both faces drive them, and another retriever goes through them. Safe to
    use from many threads and tasks."""

    history: tuple[ChatMessage, ...] = ()  # the turns before the query, oldest first

    def __init__(self, database: Database | None, scored_by: Mode | None = None) -> None:
        """`scored_by`: the mode whose scores, with the scope's weight, the results carry; None where they are others,
        to which no floor of the scope applies."""
        self.database, self.scored_by = database, scored_by

    def with_history(self, history: Sequence[ChatMessage]) -> Self:
        """This retriever for the next turn of a conversation, of which these are the last turns, oldest first. What
        rewrites queries in it, however deep, is told them. It shares everything else; make one for each request.

        Raises:
            InvalidArgument: other things than turns of the user and the assistant.
        """
        turns = check_history(history)
        bound = copy.copy(self)
        bound.history = turns
        for name, part in vars(self).items():
            setattr(bound, name, _with_history(part, turns) if name != "history" else turns)
        return bound

    def search(
        self, query: str, scope: RetrievalScope, top_k: int = 8, filters: Mapping[str, Any] | None = None
    ) -> Retrieval:
        """See `Retriever.search`."""
        with observed(self, query, scope, top_k, filters) as keep:
            return keep(drive(self.database, self.steps(query, scope, top_k, filters)))

    async def asearch(
        self, query: str, scope: RetrievalScope, top_k: int = 8, filters: Mapping[str, Any] | None = None
    ) -> Retrieval:
        """See `Retriever.asearch`."""
        with observed(self, query, scope, top_k, filters) as keep:
            return keep(await adrive(self.database, self.steps(query, scope, top_k, filters)))

    def steps(
        self, query: str, scope: RetrievalScope, top_k: int = 8, filters: Mapping[str, Any] | None = None
    ) -> Steps[Retrieval]:
        """What a search does, for a retriever around this one: `found = yield from inner.steps(...)`."""
        raise NotImplementedError


def _with_history(part: Any, turns: tuple[ChatMessage, ...]) -> Any:
    """A part of a retriever, with every retriever in it for the next turn of a conversation."""
    if type(part) in (tuple, list):
        return type(part)(_with_history(one, turns) for one in part)
    if type(part) is dict:
        return {name: _with_history(one, turns) for name, one in part.items()}
    follows = getattr(part, "with_history", None)
    return follows(turns) if callable(follows) and hasattr(part, "search") else part


def steps_of(
    retriever: Retriever, query: str, scope: RetrievalScope, top_k: int, filters: Mapping[str, Any] | None
) -> Steps[Retrieval]:
    """The steps of any retriever. One that has only the two faces is called as a whole."""
    if isinstance(retriever, SteppedRetriever):
        return retriever.steps(query, scope, top_k, filters)
    return call(
        lambda: retriever.search(query, scope, top_k, filters), lambda: retriever.asearch(query, scope, top_k, filters)
    )


def database_of(*retrievers: Retriever) -> Database | None:
    """The database that the retrievers ask; None where none of them is known to ask one."""
    found = (one.database for one in retrievers if isinstance(one, SteppedRetriever))
    return next((database for database in found if database is not None), None)


def scores_of(retriever: Retriever) -> Mode | None:
    """The mode whose scores the results of a retriever carry, if that is known."""
    return retriever.scored_by if isinstance(retriever, SteppedRetriever) else None


def require_retriever(value: object, name: str) -> Retriever:
    """`value` if it can be searched with.

    Raises:
        InvalidArgument: it is no retriever.
    """
    if not callable(getattr(value, "search", None)) or not callable(getattr(value, "asearch", None)):
        raise InvalidArgument(f"{name} must be a retriever, got {shown(value)}", name)
    retriever: Any = value
    return retriever  # type: ignore[no-any-return]


def checked(query: object, scope: object, top_k: object, filters: object) -> tuple[str, int, Mapping[str, Any]]:
    """Query, top_k and filters as they are searched for.

    Raises:
        ScopeError: without a scope.
        InvalidArgument: names the argument that is out of bounds, unknown or of the wrong kind.
    """
    require_scope(scope, "nothing is searched")
    return clean_query(query), check_whole(top_k, "top_k", MAX_TOP_K), check_filters(filters)
