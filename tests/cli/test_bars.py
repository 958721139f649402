"""What a bar says in a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.progress import Progress

from rag_assets.commands.bars import Left
from rag_assets.printing import rough_duration


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
