"""Progress on stderr: bars in a terminal, lines elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from rag_assets.commands.shell import printable, resumable
from rag_assets.printing import duration, rough_duration
from rag_assets.progress import Reporter, Silent, reporting


class Lines:
    """One line for each stage that had something to do, when it is over."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._stages: list[tuple[str, int | None, float]] = []
        self._done: list[int] = []

    def begin(self, what: str, total: int | None) -> None:
        self._stages.append((what, total, time.perf_counter()))
        self._done.append(0)

    def advance(self, amount: int) -> None:
        self._done[-1] += amount

    def end(self) -> None:
        (what, total, started), done = self._stages.pop(), self._done.pop()
        if total != 0:
            count = f"{done} of {total}" if total is not None else str(done)
            self._out.write(f"{printable(what)}: {count} in {duration(time.perf_counter() - started)}\n")
            self._out.flush()


class Bars:
    """One bar a stage; a stage with nothing to do leaves none."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._tasks: list[int | None] = []

    def begin(self, what: str, total: int | None) -> None:
        self._tasks.append(None if total == 0 else self._progress.add_task(printable(what), total=total))

    def advance(self, amount: int) -> None:
        task = self._tasks[-1]
        if task is not None:
            self._progress.advance(task, amount)  # type: ignore[arg-type]

    def end(self) -> None:
        task = self._tasks.pop()
        if task is not None:
            self._progress.stop_task(task)  # type: ignore[arg-type]


class Left(ProgressColumn):
    """How long a stage will take still, at the speed of its last half minute; nothing before that is known, nor
    afterwards."""

    max_refresh = 0.5  # seconds; it need not flicker

    def render(self, task: Task) -> Text:
        left = None if task.finished else task.time_remaining
        return Text("" if left is None else f"about {rough_duration(left)} left", style="progress.remaining")


@contextmanager
def shown(silent: bool = False, kept: str = "what was read is kept") -> Iterator[None]:
    """Show on stderr the progress of what runs inside, and after an interrupt what is `kept` of it."""
    with resumable(kept), _progress(silent):
        yield


@contextmanager
def _progress(silent: bool) -> Iterator[None]:
    if silent:
        with reporting(Silent()):
            yield
        return
    with _own_stderr() as out:
        if not out.isatty():
            with reporting(Lines(out)):
                yield
            return
        columns = (
            TextColumn("{task.description:<22}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            Left(),
        )  # fmt: skip
        with Progress(*columns, console=Console(file=out)) as progress:
            reporter: Reporter = Bars(progress)
            with reporting(reporter):
                yield


@contextmanager
def _own_stderr() -> Iterator[TextIO]:
    """A stderr of our own: Dagster points descriptor 2 at a log file while a step runs."""
    try:
        descriptor = os.dup(sys.stderr.fileno())
    except (OSError, ValueError):  # stderr is no file, as under a test runner
        yield sys.stderr
        return
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as out:
        yield out
