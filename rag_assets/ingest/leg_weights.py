"""How much each of two lists says about which candidate is right, from queries whose answer is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rag_assets.store.term_weights import Terms

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
    right = np.zeros_like(others)
    right[np.arange(len(own)), own] = True
    counted = others | right
    with_words = counted & (lexical > 0)
    listed = _best(dense, counted) | _best(lexical, with_words) | right
    above = np.where(listed, np.maximum(dense.astype(np.float64) - floor, 0), 0)
    words = np.where(listed, lexical.astype(np.float64), 0)
    shares = [scores / np.maximum(scores.max(axis=1, keepdims=True), 1e-9) for scores in (above, words)]
    # The right one first, and those that are not listed last.
    order = np.argsort(~listed * np.int8(2) - right, axis=1, kind="stable")[:, : listed.sum(axis=1).max(initial=1)]
    found = with_words.any(axis=1)
    padded = np.stack([np.take_along_axis(share, order, axis=1) for share in shares], axis=2)
    return Trials(padded[found], np.take_along_axis(listed, order, axis=1)[found])


def _best(scores: NDArray[np.float32], counted: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which of those that are counted are the best of each row."""
    if scores.shape[1] <= _DEPTH:
        return counted
    best = np.zeros_like(counted)
    worst_first = np.where(counted, -scores, np.inf)
    np.put_along_axis(best, np.argpartition(worst_first, _DEPTH - 1, axis=1)[:, :_DEPTH], True, axis=1)
    return best & counted


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
    weighted = chances[:, :, None] * found.shares
    means = weighted.sum(axis=1)
    spread = np.tensordot(weighted, found.shares, ((0, 1), (0, 1))) - means.T @ means
    gradient = (found.shares[:, 0] - means).sum(axis=0) - counts / _PRIOR**2
    return gradient, spread + np.eye(2) / _PRIOR**2


def nearest(default: float, estimates: Sequence[Estimate]) -> float:
    """The weight that is nearest to the default among those that no estimate is sure to be wrong: between the lowest
    and the highest of them, and a standard error beyond."""
    low = max(0.0, min(one.weight - one.error for one in estimates))
    high = min(1.0, max(one.weight + one.error for one in estimates))
    return round(min(max(default, low), high), 2)


def term_matrix(texts: Terms, terms: NDArray[np.int64]) -> NDArray[np.float32]:
    """What each of some terms, which are sorted, counts in each text (texts, terms)."""
    matrix = np.zeros((texts.texts, len(terms)), dtype=np.float32)
    places = np.searchsorted(terms, texts.numbers)
    known = np.flatnonzero(places < len(terms))
    known = known[terms[places[known]] == texts.numbers[known]]
    matrix[texts.owners[known], places[known]] = texts.weights[known]
    return matrix
