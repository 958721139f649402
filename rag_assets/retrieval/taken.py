"""What several searches took together, by one rule: of what runs side by side the longest counts, what runs one after
another adds up. Texts, tokens and dollars add up in either case; `total` is wall time, which the caller measures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add

from rag_assets.embedding.protocol import Usage
from rag_assets.retrieval.results import Retrieval


@dataclass(frozen=True)
class Taken:
    """The time of each stage, in ms, and what embedding consumed."""

    timings_ms: Mapping[str, float] = field(default_factory=dict)
    usage: Usage | None = None


def beside(found: Iterable[Retrieval | None]) -> Taken:
    """What searches took that ran side by side; None stands for one that gave no answer."""
    given = [one for one in found if one is not None]
    return Taken(
        {
            name: max((one.timings_ms.get(name, 0.0) for one in given), default=0.0)
            for name in _stages(one.timings_ms for one in given)
        },
        _joint([one.usage for one in given], side_by_side=True),
    )


def in_turn(parts: Iterable[Taken]) -> Taken:
    """What parts took that ran one after another."""
    given = list(parts)
    stages = _stages(one.timings_ms for one in given)
    return Taken(
        {name: sum(one.timings_ms.get(name, 0.0) for one in given) for name in stages},
        usage_in_turn(one.usage for one in given),
    )


def usage_in_turn(usages: Iterable[Usage | None]) -> Usage | None:
    """What embeddings consumed, one after another, on behalf of one caller; None where there was none."""
    return _joint(usages, side_by_side=False)


def _stages(timings: Iterable[Mapping[str, float]]) -> list[str]:
    return list(dict.fromkeys(["embed", "search", *(name for one in timings for name in one)]))


def _joint(usages: Iterable[Usage | None], *, side_by_side: bool) -> Usage | None:
    given = [usage for usage in usages if usage is not None]
    if not given:
        return None
    return replace(
        given[0],
        items=sum(usage.items for usage in given),
        tokens=sum(usage.tokens for usage in given),
        cost_usd=sum(usage.cost_usd for usage in given),
        seconds=reduce(max if side_by_side else add, (usage.seconds for usage in given)),
    )
