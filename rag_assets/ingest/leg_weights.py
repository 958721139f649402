"""How much each of two lists says about which candidate is right, from queries whose answer is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_DEPTH = 100  # of each list, as hybrid search fuses
_PRIOR = 30.0  # the most that a leg is believed to count; without it, queries that are all answered have no end
_STEPS = 100
_CONVERGED = 1e-6


@dataclass(frozen=True)
class Trials:
    """`shares` (n, m, 2) of n queries' m candidates, dense and lexical, each as fusion has it, in [0, 1]; the right
    candidate comes first. `listed` (n, m) says which of them there are."""

    shares: Floats
    listed: NDArray[np.bool_]

    def ndcg(self, weight: float) -> float:
        """nDCG@10 of the right candidates where meaning has this weight."""
        fused = self.shares @ np.array([weight, 1 - weight])
        above = ((fused > fused[:, :1] + 1e-9) & self.listed).sum(axis=1)
        return float(np.where(above < 10, 1 / np.log2(above + 2), 0).mean())


@dataclass(frozen=True)
class Estimate:
    """The best weight of meaning, from 0 to 1, and its standard error."""

    weight: float
    error: float


def trials(
    dense: NDArray[np.float32],
    lexical: NDArray[np.float32],
    own: Sequence[int],
    others: NDArray[np.bool_],
    floor: float,
) -> Trials:
    """What fusion makes of the scores (n, passages) of n queries: of each, the best of both lists, stretched.

    `own` is the right passage of each, a candidate wherever it stands: left out where neither list has it, a list would
    count for what it found by chance. `others` (n, passages) says which passages count beside it. A query of which no
    passage has a word says nothing about how to fuse and is left out.
    """
    found = [
        shares
        for row, right in enumerate(own)
        if (shares := _shares(dense[row], lexical[row], right, others[row], floor)) is not None
    ]
    listed = np.zeros((len(found), max(map(len, found), default=1)), dtype=bool)
    padded = np.zeros((*listed.shape, 2))
    for row, shares in enumerate(found):
        listed[row, : len(shares)] = True
        padded[row, : len(shares)] = shares
    return Trials(padded, listed)


def _shares(
    dense: NDArray[np.float32], lexical: NDArray[np.float32], own: int, others: NDArray[np.bool_], floor: float
) -> Floats | None:
    counts = others.copy()
    counts[own] = True
    places = np.flatnonzero(counts)
    with_words = places[lexical[places] > 0]
    listed = np.union1d(_best(dense, places), _best(lexical, with_words))
    if not len(with_words):
        return None
    listed = np.concatenate([[own], listed[listed != own]])
    above = np.maximum(dense[listed].astype(np.float64) - floor, 0)
    words = lexical[listed].astype(np.float64)
    return np.stack([above / max(above.max(), 1e-9), words / words.max()], axis=1)


def _best(scores: NDArray[np.float32], places: NDArray[np.intp]) -> NDArray[np.intp]:
    if len(places) <= _DEPTH:
        return places
    return places[np.argpartition(-scores[places], _DEPTH - 1)[:_DEPTH]]


def estimate(found: Trials) -> Estimate:
    """The weight that makes the right candidates the most likely ones.

    A conditional logit: the odds of a candidate are exp(a * dense + b * lexical) with a, b >= 0, fitted by maximum
    likelihood (McFadden, "Conditional logit analysis of qualitative choice behavior", 1974); the weight is a / (a + b).
    The error is infinite where neither list says anything.
    """
    counts = _fitted(found, (0, 1))
    if counts.min() < 0:
        counts = _fitted(found, (int(counts.argmax()),))
    total = max(float(counts.sum()), 0.0)
    if total < _CONVERGED:
        return Estimate(0.5, float("inf"))
    counts = np.maximum(counts, 0)
    slope = np.array([counts[1], -counts[0]]) / total**2
    covariance = np.linalg.inv(_derivatives(found, counts)[1])
    return Estimate(float(counts[0] / total), float(np.sqrt(slope @ covariance @ slope)))


def _fitted(found: Trials, legs: tuple[int, ...]) -> Floats:
    """What each leg counts (2,); those not in `legs` count 0. Newton's method, on a concave likelihood."""
    counts = np.zeros(2)
    chosen = np.array(legs)
    for _ in range(_STEPS):
        slope, curvature = _derivatives(found, counts)
        step = np.linalg.solve(curvature[np.ix_(chosen, chosen)], slope[chosen])
        # Far from the maximum the curvature is no guide; 5 is as far as a share of 1 can matter at a time.
        step *= min(1.0, 5.0 / max(float(np.abs(step).max()), 1e-12))
        counts[chosen] += step
        if float(np.abs(step).max()) < _CONVERGED:
            break
    return counts


def _derivatives(found: Trials, counts: Floats) -> tuple[Floats, Floats]:
    """Of the log-likelihood: its gradient (2,), and its curvature (2, 2) with the sign turned."""
    odds = np.where(found.listed, found.shares @ counts, -np.inf)
    odds = np.exp(odds - odds.max(axis=1, keepdims=True))
    chances = odds / odds.sum(axis=1, keepdims=True)
    means = np.einsum("nm,nmk->nk", chances, found.shares)
    spread = np.einsum("nm,nmk,nml->kl", chances, found.shares, found.shares) - means.T @ means
    gradient = (found.shares[:, 0] - means).sum(axis=0) - counts / _PRIOR**2
    return gradient, spread + np.eye(2) / _PRIOR**2


def nearest(default: float, estimates: Sequence[Estimate]) -> float:
    """The weight that is nearest to the default among those that no estimate is sure to be wrong: between the lowest
    and the highest of them, and a standard error beyond."""
    low = max(0.0, min(one.weight - one.error for one in estimates))
    high = min(1.0, max(one.weight + one.error for one in estimates))
    return round(min(max(default, low), high), 2)


def term_scores(queries: Sequence[Mapping[int, float]], passages: Sequence[Mapping[int, float]]) -> NDArray[np.float32]:
    """The inner product of each query's terms with each passage's (queries, passages)."""
    columns = {term: column for column, term in enumerate(dict.fromkeys(term for terms in queries for term in terms))}
    return _matrix(queries, columns) @ _matrix(passages, columns).T


def _matrix(texts: Sequence[Mapping[int, float]], columns: Mapping[int, int]) -> NDArray[np.float32]:
    matrix = np.zeros((len(texts), len(columns)), dtype=np.float32)
    for row, terms in enumerate(texts):
        wanted = [term for term in terms if term in columns]
        matrix[row, [columns[term] for term in wanted]] = [terms[term] for term in wanted]
    return matrix
