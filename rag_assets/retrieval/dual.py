"""Two indexes asked side by side, each with the model of its own profile."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args
from uuid import UUID

from rag_assets.errors import InvalidArgument, RagError, UnknownBot, shown
from rag_assets.keys import check_key
from rag_assets.retrieval.arguments import MAX_TOP_K, check_number, check_seconds, check_whole
from rag_assets.retrieval.fusion import fused_ranks
from rag_assets.retrieval.protocol import Retriever, SteppedRetriever, checked, database_of, require_retriever, steps_of
from rag_assets.retrieval.results import Retrieval, RetrievalResult, best_rung, joined
from rag_assets.retrieval.scope import RetrievalScope, with_profile
from rag_assets.retrieval.steps import Branch, Outcome, Steps, together
from rag_assets.retrieval.taken import beside

DualFusion = Literal["rrf", "fallback"]
SIDES = ("primary", "secondary")


class DualRetriever(SteppedRetriever):
    """Asks two retrievers at once. Each result says by `index` who found it: `primary`, `secondary` or `both`.

    Where one of them fails or is late, the other's answer stands, and `degraded` says so.
    """

    def __init__(
        self,
        primary: Retriever,
        secondary: Retriever,
        *,
        primary_profile: str | None = None,
        secondary_profile: str | None = None,
        fusion: DualFusion = "rrf",
        floor: float | None = None,
        candidates: int = 50,
        limit_s: float = 2.0,
    ) -> None:
        """`primary_profile` and `secondary_profile`: the profile of the scope's bot that each searches, None for the
        scope's own. `fusion`: `rrf` orders by reciprocal ranks in both; with `fallback` the secondary's results come
        first where the best similarity of the primary's is below `floor` (-1 to 1), and are left out where it is not.
        Each is asked for `candidates`, or `top_k` if that is more. Once one has answered, the other is waited for until
        `limit_s` seconds after the start.

        Raises:
            InvalidArgument: names the argument that is out of bounds or of the wrong kind.
        """
        super().__init__(database_of(require_retriever(primary, "primary"), require_retriever(secondary, "secondary")))
        if fusion not in get_args(DualFusion):
            raise InvalidArgument(
                f"fusion must be one of {', '.join(get_args(DualFusion))}, got {shown(fusion)}", "fusion"
            )
        if (floor is None) == (fusion == "fallback"):
            raise InvalidArgument("floor is given with fusion 'fallback', and only then", "floor")
        for name, profile in (("primary_profile", primary_profile), ("secondary_profile", secondary_profile)):
            if profile is not None:
                check_key(profile, name)
        if self.database is None and (primary_profile or secondary_profile):
            raise InvalidArgument("a profile is looked up in a database, which neither retriever has", "primary")
        self._parts = ((primary, primary_profile), (secondary, secondary_profile))
        self._fusion: DualFusion = fusion
        self._floor = None if floor is None else check_number(floor, "floor", -1, 1)
        self._candidates = check_whole(candidates, "candidates", MAX_TOP_K)
        self._limit_s = check_seconds(limit_s, "limit_s")

    def steps(
        self, query: str, scope: RetrievalScope, top_k: int = 8, filters: Mapping[str, Any] | None = None
    ) -> Steps[Retrieval]:
        """See `Retriever.steps`.

        Raises:
            RagError: both failed; it is the primary's error.
        """
        query, top_k, filters = checked(query, scope, top_k, filters)
        started = time.perf_counter()
        depth = max(self._candidates, top_k)
        branches = [Branch(_searching(*part, query, scope, depth, filters)) for part in self._parts]
        outcomes = yield from together(*branches, patience=self._patience)
        answers = _answers(outcomes)
        results, told = self._chosen(answers)
        wall = 1000 * (time.perf_counter() - started)
        took = beside(answers.values())
        needed = [side for side in SIDES if not (side == "secondary" and told.get("fell_back") is False)]
        return Retrieval(
            results[:top_k],
            {**took.timings_ms, "dual": wall, "total": wall},
            joined(*(_said(side, outcomes[SIDES.index(side)]) for side in needed)),
            took.usage,
            (*({**step, "index": side} for side, one in answers.items() for step in one.trace), told),
            best_rung(*(one.rung for one in answers.values())),
        )

    def _patience(self, ended: Mapping[int, Outcome[Retrieval]]) -> float | None:
        primary = ended.get(0)
        if primary is not None and primary.error is None and self._suffices(primary.get()):
            return 0
        return self._limit_s if any(outcome.error is None for outcome in ended.values()) else None

    def _suffices(self, primary: Retrieval) -> bool:
        best = _best(primary)
        return self._floor is not None and best is not None and best >= self._floor

    def _chosen(self, answers: Mapping[str, Retrieval]) -> tuple[tuple[RetrievalResult, ...], dict[str, Any]]:
        """The results of both, each text once, and what the trace says of them."""
        told: dict[str, Any] = {"stage": "dual", "fusion": self._fusion}
        told |= {side: len(answers[side]) if side in answers else None for side in SIDES}
        primary, secondary = (answers[side].results if side in answers else () for side in SIDES)
        if self._floor is None:
            return (_by_ranks if len(answers) == len(SIDES) else _in_turn)(primary, secondary), told
        suffices = "primary" in answers and self._suffices(answers["primary"])
        best = _best(answers["primary"]) if "primary" in answers else None
        told |= {"floor": self._floor, "best": best, "fell_back": not suffices}
        return (_in_turn(primary, ()) if suffices else _in_turn(primary, secondary, secondary_first=True)), told


def _searching(
    retriever: Retriever,
    profile: str | None,
    query: str,
    scope: RetrievalScope,
    top_k: int,
    filters: Mapping[str, Any],
) -> Steps[Retrieval]:
    own = yield from with_profile(scope, profile)
    return (yield from steps_of(retriever, query, own, top_k, filters))


def _answers(outcomes: Sequence[Outcome[Retrieval]]) -> dict[str, Retrieval]:
    """What each side found, without one that failed.

    Raises:
        Exception: both failed; or the request itself is wrong, and would be so for any index.
    """
    for outcome in outcomes:
        if isinstance(outcome.error, InvalidArgument | UnknownBot):
            raise outcome.error
    if all(outcome.error is not None for outcome in outcomes):
        outcomes[0].get()
    return {side: one.get() for side, one in zip(SIDES, outcomes, strict=True) if one.error is None}


def _said(side: str, outcome: Outcome[Retrieval]) -> str | None:
    """What an answer says in `degraded`, and of whom; or why there is none."""
    if outcome.error is None:
        degraded = outcome.get().degraded
        return f"{side}: {degraded}" if degraded else None
    reason = str(outcome.error) if isinstance(outcome.error, RagError) else type(outcome.error).__name__
    return f"the {side} index gave no answer ({reason})"


def _best(found: Retrieval) -> float | None:
    """The best similarity: of vectors where there are any, else of what was searched by."""
    return max((one.score if one.dense_score is None else one.dense_score for one in found), default=None)


Text = tuple[UUID, str]  # a text of a source: chunks of two profiles have ids of their own


def _by_text(results: Sequence[RetrievalResult]) -> dict[Text, RetrievalResult]:
    found: dict[Text, RetrievalResult] = {}
    for one in results:
        found.setdefault((one.source_id, one.content), one)
    return found


def _labelled(
    primary: Mapping[Text, RetrievalResult], secondary: Mapping[Text, RetrievalResult]
) -> dict[Text, RetrievalResult]:
    """Each text once; of one that both found the primary's result."""
    found = {text: replace(one, index="secondary") for text, one in secondary.items()}
    return found | {
        text: replace(one, index="both" if text in secondary else "primary") for text, one in primary.items()
    }


def _in_turn(
    primary: Sequence[RetrievalResult], secondary: Sequence[RetrievalResult], secondary_first: bool = False
) -> tuple[RetrievalResult, ...]:
    """All of one, then what only the other has; scores stay."""
    lists = [_by_text(primary), _by_text(secondary)]
    found = _labelled(*lists)
    order = lists[::-1] if secondary_first else lists
    return tuple(found[text] for text in dict.fromkeys([*order[0], *order[1]]))


def _by_ranks(primary: Sequence[RetrievalResult], secondary: Sequence[RetrievalResult]) -> tuple[RetrievalResult, ...]:
    lists = [_by_text(primary), _by_text(secondary)]
    found = _labelled(*lists)
    return tuple(replace(found[text], score=score) for text, score in fused_ranks([list(one) for one in lists]).items())
