"""What a search falls back to, rung by rung, when it fails: always in the same scope, and down to saying nothing."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rag_assets.errors import DatabaseRefused, DatabaseUnavailable, RagError, TimeLimitReached, UsageError
from rag_assets.retrieval.arguments import check_number, check_seconds, check_whole
from rag_assets.retrieval.limits import MAX_RETRIES
from rag_assets.retrieval.protocol import (
    Retriever,
    SteppedRetriever,
    checked,
    database_of,
    require_retriever,
    scores_of,
    steps_of,
)
from rag_assets.retrieval.results import Retrieval, RetrievalResult, Rung, joined
from rag_assets.retrieval.retrievers import LexicalRetriever
from rag_assets.retrieval.scope import RetrievalScope
from rag_assets.retrieval.steps import Steps, within
from rag_assets.store.search import Mode, Space

_PASSED_ON = (UsageError, DatabaseRefused)  # the caller's mistakes, and a database that nobody may search
_FULL_SHARE = 2 / 3  # of the time limit; words alone have the rest


class TimedRetriever(SteppedRetriever):
    """Another retriever, which may take so many seconds in all."""

    def __init__(self, retriever: Retriever, limit_s: float) -> None:
        """A search raises `TimeLimitReached` after `limit_s` seconds; what was begun ends by itself, unheard.

        Raises:
            InvalidArgument: names the argument that is out of bounds or of the wrong kind.
        """
        super().__init__(database_of(require_retriever(retriever, "retriever")), scores_of(retriever))
        self._retriever = retriever
        self._limit_s = check_seconds(limit_s, "limit_s")

    def steps(
        self, query: str, scope: RetrievalScope, top_k: int = 8, filters: Mapping[str, Any] | None = None
    ) -> Steps[Retrieval]:
        """See `Retriever.steps`."""
        query, top_k, filters = checked(query, scope, top_k, filters)
        return (yield from within(steps_of(self._retriever, query, scope, top_k, filters), self._limit_s))


@dataclass
class _Climb:
    """One search on its way down: the time it has, and what failed so far."""

    deadline: float | None
    failed: list[str] = field(default_factory=list)
    rungs: list[dict[str, Any]] = field(default_factory=list)
    last_error: RagError | None = None

    def left(self, share_s: float = 0.0) -> float | None:
        """Seconds left for a rung that leaves `share_s` to the next one; None without a limit."""
        return None if self.deadline is None else self.deadline - share_s - time.perf_counter()

    def fell(self, rung: Rung, error: RagError) -> None:
        self.last_error = error
        self.failed.append(f"{rung}: {error}")
        self.rungs.append({"rung": rung, "error": type(error).__name__})

    @property
    def says(self) -> str | None:
        return "; ".join(self.failed) or None


class LadderRetriever(SteppedRetriever):
    """Another retriever that does not fail with what it asks: it is asked again, then words alone are searched for in
    the same scope, and then there is no context. Where the best score is below a floor, there is no reliable source.

    `rung` of what it returns says which of these it is, `degraded` why, and the trace what was tried. No rung widens
    the scope, the filters or who asks. A caller's mistake is raised (`InvalidArgument`, `ScopeError`), and so is
    `DatabaseRefused`.
    """

    def __init__(
        self,
        retriever: Retriever,
        *,
        floor: float | None = None,
        words_floor: float | None = None,
        retries: int = 1,
        limit_s: float | None = 10.0,
    ) -> None:
        """`floor` is for the best score of `retriever`, `words_floor` for that of words alone; without one, the floor
        that was found for the scope's profile holds, if there is one for such scores. `limit_s` is for all rungs
        together, of which words alone have at least a third; None: as long as they take.

        Raises:
            InvalidArgument: names the argument that is out of bounds or of the wrong kind.
        """
        super().__init__(database_of(require_retriever(retriever, "retriever")), scores_of(retriever))
        self._retriever = retriever
        words = self.database is not None and self.scored_by != "lexical"
        self._words = LexicalRetriever(self.database) if words and self.database else None
        self._floor = None if floor is None else check_number(floor, "floor", -1, 1)
        self._words_floor = None if words_floor is None else check_number(words_floor, "words_floor", -1, 1)
        self._retries = check_whole(retries, "retries", MAX_RETRIES, least=0)
        self._limit_s = None if limit_s is None else check_seconds(limit_s, "limit_s")

    def steps(
        self, query: str, scope: RetrievalScope, top_k: int = 8, filters: Mapping[str, Any] | None = None
    ) -> Steps[Retrieval]:
        """See `Retriever.steps`."""
        query, top_k, filters = checked(query, scope, top_k, filters)
        started = time.perf_counter()
        climb = _Climb(None if self._limit_s is None else started + self._limit_s)
        found = yield from self._full(climb, query, scope, top_k, filters)
        if found is None:
            found = yield from self._by_words(climb, query, scope, top_k, filters)
        if found is None:
            took = 1000 * (time.perf_counter() - started)
            nothing = Retrieval((), {"embed": 0.0, "search": 0.0, "total": took}, rung="none")
            return _told(nothing, climb, "no context")
        total = 1000 * (time.perf_counter() - started)
        timings = {**found.timings_ms, "ladder": max(0.0, total - found.timings_ms.get("total", 0.0)), "total": total}
        return self._above_floor(replace(found, timings_ms=timings), climb, scope)

    def _full(
        self, climb: _Climb, query: str, scope: RetrievalScope, top_k: int, filters: Mapping[str, Any]
    ) -> Steps[Retrieval | None]:
        for attempt in range(1 + self._retries):
            rung: Rung = "retry" if attempt else "full"
            share = (self._limit_s or 0.0) * (1 - _FULL_SHARE) if self._words else 0.0
            steps = steps_of(self._retriever, query, scope, top_k, filters)
            found = yield from _tried(climb, rung, steps, climb.left(share))
            if found is not None:
                return found if found.rung != "full" else replace(found, rung=rung)
            if isinstance(climb.last_error, TimeLimitReached):
                return None  # a second time would be as long
        return None

    def _by_words(
        self, climb: _Climb, query: str, scope: RetrievalScope, top_k: int, filters: Mapping[str, Any]
    ) -> Steps[Retrieval | None]:
        # A server that nobody reaches has no words either.
        if self._words is None or isinstance(climb.last_error, DatabaseUnavailable):
            return None
        found = yield from _tried(climb, "words", self._words.steps(query, scope, top_k, filters), climb.left())
        return None if found is None else replace(found, rung="words")

    def _above_floor(self, found: Retrieval, climb: _Climb, scope: RetrievalScope) -> Retrieval:
        """What was found, or nothing where the best of it is below the floor for such scores."""
        by_words = found.rung == "words"
        given = self._words_floor if by_words else self._floor
        floors = _floors(given, "lexical" if by_words else self.scored_by, scope)
        best = max((one.score for one in found), default=None)
        floor = floors["bot"]
        told = {} if floor is None else {"floor": floor, "best": best}
        if found.rung == "none" or any(_reaches(one, floors) for one in found):
            return _told(found, climb, None, **told)
        why = "nothing was found" if best is None else f"the best score, {best:.3f}, is below the floor"
        return _told(replace(found, results=(), rung="no_reliable_source"), climb, f"no reliable source: {why}", **told)


def _floors(given: float | None, mode: Mode | None, scope: RetrievalScope) -> dict[Space, float | None]:
    """The floor for each space. What all bots share has its own, and that of the bot where it has none but the same
    model: other models' scores say something else."""
    own = given if given is not None or mode is None else scope.floors.get(mode)
    shared = own
    if given is None and mode is not None and scope.shared is not None:
        alike = mode == "lexical" or scope.shared.profile.model_key == scope.profile.model_key
        shared = scope.shared.floors.get(mode, own if alike else None)
    return {"bot": own, "user": own, "tenant": shared}


def _reaches(one: RetrievalResult, floors: Mapping[Space, float | None]) -> bool:
    floor = floors[one.space]
    return floor is None or one.score >= floor


def _tried(climb: _Climb, rung: Rung, steps: Steps[Retrieval], limit_s: float | None) -> Steps[Retrieval | None]:
    """What the steps find, or None where they fail; a mistake of the caller's is raised."""
    try:
        if limit_s is not None and limit_s <= 0:
            steps.close()
            raise TimeLimitReached("there is no time left")
        found: Retrieval = yield from within(steps, limit_s)
    except _PASSED_ON:
        raise
    except RagError as error:
        climb.fell(rung, error)
        return None
    return found


def _told(found: Retrieval, climb: _Climb, why: str | None, **told: Any) -> Retrieval:
    """What was found, saying which rung it is of and what failed before."""
    trace = {"stage": "ladder", "rung": found.rung, "failed": climb.rungs, **told}
    return replace(found, degraded=joined(why, found.degraded, climb.says), trace=(*found.trace, trace))
