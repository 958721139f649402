"""What a bot knows and what all bots of its tenant share, in one answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain, zip_longest

from rag_assets.errors import UsageError
from rag_assets.retrieval.results import Retrieval, RetrievalResult, best_rung, joined
from rag_assets.retrieval.scope import RetrievalScope
from rag_assets.retrieval.steps import Branch, Outcome, Steps, together
from rag_assets.retrieval.taken import beside


def in_each_space(
    scope: RetrievalScope,
    search: Callable[[RetrievalScope], Steps[Retrieval]],
    top_k: int,
    *,
    by_words: bool = False,
    copies: bool = False,
) -> Steps[Retrieval]:
    """What `search` finds in the scope's own space and, side by side, in what all bots share, if they do, as one
    answer of at most `top_k`. `by_words`: no model has made the scores.

    Raises:
        RagError: the bot's own space could not be searched. Where only the other one could not, `degraded` says so.
    """
    if scope.shared is None:
        return (yield from search(scope))
    own, shared = yield from together(Branch(search(scope)), Branch(search(scope.shared)))
    one_model = by_words or scope.profile.model_key == scope.shared.profile.model_key
    return merged(own, shared, scope, top_k, by_score=one_model, copies=copies)


def merged(
    own: Outcome[Retrieval],
    shared: Outcome[Retrieval],
    scope: RetrievalScope,
    top_k: int,
    *,
    by_score: bool,
    copies: bool,
) -> Retrieval:
    """The best of both, at most `top_k`. Scores of one model order them; where two models made them they cannot be
    compared, and the spaces take turns. A text that both have is the bot's own, unless `copies` are wanted.

    Raises:
        RagError: the bot's own space could not be searched. Where only the other one could not, `degraded` says so.
    """
    first = own.get()
    if isinstance(shared.error, UsageError):  # a mistake of the program, not a fault that passes
        raise shared.error
    if shared.error is not None:
        said = f"what all bots of {scope.tenant_id!r} share could not be searched ({shared.error})"
        return replace(first, degraded=joined(first.degraded, said))
    second = shared.get()
    both = [*first, *second] if by_score else _in_turns(first, second)
    if by_score:
        both.sort(key=lambda one: -one.score)  # stable: of equals the bot's own comes first
    if not copies:
        both = _once(both, {one.content for one in first})
    took = beside((first, second))
    return Retrieval(
        tuple(both[:top_k]),
        took.timings_ms,
        first.degraded or second.degraded,
        took.usage,
        (*first.trace, *(step for step in second.trace if step not in first.trace)),
        rung=best_rung(first.rung, second.rung),
    )


def _in_turns(first: Sequence[RetrievalResult], second: Sequence[RetrievalResult]) -> list[RetrievalResult]:
    return [one for one in chain.from_iterable(zip_longest(first, second)) if one is not None]


def _once(results: Sequence[RetrievalResult], owned: set[str]) -> list[RetrievalResult]:
    return [one for one in results if one.space != "tenant" or one.content not in owned]
