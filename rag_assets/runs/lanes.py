"""Lanes: how many runs of a kind go on at once, so that those that are slow or wait take no place of the others.

`dagster.yaml` has the number of places of each lane; a run says by a tag which one it is in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

LANE_TAG = "rag/lane"
# quick: little to do, all of it on this machine. bulk: much to do. outside: waits for servers of others.
# retry: has failed before. evals: measures.
Lane = Literal["quick", "bulk", "outside", "retry", "evals"]
AFTER_TAG = "rag/after"  # runs with one value wait for each other
_HOUR_S = 3600
# Seconds after which a run is ended: its place must not be lost for ever to one that hangs. What it did is kept.
_LONGEST_S: dict[Lane, int] = {
    "quick": _HOUR_S,
    "outside": _HOUR_S,
    "retry": _HOUR_S,
    "evals": 6 * _HOUR_S,
    "bulk": 24 * _HOUR_S,
}
_STANDS_BACK = frozenset({"bulk", "evals"})
_NICENESS = 10


def niceness(tags: Mapping[str, str]) -> int:
    """How much a run stands back when processors are scarce, as `os.nice` takes it."""
    return _NICENESS if tags.get(LANE_TAG) in _STANDS_BACK else 0


def longest_s(lane: Lane) -> int:
    """Seconds that a run of the lane may take."""
    return _LONGEST_S[lane]
