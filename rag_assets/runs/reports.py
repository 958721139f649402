"""What the steps of a run did, handed as objects to whoever executes the run in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

Report = TypeVar("Report")


class Reports:
    """What was handed over: the newest report of each kind, and `seconds` of work."""

    def __init__(self) -> None:
        self._found: dict[type, object] = {}
        self.seconds = 0.0

    def add(self, report: object) -> None:
        """Keep a report under its own type."""
        self._found[type(report)] = report

    def of(self, kind: type[Report]) -> Report:
        """The report of that type.

        Raises:
            LookupError: no step handed one over.
        """
        found = self._found.get(kind)
        if not isinstance(found, kind):
            raise LookupError(f"no step of the run has handed over a {kind.__name__}")
        return found


# Of a context, so that runs in other threads keep their own; None where nobody waits, as under the daemon.
_current: ContextVar[Reports | None] = ContextVar("reports", default=None)


@contextmanager
def collecting() -> Iterator[Reports]:
    """Receive what the runs that are executed inside hand over."""
    reports = Reports()
    token = _current.set(reports)
    try:
        yield reports
    finally:
        _current.reset(token)


def hand_over(report: object) -> None:
    """Give a report to whoever collects."""
    reports = _current.get()
    if reports is not None:
        reports.add(report)


def add_seconds(seconds: float) -> None:
    """Count in the time of a part of the work."""
    reports = _current.get()
    if reports is not None:
        reports.seconds += seconds
