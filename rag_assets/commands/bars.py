"""Progress on stderr: bars in a terminal, lines elsewhere."""

from __future__ import annotations

import os
import sys
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
from rag_assets.printing import rough_duration
from rag_assets.progress import Pace, Reporter, Silent, reporting

_LINE_EVERY_S = 30.0


class Lines:
    """A line each half minute for a stage that takes longer, and one when it is over, if it had something to do."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._stages: list[Pace | None] = []

    def begin(self, what: str, total: int | None) -> None:
        self._stages.append(None if total == 0 else Pace(what, total, _LINE_EVERY_S))

    def advance(self, amount: int) -> None:
        pace = self._stages[-1]
        if pace is not None and (line := pace.advance(amount)):
            self._write(line)

    def end(self) -> None:
        pace = self._stages.pop()
        if pace is not None:
            self._write(pace.end())

    def _write(self, line: str) -> None:
        self._out.write(f"{line}\n")
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
