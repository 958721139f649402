"""What an application reports of a search afterwards: what its answer cites, and what helped whoever asked."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from rag_assets.errors import InvalidArgument, shown
from rag_assets.observing.query_log import QUERY_LOG
from rag_assets.observing.reports import tell_answer, tell_feedback
from rag_assets.observing.switches import switches
from rag_assets.retrieval.arguments import MAX_TOP_K
from rag_assets.retrieval.results import RetrievalResult
from rag_assets.retrieval.scope import RetrievalScope, require_scope
from rag_assets.retrieval.steps import Steps, adrive, ask, call, drive
from rag_assets.store.database import Database, require_database
from rag_assets.store.query_log import judging

_FLUSH_S = 2.0


def observe_answer(
    database: Database,
    scope: RetrievalScope,
    query_id: UUID | str,
    citations: Sequence[RetrievalResult | UUID | str],
) -> None:
    """Report the answer to a search: which of its results (or of their `chunk_id`s) it cites; none is a report, too.

    It goes to the metrics and the log, and into the query log where that is on, and does not wait for it.

    Raises:
        ScopeError: without a scope.
        InvalidArgument: names the argument that is of the wrong kind.
    """
    _check(database, scope)
    if isinstance(citations, str) or not isinstance(citations, Sequence) or len(citations) > MAX_TOP_K:
        text = f"citations must be a list of at most {MAX_TOP_K} results or their ids, got {shown(citations)}"
        raise InvalidArgument(text, "citations")
    query = _id(query_id, "query_id")
    cited = [_id(getattr(one, "chunk_id", one), "citations") for one in citations]
    tell_answer(scope.tenant_id, scope.bot_id, query, cited)
    if switches().query_log:
        QUERY_LOG.answer(database, scope.settings, query, cited)


def record_feedback(
    database: Database, scope: RetrievalScope, query_id: UUID | str, chunk_id: UUID | str, helpful: bool | None
) -> bool:
    """Note in the query log whether a result helped whoever asked; None takes that back. A later word replaces an
    earlier one.

    Returns:
        Whether it is noted. False: nobody in this scope has asked such a query with such a result, or it is not in the
        log (any more).

    Raises:
        ScopeError: without a scope.
        InvalidArgument: names the argument that is of the wrong kind.
        DatabaseUnavailable, DatabaseRefused, DatabaseFailed: as of a search.
    """
    return drive(database, _recording(database, scope, query_id, chunk_id, helpful))


async def arecord_feedback(
    database: Database, scope: RetrievalScope, query_id: UUID | str, chunk_id: UUID | str, helpful: bool | None
) -> bool:
    """As `record_feedback`, for tasks of an event loop."""
    return await adrive(database, _recording(database, scope, query_id, chunk_id, helpful))


def _recording(
    database: Database, scope: RetrievalScope, query_id: UUID | str, chunk_id: UUID | str, helpful: bool | None
) -> Steps[bool]:
    _check(database, scope)
    query, chunk = _id(query_id, "query_id"), _id(chunk_id, "chunk_id")
    if helpful is not None and not isinstance(helpful, bool):
        raise InvalidArgument(f"helpful must be True, False or None, got {shown(helpful)}", "helpful")
    statement = judging(query, chunk, helpful)
    ((row,),) = yield from ask(scope.settings, statement, stage="feedback")
    if not row.recorded and QUERY_LOG.stats.waiting:
        yield from call(lambda: QUERY_LOG.flush(_FLUSH_S))
        ((row,),) = yield from ask(scope.settings, statement, stage="feedback")
    recorded: bool = row.recorded
    if recorded:
        tell_feedback(scope.tenant_id, scope.bot_id, query, chunk, helpful)
    return recorded


def _check(database: object, scope: object) -> None:
    require_database(database)
    require_scope(scope)


def _id(value: object, name: str) -> UUID:
    try:
        return value if isinstance(value, UUID) else UUID(value)  # type: ignore[arg-type]
    except (ValueError, TypeError, AttributeError):
        raise InvalidArgument(f"{name} must be an id, got {shown(value)}", name) from None
