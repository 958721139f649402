"""Steps side by side: the same outcome in threads and in tasks, and nobody waits for one that is late."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from rag_assets.errors import InvalidArgument, TimeLimitReached
from rag_assets.retrieval.steps import Branch, Outcome, Steps, adrive, ask, call, drive, together, within


def in_threads(steps: Steps[Any]) -> Any:
    return drive(None, steps)


def in_tasks(steps: Steps[Any]) -> Any:
    return asyncio.run(adrive(None, steps))


faces = pytest.mark.parametrize("run", [in_threads, in_tasks])


def failing() -> Steps[int]:
    yield from call(lambda: 1)
    raise LookupError("of this branch")


@faces
def test_branches_go_on_beside_each_other_and_fail_alone(run: Callable[[Steps[Any]], Any]) -> None:
    meeting = threading.Barrier(3, timeout=10)  # passed only if all three are there at once
    branches = [Branch(call(meeting.wait)), Branch(call(meeting.wait), 10), Branch(call(meeting.wait))]
    outcomes = run(together(*branches, Branch(failing())))
    assert sorted(outcome.get() for outcome in outcomes[:3]) == [0, 1, 2]
    with pytest.raises(LookupError, match="of this branch"):
        outcomes[3].get()


@faces
def test_one_that_is_late_is_not_waited_for(run: Callable[[Steps[Any]], Any]) -> None:
    let_go = threading.Event()

    def work() -> Steps[tuple[list[Outcome[Any]], float]]:
        started = time.monotonic()
        outcomes = yield from together(Branch(call(lambda: let_go.wait(30)), 0.2), Branch(call(lambda: 7)))
        took = time.monotonic() - started
        let_go.set()
        return outcomes, took

    (late, quick), took = run(work())
    assert quick.get() == 7
    assert took < 25
    with pytest.raises(TimeLimitReached, match=r"0\.2 s"):
        late.get()


@faces
def test_branches_nest_to_any_depth(run: Callable[[Steps[Any]], Any]) -> None:
    def tree(depth: int) -> Steps[int]:
        if depth == 0:
            return (yield from call(lambda: 1))
        outcomes = yield from together(*(Branch(tree(depth - 1), 60) for _ in range(2)))
        return sum(outcome.get() for outcome in outcomes)

    assert run(within(tree(6), 60)) == 64


@faces
def test_a_time_limit_of_the_work_itself_is_its_own_error(run: Callable[[Steps[Any]], Any]) -> None:
    def timing_out() -> None:
        raise TimeoutError("of the server")

    with pytest.raises(TimeoutError, match="of the server"):
        run(within(call(timing_out), 30))


@faces
def test_steps_that_ask_a_database_need_one(run: Callable[[Steps[Any]], Any]) -> None:
    with pytest.raises(InvalidArgument, match="no database"):
        run(ask({}))


@faces
def test_what_is_left_alone_begins_no_further_step(run: Callable[[Steps[Any]], Any]) -> None:
    begun: list[int] = []
    let_go = threading.Event()

    def on_and_on(inner: bool) -> Steps[None]:
        for number in range(1000):
            if inner:
                yield from together(Branch(call(lambda number=number: begun.append(number))), Branch(call(tick)))
            else:
                yield from call(lambda number=number: begun.append(number))
                yield from call(tick)

    def tick() -> None:
        let_go.wait(0.05)

    def work() -> Steps[Any]:
        outcomes = yield from together(Branch(on_and_on(False), 0.2), Branch(on_and_on(True), 0.2))
        raced = yield from together(Branch(on_and_on(True)), patience=lambda ended: 0.2)
        yield from call(lambda: let_go.wait(0.2))  # what each was doing ends
        so_far = len(begun)
        yield from call(lambda: let_go.wait(0.3))
        return [*outcomes, *raced], so_far

    outcomes, so_far = run(work())
    assert so_far == len(begun), "steps went on that nobody waited for"
    assert all(isinstance(outcome.error, TimeLimitReached) for outcome in outcomes)


def test_work_that_forgets_its_limit_holds_up_nobody_else_in_the_loop() -> None:
    let_go = threading.Event()

    async def many() -> Any:
        forgetful = (adrive(None, together(Branch(call(lambda: let_go.wait(60)), 0.05))) for _ in range(100))
        late = await asyncio.gather(*forgetful)
        async with asyncio.timeout(20):
            return late, await adrive(None, call(lambda: "in time"))

    try:
        late, done = asyncio.run(many())
    finally:
        let_go.set()
    assert done == "in time"
    assert all(isinstance(outcome.error, TimeLimitReached) for (outcome,) in late)
