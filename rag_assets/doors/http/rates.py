"""How often somebody may do something: buckets that fill by the clock, one for each of many."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

_MOST = 10_000  # buckets; the one that was not used for longest is forgotten, which fills it


class Buckets:
    """For each key a bucket of `burst` that fills at `rate` a second. For the tasks of one event loop."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()  # what is in it, and when that was

    def wait_s(self, key: Hashable) -> float:
        """Seconds until there is one to take; 0 if there is one now."""
        return max(0.0, (1 - self._left(key)) / self._rate)

    def take(self, key: Hashable) -> float:
        """Take one, and return 0; or else the seconds until there is one."""
        left = self._left(key)
        if left < 1:
            return (1 - left) / self._rate
        self._buckets[key] = (left - 1, self._clock())
        self._buckets.move_to_end(key)
        if len(self._buckets) > _MOST:
            self._buckets.popitem(last=False)
        return 0.0

    def _left(self, key: Hashable) -> float:
        left, since = self._buckets.get(key, (self._burst, self._clock()))
        return min(self._burst, left + (self._clock() - since) * self._rate)
