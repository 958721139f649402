"""Progress of long work, shown by whoever runs it: a bar in a terminal, log lines in a run, or nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from rag_assets.printing import duration, printable, rough_duration


class Reporter(Protocol):
    """Receives the steps of long work."""

    def begin(self, what: str, total: int | None) -> None:
        """A stage begins; `total` is None where it is not known."""
        ...

    def advance(self, amount: int) -> None:
        """So many more items are done."""
        ...

    def end(self) -> None:
        """The stage is over."""
        ...


class Silent:
    """Shows nothing."""

    def begin(self, what: str, total: int | None) -> None:
        """See `Reporter.begin`."""

    def advance(self, amount: int) -> None:
        """See `Reporter.advance`."""

    def end(self) -> None:
        """See `Reporter.end`."""


class Pace:
    """A stage as lines of text: how far it is now and then, and what it took at its end."""

    def __init__(self, what: str, total: int | None, every_s: float) -> None:
        self._what, self._total, self._every_s = printable(what), total, every_s
        self._began = self._told = time.monotonic()
        self._done = 0

    def advance(self, amount: int) -> str | None:
        """So many more items are done; a line where the last one is long ago."""
        self._done += amount
        now = time.monotonic()
        if now - self._told < self._every_s or self._done == self._total:
            return None
        self._told = now
        return f"{self._what}: {self._count()}{self._left(now - self._began)}"

    def end(self) -> str:
        """The line at its end."""
        return f"{self._what}: {self._count()} in {duration(time.monotonic() - self._began)}"

    def _count(self) -> str:
        return f"{self._done:,}" if self._total is None else f"{self._done:,} of {self._total:,}"

    def _left(self, seconds: float) -> str:
        if self._total is None:
            return ""
        return f", about {rough_duration(seconds * (self._total - self._done) / self._done)} left"


_current: ContextVar[Reporter] = ContextVar("progress", default=Silent())  # noqa: B039 - Silent has no state


def current() -> Reporter:
    """The reporter that shows stages now."""
    return _current.get()


@contextmanager
def reporting(reporter: Reporter) -> Iterator[None]:
    """Let `reporter` show the stages that run inside."""
    token = _current.set(reporter)
    try:
        yield
    finally:
        _current.reset(token)


class Stage:
    """How far one stage of long work is."""

    def __init__(self, reporter: Reporter, total: int | None) -> None:
        self._reporter, self._left = reporter, total

    def advance(self, amount: int) -> None:
        """So many more items are done; never more than there are."""
        if self._left is not None:
            amount = min(amount, self._left)
            self._left -= amount
        if amount:
            self._reporter.advance(amount)

    def advance_to_end(self) -> None:
        """All items are done: those that are left took no work."""
        self.advance(self._left or 0)


@contextmanager
def stage(what: str, total: int | None = None) -> Iterator[Stage]:
    """One stage of long work: `with stage("embed", 500) as bar: bar.advance(10)`. One that ends without an error is
    at its end."""
    reporter = _current.get()
    reporter.begin(what, total)
    try:
        bar = Stage(reporter, total)
        yield bar
        bar.advance_to_end()
    finally:
        reporter.end()
