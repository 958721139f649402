"""Looks at tenants that are bounded in time, whatever is wrong with a tenant's disk or the size of its folders.

A look happens in a thread. A sensor waits for it a moment; what takes longer goes on beside the ticks and is collected
by a later one. A look that hangs, as on a mount whose server is gone, is begun once and holds up nobody else.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Lock, Thread

from rag_assets.automation.work import Look

_NO_REST_BELOW_S = 0.5
_LONGEST_REST_S = 60.0  # a mount that hung for an hour is not forgotten for nine


@dataclass
class _State:
    began: float
    outcome: Future[Look] | None
    next: float = 0.0  # when the tenant may be looked at again


class Looks:
    """The looks of this process, by database and tenant. Times are those of `time.monotonic`.

    `rest`: how many times as long as a look took no other one begins, for at most a minute; by default, a tenant whose
    looks take no longer than some seconds is looked at for at most a tenth of the time.
    """

    def __init__(self, rest: float = 9.0) -> None:
        self._rest = rest
        self._states: dict[tuple[str, str], _State] = {}
        self._lock = Lock()

    def look(self, database: str, tenant: str, work: Callable[[], Look], wait_s: float) -> Look | None:
        """What a look at the tenant found, if one ends within `wait_s` seconds; None where it goes on, or where the
        last one took so long that it is too early for another. Raises what the look raised."""
        key = (database, tenant)
        with self._lock:
            state = self._states.get(key)
            if state is None or state.outcome is None:
                if state is not None and time.monotonic() < state.next:
                    return None
                state = self._states[key] = self._begin(work, tenant)
        outcome = state.outcome
        assert outcome is not None
        try:
            return outcome.result(timeout=max(0.0, wait_s))
        except TimeoutError:
            if not outcome.done():
                return None
            raise  # the look's own
        finally:
            if outcome.done():
                state.outcome = None

    def going_on(self, database: str, tenant: str) -> float | None:
        """For how many seconds a look at the tenant has been going on; None if none is."""
        state = self._states.get((database, tenant))
        return time.monotonic() - state.began if state is not None and state.outcome is not None else None

    def _begin(self, work: Callable[[], Look], tenant: str) -> _State:
        outcome: Future[Look] = Future()
        state = _State(time.monotonic(), outcome)

        def rest() -> None:
            # Of what the look took, and not of how long nobody came for it.
            ended = time.monotonic()
            took = ended - state.began
            state.next = ended + (min(self._rest * took, _LONGEST_REST_S) if took > _NO_REST_BELOW_S else 0.0)

        def run() -> None:
            try:
                found = work()
            except BaseException as error:  # it is raised where the look is collected
                rest()
                outcome.set_exception(error)
            else:
                rest()
                outcome.set_result(found)

        # A daemon: one that hangs does not keep the process from ending.
        Thread(target=run, name=f"look at {tenant}", daemon=True).start()
        return state
