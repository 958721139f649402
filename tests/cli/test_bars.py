"""What bars say in a terminal, and lines elsewhere."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console
from rich.progress import Progress

from rag_assets.commands.bars import Left, Lines
from rag_assets.printing import rough_duration
from rag_assets.progress import reporting, stage


def test_a_bar_says_how_long_its_stage_will_take_still_while_that_is_known() -> None:
    clock = [0.0]
    progress = Progress(Left(), console=Console(file=io.StringIO()), get_time=lambda: clock[0])
    task = progress.add_task("read b", total=1200)

    def said() -> str:
        return Left().render(progress.tasks[0]).plain

    assert said() == ""
    for second in range(1, 11):
        clock[0] = second
        progress.advance(task, 2)
    assert said() == "about 10 minutes left"
    progress.update(task, completed=1200)
    assert said() == ""


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.2, "a second"), (40.4, "40 s"), (180, "3 minutes"), (9000, "2.5 hours")]
)
def test_what_is_expected_is_not_told_to_the_second(seconds: float, said: str) -> None:
    assert rough_duration(seconds) == said


def test_of_long_work_a_log_says_each_half_minute_how_far_it_is_and_what_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    out = io.StringIO()
    with reporting(Lines(out)):
        with stage("embed acme", 12_000) as bar:
            for _ in range(12):
                clock[0] += 10
                bar.advance(1000)
        with stage("nothing", 0):
            pass
        with stage("wait") as bar:
            clock[0] += 40
            bar.advance(5)
    assert out.getvalue().splitlines() == [
        "embed acme: 3,000 of 12,000, about 90 s left",
        "embed acme: 6,000 of 12,000, about 60 s left",
        "embed acme: 9,000 of 12,000, about 30 s left",
        "embed acme: 12,000 of 12,000 in 120.0 s",
        "wait: 5",
        "wait: 5 in 40.0 s",
    ]
