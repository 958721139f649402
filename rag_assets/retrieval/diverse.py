"""Results that do not repeat each other: a few of each source, near-identical ones once, something else before more of
the same."""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any
from uuid import UUID

from rag_assets.documents.page_signature import shingles_of
from rag_assets.errors import InvalidArgument
from rag_assets.retrieval.arguments import MAX_TOP_K, check_number, check_share, check_whole
from rag_assets.retrieval.protocol import Retriever, SteppedRetriever, checked, database_of, require_retriever, steps_of
from rag_assets.retrieval.results import Retrieval, RetrievalResult
from rag_assets.retrieval.scope import RetrievalScope
from rag_assets.retrieval.steps import Steps
from rag_assets.terms import prepare


class DiverseRetriever(SteppedRetriever):
    """Asks another retriever for more than is wanted, and chooses among its results, which stay as they were."""

    def __init__(
        self,
        retriever: Retriever,
        *,
        per_source: int | None = None,
        near_identical: float | None = 0.8,
        mmr_lambda: float | None = None,
        k_in: int = 50,
    ) -> None:
        """`retriever` is asked for `k_in` results, or `top_k` if that is more.

        `per_source`: at most so many of a source. `near_identical`: of passages that share so much of their runs of 5
        words (Jaccard, above 0 to 1) only the first is kept. `mmr_lambda`: maximal marginal relevance (Carbonell and
        Goldstein, 1998), from 1 (relevance alone) to 0 (difference alone); how alike two passages are is the cosine of
        their words, rare ones counting more. None leaves a part out.

        Raises:
            InvalidArgument: names the argument that is out of bounds or of the wrong kind.
        """
        super().__init__(database_of(require_retriever(retriever, "retriever")))
        self._retriever = retriever
        self._per_source = None if per_source is None else check_whole(per_source, "per_source", MAX_TOP_K)
        self._near = None if near_identical is None else check_number(near_identical, "near_identical", 0, 1)
        if self._near == 0:
            raise InvalidArgument(
                "near_identical must be above 0: at 0 all passages would be the same", "near_identical"
            )
        self._lambda = None if mmr_lambda is None else check_share(mmr_lambda, "mmr_lambda")
        self._k_in = check_whole(k_in, "k_in", MAX_TOP_K)

    def steps(
        self, query: str, scope: RetrievalScope, top_k: int = 8, filters: Mapping[str, Any] | None = None
    ) -> Steps[Retrieval]:
        """See `Retriever.steps`."""
        query, top_k, filters = checked(query, scope, top_k, filters)
        found = yield from steps_of(self._retriever, query, scope, max(self._k_in, top_k), filters)
        started = time.perf_counter()
        words = [prepare(one.content, scope.profile.terms).lower().split() for one in found]
        unlike = _unlike(words, self._near)
        chosen, left_out = self._chosen(found.results, words, unlike, top_k)
        took = 1000 * (time.perf_counter() - started)
        told = {
            "stage": "diverse",
            "candidates": len(found),
            "near_identical": len(found) - len(unlike),
            "of_full_sources": left_out,
            "mmr_lambda": self._lambda,
        }
        return replace(
            found,
            results=chosen,
            timings_ms={
                **found.timings_ms, "diverse": took, "total": found.timings_ms.get("total", 0.0) + took
            },
            trace=(*found.trace, told),
        )  # fmt: skip

    def _chosen(
        self, results: Sequence[RetrievalResult], words: Sequence[Sequence[str]], unlike: Sequence[int], top_k: int
    ) -> tuple[tuple[RetrievalResult, ...], int]:
        """At most `top_k` of the candidates, and how many were passed over because their source had its share."""
        relevance = _relevance([results[index] for index in unlike])
        alike = _Likeness([words[index] for index in unlike]) if self._lambda is not None else None
        waiting = list(range(len(unlike)))
        nearest = [0.0] * len(unlike)  # how alike each is to what was chosen
        of_source: Counter[UUID] = Counter()
        chosen: list[int] = []
        left_out = 0
        while waiting and len(chosen) < top_k:
            trust = self._lambda if self._lambda is not None else 1.0
            best = max(waiting, key=lambda index: (trust * relevance[index] - (1 - trust) * nearest[index], -index))
            waiting.remove(best)
            source = results[unlike[best]].source_id
            if self._per_source is not None and of_source[source] >= self._per_source:
                left_out += 1
                continue
            of_source[source] += 1
            chosen.append(best)
            for index, likeness in alike.to(best).items() if alike is not None else ():
                nearest[index] = max(nearest[index], likeness)
        return tuple(results[unlike[index]] for index in chosen), left_out


def _unlike(words: Sequence[Sequence[str]], near: float | None) -> list[int]:
    """The indices of those that are not near-identical to one before."""
    if near is None:
        return list(range(len(words)))
    kept: list[int] = []
    sizes: list[int] = []
    holders: defaultdict[int, list[int]] = defaultdict(list)  # of a shingle, by their place in `kept`
    for index, text in enumerate(words):
        shingles = shingles_of(text).tolist()
        shared = Counter(holder for shingle in shingles for holder in holders[shingle])
        if any(count / (len(shingles) + sizes[holder] - count) >= near for holder, count in shared.items()):
            continue
        for shingle in shingles:
            holders[shingle].append(len(kept))
        kept.append(index)
        sizes.append(len(shingles))
    return kept


def _relevance(results: Sequence[RetrievalResult]) -> list[float]:
    """How relevant each is among these, 1 the first and 0 the last: by the scores that they were ordered by, and by
    their places where that is no score of theirs."""
    scores = [one.score if one.rerank_score is None else one.rerank_score for one in results]
    if any(later > earlier for earlier, later in pairwise(scores)):
        scores = [-float(place) for place in range(len(results))]
    least, most = min(scores, default=0.0), max(scores, default=0.0)
    return [(score - least) / (most - least) if most > least else 1.0 for score in scores]


class _Likeness:
    """Cosines of texts by their words, each weighed by how few of the texts hold it."""

    def __init__(self, words: Sequence[Sequence[str]]) -> None:
        counts = [Counter(text) for text in words]
        holders = Counter(word for text in counts for word in text)
        self._holders: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
        self._vectors: list[dict[str, float]] = []
        for index, text in enumerate(counts):
            raw = {w: (1 + math.log(n)) * math.log(1 + len(words) / holders[w]) for w, n in text.items()}
            length = math.sqrt(sum(weight**2 for weight in raw.values()))
            self._vectors.append({word: weight / length for word, weight in raw.items()})
            for word, weight in self._vectors[-1].items():
                self._holders[word].append((index, weight))

    def to(self, index: int) -> dict[int, float]:
        """The cosine of one text to each that shares a word with it."""
        found: defaultdict[int, float] = defaultdict(float)
        for word, weight in self._vectors[index].items():
            for other, its in self._holders[word]:
                found[other] += weight * its
        return found
