"""Reciprocal rank fusion: several ranked lists become one, by places and not by scores, which mean different things."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar
from uuid import UUID

from rag_assets.retrieval.results import RetrievalResult

RRF_K = 60  # of the paper that proposed it; the first places of a list differ little
# Of lists that answer different queries. With 60, what two of them have in passing, at their 30th places, stands before
# what one alone has at its first; and that is what the other query was asked for.
QUERIES_K = 2
_Key = TypeVar("_Key", bound=Hashable)


def fused_ranks(
    lists: Sequence[Sequence[_Key]], weights: Sequence[float] | None = None, k: int = RRF_K
) -> Mapping[_Key, float]:
    """What the lists hold, best first, each with its score in (0, 1]: the weighted mean of (k + 1) / (k + rank), 0 for
    a list that lacks it.

    What a list holds twice counts once, at its better place. Of equals the one that was higher in any list comes first,
    then the one of an earlier list. `weights` are above 0, one for each list; None: all alike.
    """
    given = weights if weights is not None else [1.0] * len(lists)
    total = sum(given)
    scores: dict[_Key, float] = {}
    best: dict[_Key, int] = {}
    for keys, weight in zip(lists, given, strict=True):
        for rank, key in enumerate(dict.fromkeys(keys), start=1):
            scores[key] = scores.get(key, 0.0) + weight / total * (k + 1) / (k + rank)
            best[key] = min(best.get(key, rank), rank)
    # Rounded: the same shares, added in another order, must not decide between equals.
    return {key: scores[key] for key in sorted(scores, key=lambda key: (-round(scores[key], 12), best[key]))}


def fused(
    lists: Sequence[Sequence[RetrievalResult]], weights: Sequence[float] | None = None
) -> tuple[RetrievalResult, ...]:
    """What several queries found as one list by `fused_ranks`, each chunk once: as the search gave it that scored it
    highest. Scores stay those of a search, so that a low one still means that nothing fits."""
    found: dict[UUID, RetrievalResult] = {}
    for results in lists:
        for one in results:
            if one.chunk_id not in found or one.score > found[one.chunk_id].score:
                found[one.chunk_id] = one
    ids = [[one.chunk_id for one in results] for results in lists]
    return tuple(found[key] for key in fused_ranks(ids, weights, QUERIES_K))
