"""One deadline over everything that a read from the network does: names, connections, headers and bodies."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from rag_assets.errors import RootUnreadable
from rag_assets.settings import load_settings

T = TypeVar("T")


@dataclass(frozen=True)
class Deadline:
    """When something has to be complete. `what` is being read, for `seconds`, as the variable `setting` says;
    `ends` is in the seconds of `time.monotonic`."""

    what: str
    seconds: float
    setting: str
    ends: float

    def left(self) -> float:
        """Return the seconds until then; raises RootUnreadable when there are none."""
        left = self.ends - time.monotonic()
        if left <= 0:
            raise self.passed()
        return left

    def passed(self) -> RootUnreadable:
        return RootUnreadable(f"{self.what}: not complete after {self.seconds:.0f} s ({self.setting})")

    def is_over(self) -> bool:
        return time.monotonic() >= self.ends


def reading(what: str, within_scan: Deadline | None = None) -> Deadline:
    """The deadline of one page or file that is read from now on; that of a whole scan may come first."""
    seconds = load_settings().fetch_seconds
    ends = time.monotonic() + seconds
    if within_scan is not None and within_scan.ends < ends:
        return Deadline(what, within_scan.seconds, within_scan.setting, within_scan.ends)
    return Deadline(what, seconds, "RAG_FETCH_SECONDS", ends)


def scanning(root: str) -> Deadline:
    """The deadline of a listing that begins now."""
    seconds = load_settings().scan_seconds
    return Deadline(root, seconds, "RAG_SCAN_SECONDS", time.monotonic() + seconds)


class _Call(Generic[T]):
    """A call in a thread of its own."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self._done = threading.Event()
        self._result: T | None = None
        self._error: BaseException | None = None
        threading.Thread(target=self._run, name="network", daemon=True).start()

    def _run(self) -> None:
        try:
            self._result = self._function()
        except BaseException as error:  # it is raised where somebody waits for it
            self._error = error
        self._done.set()

    def result(self, deadline: Deadline) -> T:
        if not self._done.wait(deadline.left()):
            raise deadline.passed()
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]


def within(deadline: Deadline, function: Callable[[], T]) -> T:
    """Return what a call returns that cannot be interrupted: a look-up of a name, a driver of an object store.

    Raises:
        RootUnreadable: it has not returned by the deadline. Its thread is left to end by itself.
    """
    return _Call(function).result(deadline)
