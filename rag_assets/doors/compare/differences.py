"""What two answers have in common, and in what they differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rag_assets.doors.compare.sides import SideAnswer
from rag_assets.retrieval import RetrievalResult

Change = Literal["same", "up", "down", "other passage", "only here"]


@dataclass(frozen=True)
class Placed:
    """A result at its place. `other` is the place of the same passage on the other side; where that has only another
    passage of the same source, `change` says so, and `other` is the place of the first of those."""

    place: int
    result: RetrievalResult
    change: Change
    other: int | None


def placed(mine: Sequence[RetrievalResult], others: Sequence[RetrievalResult]) -> list[Placed]:
    """The results of one side, each with what the other side has of it.

    Profiles cut texts differently, so passages are told by where they lie: the same chunk, or spans of one source
    that overlap. Each result of the other side is the counterpart of one.
    """
    partners = dict(_partners(mine, others))
    return [_placed(place, result, partners.get(place), others) for place, result in enumerate(mine, start=1)]


def _placed(place: int, result: RetrievalResult, partner: int | None, others: Sequence[RetrievalResult]) -> Placed:
    if partner is not None:
        return Placed(place, result, _moved(place, partner), partner)
    of_source = (number for number, one in enumerate(others, start=1) if one.source_id == result.source_id)
    other = next(of_source, None)
    return Placed(place, result, "only here" if other is None else "other passage", other)


def _moved(place: int, other: int) -> Change:
    return "same" if place == other else "up" if place < other else "down"


def _partners(mine: Sequence[RetrievalResult], others: Sequence[RetrievalResult]) -> Iterator[tuple[int, int]]:
    """Places of the same passage: first of the same chunks, then of overlapping spans, the best pairs first."""
    free_mine, free = dict(enumerate(mine, start=1)), dict(enumerate(others, start=1))
    overlaps = [
        (_overlap(one, other), place, there)
        for place, one in free_mine.items()
        for there, other in free.items()
        if _overlap(one, other) > 0
    ]
    for _, place, there in sorted(overlaps, key=lambda pair: (-pair[0], pair[1], pair[2])):
        if place in free_mine and there in free:
            del free_mine[place], free[there]
            yield place, there


def _overlap(one: RetrievalResult, other: RetrievalResult) -> float:
    """Code points that both have, as a share of what either has; 1 for one chunk, 0 for nothing in common."""
    if one.chunk_id == other.chunk_id:
        return 1.0
    if one.source_id != other.source_id:
        return 0.0
    if "start" not in one.citation or "start" not in other.citation:
        return 1.0 if one.content == other.content else 0.0
    starts = (int(one.citation["start"]), int(other.citation["start"]))
    ends = (int(one.citation["end"]), int(other.citation["end"]))
    return max(0.0, (min(ends) - max(starts)) / max(1, max(ends) - min(starts)))


def told(answer: SideAnswer, other: SideAnswer) -> dict[str, Any]:
    """One side, JSON-ready."""
    found = answer.found
    return {
        "side": answer.side.word,
        "profile": answer.profile,
        "mode": None if answer.side.file else answer.side.mode,
        "retriever": answer.side.file.name if answer.side.file else None,
        "rung": found.rung,
        "degraded": found.degraded,
        "timings_ms": {stage: round(ms, 3) for stage, ms in found.timings_ms.items()},
        "trace": [dict(step) for step in found.trace],
        "results": [
            {
                **one.result.to_dict(),
                "place": one.place,
                "change": one.change,
                "other_place": one.other,
                "places": answer.places(one.result.chunk_id),
            }
            for one in placed(found.results, other.found.results)
        ],
    }
