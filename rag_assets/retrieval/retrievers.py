"""Dense, lexical and hybrid retrieval under a scope."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from rag_assets.documents.blank import is_blank
from rag_assets.embedding.origins import check_origin
from rag_assets.embedding.profiles import stored_profile
from rag_assets.embedding.protocol import Caller, Embedded
from rag_assets.errors import DatabaseFailed, EmbeddingError, InvalidArgument, ScopeError, shown
from rag_assets.retrieval.arguments import check_share, check_whole
from rag_assets.retrieval.limits import MAX_CANDIDATES
from rag_assets.retrieval.protocol import SteppedRetriever, checked
from rag_assets.retrieval.results import Retrieval, to_result
from rag_assets.retrieval.scope import RetrievalScope
from rag_assets.retrieval.spaces import in_each_space
from rag_assets.retrieval.steps import Steps, ask, embed
from rag_assets.store.database import Database, require_database
from rag_assets.store.search import (
    Fusion,
    Mode,
    SearchRequest,
    SearchRow,
    search_statement,
    searched_spec,
    words_read_as,
)
from rag_assets.store.weights import DEFAULT_WEIGHT
from rag_assets.terms import prepare_query


class _PostgresRetriever(SteppedRetriever):
    """What the three modes share: checks, one round trip, timings. Safe to use from many threads and tasks."""

    mode: Mode

    def __init__(
        self,
        database: Database,
        *,
        dense_weight: float | None = None,
        fusion: Fusion = "minmax",
        candidates: int = 100,
        copies: bool = False,
    ) -> None:
        """Made once, for all bots and profiles: the scope of each search says whose profile embeds the query.

        `dense_weight` (0 to 1; by default the scope's, which was tuned or found for its profile, else 0.5), `fusion`
        and `candidates` (how many of each list are fused, 1 to 1000) are for hybrid mode. A text that lies at several
        places is returned once, with the others in its citation's `also_at`; `copies` returns each of them.

        Raises:
            InvalidArgument: names the argument that is out of bounds or of the wrong kind.
        """
        require_database(database)
        if fusion not in get_args(Fusion):
            raise InvalidArgument(f"fusion must be one of {', '.join(get_args(Fusion))}, got {shown(fusion)}", "fusion")
        if not isinstance(copies, bool):
            raise InvalidArgument(f"copies must be True or False, got {shown(copies)}", "copies")
        has_own_scores = self.mode == "hybrid" and (dense_weight is not None or fusion != "minmax")
        super().__init__(database, None if has_own_scores else self.mode)
        self._copies = copies
        self._dense_weight = None if dense_weight is None else check_share(dense_weight, "dense_weight")
        self._fusion: Fusion = fusion
        self._candidates = check_whole(candidates, "candidates", MAX_CANDIDATES)

    def steps(
        self, query: str, scope: RetrievalScope, top_k: int = 8, filters: Mapping[str, Any] | None = None
    ) -> Steps[Retrieval]:
        """See `Retriever.steps`. Where the query cannot be embedded, hybrid mode searches by words alone."""
        query, top_k, filters = checked(query, scope, top_k, filters)
        return (
            yield from in_each_space(
                scope,
                lambda one: self._in_space(query, one, top_k, filters),
                top_k,
                by_words=self.mode == "lexical",
                copies=self._copies,
            )
        )

    def _in_space(self, query: str, scope: RetrievalScope, top_k: int, filters: Mapping[str, Any]) -> Steps[Retrieval]:
        if is_blank(query):
            return Retrieval((), {"embed": 0.0, "search": 0.0, "total": 0.0}, degraded="the query is empty")
        started = time.perf_counter()
        embedding, mode, degraded = yield from self._embedding(query, scope)
        embedded = time.perf_counter()
        request = SearchRequest(
            mode=mode,
            vector=embedding.vectors[0] if embedding else None,
            text=prepare_query(query, scope.profile.terms) if mode != "dense" else "",
            top_k=top_k,
            candidates=max(self._candidates, top_k),
            dense_weight=self._weight(scope),
            fusion=self._fusion,
            filters=filters,
            copies=self._copies,
        )
        found = yield from searching(scope, request)
        ended = time.perf_counter()
        timings = {
            "embed": 1000 * (embedded - started),
            "search": 1000 * (ended - embedded),
            "total": 1000 * (ended - started),
        }
        results = tuple(to_result(row) for row in found.rows)
        usage = embedding.usage if embedding else None
        trace = ({"stage": "words", "read_as": found.read_as},) if found.read_as else ()
        return Retrieval(results, timings, degraded, usage, trace, "full" if mode == self.mode else "words")

    def _weight(self, scope: RetrievalScope) -> float:
        given = (weight for weight in (self._dense_weight, scope.dense_weight) if weight is not None)
        return next(given, DEFAULT_WEIGHT)

    def _embedding(self, query: str, scope: RetrievalScope) -> Steps[tuple[Embedded | None, Mode, str | None]]:
        if self.mode == "lexical":
            return None, "lexical", None
        try:
            whose = f"profile {scope.profile.name!r} of {scope.tenant_id}/{scope.bot_id}"
            check_origin(whose, scope.origin, scope.profile.origin)
            embedded = yield from embed(scope.profile, query, Caller(scope.tenant_id, scope.bot_id))
        except EmbeddingError as error:
            if self.mode == "dense":
                raise
            return None, "lexical", f"the query could not be embedded ({error}); searched by words alone"
        return embedded, self.mode, None


class DenseRetriever(_PostgresRetriever):
    """By the similarity of vectors alone."""

    mode: Mode = "dense"


class LexicalRetriever(_PostgresRetriever):
    """By BM25 over any of the query's words."""

    mode: Mode = "lexical"


class HybridRetriever(_PostgresRetriever):
    """Both, fused: min-max scores by `dense_weight`, or reciprocal ranks."""

    mode: Mode = "hybrid"


RETRIEVERS: Mapping[Mode, type[_PostgresRetriever]] = {
    "dense": DenseRetriever,
    "lexical": LexicalRetriever,
    "hybrid": HybridRetriever,
}


@dataclass(frozen=True)
class Searched:
    """The rows of a search, and by each word of the query that no text has the lexemes that were looked for as well."""

    rows: Sequence[SearchRow]
    read_as: Mapping[str, Sequence[str]]


def searching(scope: RetrievalScope, request: SearchRequest) -> Steps[Searched]:
    """What a search finds, if the query was embedded by the model of the profile that was searched."""
    try:
        specs, rows, told = yield from ask(
            scope.settings, searched_spec(scope.profile_id), search_statement(request), words_read_as()
        )
    except DatabaseFailed:  # a vector of another length, perhaps
        (specs,) = yield from ask(scope.settings, searched_spec(scope.profile_id))
        require_same_profile(scope, specs)
        raise
    require_same_profile(scope, specs)
    return Searched(rows, told[0].read_as or {})


def require_same_profile(scope: RetrievalScope, rows: Sequence[Any]) -> None:
    """Refuse a scope whose profile is not the one that its `profile_id` names; `rows` are those of `searched_spec`.

    Raises:
        ScopeError: it is another.
    """
    # The whole of it, not its hash: a profile is frozen, but not the dictionaries in it.
    if rows and stored_profile(rows[0].spec) != scope.profile:
        raise ScopeError(
            f"scope names the profile {rows[0].spec['name']!r} and carries another, {scope.profile.name!r}: two models "
            "could meet in one search. Make it with open_scope",
            "scope",
        )
