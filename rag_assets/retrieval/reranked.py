"""A retriever whose candidates are judged once more, and better, by a reranker."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

from rag_assets.embedding.protocol import Caller
from rag_assets.errors import InvalidArgument, RagError
from rag_assets.retrieval.arguments import MAX_TOP_K, check_seconds, check_share, check_whole
from rag_assets.retrieval.protocol import Retriever, SteppedRetriever, checked, database_of, require_retriever, steps_of
from rag_assets.retrieval.rerankers.protocol import Reranker, Scores
from rag_assets.retrieval.results import Retrieval, RetrievalResult, joined
from rag_assets.retrieval.scope import RetrievalScope
from rag_assets.retrieval.steps import Branch, Outcome, Steps, call, together

_log = logging.getLogger(__name__)
_ROUNDING = 1e-3  # a score may leave [0, 1] by so much: of 16-bit numbers


class RerankedRetriever(SteppedRetriever):
    """Asks another retriever for more than is wanted, and returns what a reranker thinks best of it, best first.

    No candidate is lost to a reranker that fails, is late or says nonsense: those without a score stand behind the
    others, in the order before. `score` stays that of the search; `rerank_score` is the reranker's.
    """

    def __init__(
        self,
        retriever: Retriever,
        reranker: Reranker,
        *,
        k_in: int = 50,
        k_out: int = 8,
        tau: float = 0.32,
        limit_s: float = 3.0,
    ) -> None:
        """`retriever` is asked for `k_in` candidates, and at most `k_out` (or `top_k`, if that is less) are returned.
        Those with a score below `tau` are dropped, but for the best one. After `limit_s` seconds the reranker is not
        waited for, and the order before stands.

        Raises:
            InvalidArgument: names the argument that is out of bounds or of the wrong kind.
        """
        super().__init__(database_of(require_retriever(retriever, "retriever")))
        if not callable(getattr(reranker, "score", None)):
            raise InvalidArgument(f"reranker must be a reranker, got {type(reranker).__name__}", "reranker")
        self._retriever, self._reranker = retriever, reranker
        self._k_in = check_whole(k_in, "k_in", MAX_TOP_K)
        self._k_out = check_whole(k_out, "k_out", self._k_in)
        self._tau = check_share(tau, "tau")
        self._limit_s = check_seconds(limit_s, "limit_s")

    def steps(
        self, query: str, scope: RetrievalScope, top_k: int = 8, filters: Mapping[str, Any] | None = None
    ) -> Steps[Retrieval]:
        """See `Retriever.steps`."""
        query, top_k, filters = checked(query, scope, top_k, filters)
        found = yield from steps_of(self._retriever, query, scope, self._k_in, filters)
        if not len(found):
            return found
        started = time.perf_counter()
        scores = yield from self._judged(query, found.results, scope)
        judged = _judgement(found.results, scores, self._tau)
        took = 1000 * (time.perf_counter() - started)
        told = {"stage": "rerank", "model": self._reranker.name, "k_in": self._k_in, **judged.trace}
        return Retrieval(
            judged.results[: min(top_k, self._k_out)],
            {**found.timings_ms, "rerank": took, "total": found.timings_ms.get("total", 0.0) + took},
            joined(found.degraded, judged.degraded),
            found.usage,
            (*found.trace, told),
            found.rung,
        )

    def _judged(self, query: str, results: Sequence[RetrievalResult], scope: RetrievalScope) -> Steps[Outcome[Scores]]:
        texts = [passage_text(one) for one in results]
        caller = Caller(scope.tenant_id, scope.bot_id, wait_s=self._limit_s)
        one = self._reranker
        awaited = getattr(one, "ascore", None)
        work, later = lambda: one.score(query, texts, caller), awaited and (lambda: awaited(query, texts, caller))
        asking = call(work, later, "rerank", one.name)
        (outcome,) = yield from together(Branch(asking, self._limit_s))
        return outcome


@dataclass(frozen=True)
class _Judgement:
    results: tuple[RetrievalResult, ...]
    trace: Mapping[str, Any]
    degraded: str | None = None


def _judgement(results: tuple[RetrievalResult, ...], outcome: Outcome[Scores], tau: float) -> _Judgement:
    """The candidates in their new order; in the one before where the reranker did not say which is better."""
    try:
        scores = outcome.get()
        given, ignored = _given(scores, len(results))
    except RagError as error:
        return _unjudged(results, str(error))
    except Exception as error:  # a reranker of somebody else's may raise anything, and say anything in it
        _log.warning("a reranker failed: %s", type(error).__name__)  # its text may repeat the query
        return _unjudged(results, type(error).__name__)
    trace = {"candidates": len(results), "scored": len(given), "ignored": ignored, "tau": tau}
    if scores.usage is not None:
        trace |= {"tokens": scores.usage.tokens, "cost_usd": scores.usage.cost_usd}
    if not given:
        return _Judgement(results, trace, "not reranked (the reranker gave no score); the order before stands")
    order = sorted(given, key=lambda index: (-given[index], index))  # of equals the one that the search preferred
    kept = [index for place, index in enumerate(order) if place == 0 or given[index] >= tau]
    unscored = [index for index in range(len(results)) if index not in given]
    ranked = [replace(results[index], rerank_score=given[index]) for index in kept]
    trace |= {"best": given[order[0]], "dropped": len(order) - len(kept)}
    missing = f"the reranker gave no score for {len(unscored)} of {len(results)} candidates" if unscored else None
    return _Judgement((*ranked, *(results[index] for index in unscored)), trace, missing)


def _unjudged(results: tuple[RetrievalResult, ...], reason: str) -> _Judgement:
    told = f"not reranked ({reason}); the order before stands"
    return _Judgement(results, {"candidates": len(results), "error": reason}, told)


def _given(scores: Scores, count: int) -> tuple[dict[int, float], int]:
    """The score of each candidate that has one, and how many pairs said nothing: of no candidate, of one that has its
    score, or without a number.

    Raises:
        RagError: scores are beyond [0, 1].
    """
    given: dict[int, float] = {}
    ignored = 0  # numpy's numbers count as well: they are what sorting gives
    for index, score in scores.pairs:
        number = _number(score)
        place = int(index) if isinstance(index, Integral) and not isinstance(index, bool) else -1
        if not 0 <= place < count or place in given or number is None:
            ignored += 1
            continue
        if not -_ROUNDING <= number <= 1 + _ROUNDING:
            raise RagError(f"a score of {number:g} is not between 0 and 1")
        given[place] = min(1.0, max(0.0, number))
    return given, ignored


def _number(score: object) -> float | None:
    if isinstance(score, bool) or not isinstance(score, Real):
        return None
    try:
        number = float(score)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def passage_text(result: RetrievalResult) -> str:
    """What is judged: the content, and in front of it what the document is called and the headings above it."""
    headings = (result.citation.get(name) for name in ("title", "heading"))
    lines = [str(one) for one in headings if one and not result.content.startswith(str(one))]
    return "\n".join([*dict.fromkeys(lines), result.content])
