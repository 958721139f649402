from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.automation.work import (
    FIRST_RETRY_S,
    MAX_TRIES,
    REMAINDER_RETRY_S,
    Attempt,
    Busy,
    PendingWork,
    SensorMemory,
    digest,
    next_attempt,
    note,
    run_key,
    work_key,
)

NOW = 1_000_000.0


def failures(count: int, ended: float = NOW) -> list[Attempt]:
    return [Attempt("failure", ended - 10_000 * (count - 1 - number)) for number in range(count)]


def test_work_that_was_never_tried_is_due() -> None:
    assert next_attempt([], NOW) == 0


def test_work_is_not_asked_for_while_a_run_is_open() -> None:
    assert next_attempt([*failures(1), Attempt("open")], NOW + 10_000) is None


@pytest.mark.parametrize("count", range(1, MAX_TRIES))
def test_each_failure_in_a_row_doubles_the_pause(count: int) -> None:
    pause = FIRST_RETRY_S * 2 ** (count - 1)
    assert next_attempt(failures(count), NOW + pause - 1) is None
    assert next_attempt(failures(count), NOW + pause) == count


def test_eight_failures_in_a_row_are_the_last() -> None:
    assert next_attempt(failures(MAX_TRIES), NOW + 10**9) is None


def test_what_a_success_left_undone_is_tried_again_an_hour_later() -> None:
    done = [*failures(2, NOW - 100), Attempt("success", NOW)]
    assert next_attempt(done, NOW + REMAINDER_RETRY_S - 1) is None
    assert next_attempt(done, NOW + REMAINDER_RETRY_S) == 3


@given(st.lists(st.sampled_from(["success", "failure"]), max_size=20), st.floats(0, 10**6))
def test_an_attempt_never_reuses_a_run_key(outcomes: list[str], later: float) -> None:
    attempts = [Attempt(outcome, NOW + number) for number, outcome in enumerate(outcomes)]  # type: ignore[arg-type]
    attempt = next_attempt(attempts, NOW + later)
    if attempt is not None:
        used = {run_key("k", number) for number in range(len(attempts))}
        assert run_key("k", attempt) not in used


def follow(steps: list[str | None]) -> list[str | None]:
    """The key of each tick, at which the work has this digest or, with None, there is none."""
    memory, found = SensorMemory(), []
    for second, name in enumerate(steps):
        works = [PendingWork("acme", None, name)] if name else []
        memory = SensorMemory(seen=note(memory, works, [], second))
        found.append(work_key(works[0], memory.seen) if works else None)
    return found


def test_the_same_work_keeps_its_key_from_tick_to_tick() -> None:
    first, second, third = follow(["a", "a", "a"])
    assert first == second == third == "sources:acme:a:0"


def test_work_that_comes_back_has_a_new_key() -> None:
    there, _, back = follow(["a", None, "a"])
    assert there != back
    edit, revert, again = follow(["a", "b", "a"])
    assert len({edit, revert, again}) == 3


@given(st.lists(st.sampled_from(["a", "b", None]), max_size=12))
def test_keys_change_exactly_when_the_work_changes(steps: list[str | None]) -> None:
    found = follow(steps)
    for (before, after), (old, new) in zip(itertools.pairwise(steps), itertools.pairwise(found), strict=True):
        assert (old == new) == (before == after)
    appearances = [key for key, _ in itertools.groupby(found) if key]
    assert len(appearances) == len(set(appearances))


def test_a_tenant_that_could_not_be_looked_at_keeps_what_is_known_of_it() -> None:
    memory = SensorMemory(seen={"sources:acme": ("a", 1), "pair:acme:p": ("b", 2), "sources:globex": ("c", 3)})
    assert note(memory, [], ["acme"], 9) == {"sources:acme": ("a", 1), "pair:acme:p": ("b", 2)}


@pytest.mark.parametrize("cursor", [None, "", "not json", '{"seen": 3}', "[]"])
def test_an_unreadable_cursor_is_an_empty_memory(cursor: str | None) -> None:
    assert SensorMemory.load(cursor) == SensorMemory()


def test_a_memory_survives_its_cursor() -> None:
    memory = SensorMemory(seen={"sources:acme": ("a", 1)}, looked={"root": 5})
    assert SensorMemory.load(memory.model_dump_json()) == memory


@given(st.lists(st.tuples(st.text(), st.integers()), unique=True, max_size=5))
def test_a_digest_depends_on_the_parts_and_not_on_their_order(parts: list[tuple[str, int]]) -> None:
    assert digest(parts) == digest(reversed(parts))
    assert digest(parts) != digest([*parts, ("one", "more")])


def test_parts_are_told_apart_whatever_they_hold() -> None:
    assert digest([("a\n('b'",)]) != digest([("a",), ("b",)])


def test_only_the_tenant_and_the_pair_that_are_busy_wait() -> None:
    busy = Busy(frozenset({"acme"}), frozenset({("globex", "p")}), frozenset({"initech"}))
    assert busy.blocks(PendingWork("acme", None, "d"))
    assert busy.blocks(PendingWork("acme", "p", "d"))
    assert busy.blocks(PendingWork("globex", "p", "d"))
    assert not busy.blocks(PendingWork("globex", "q", "d"))
    assert not busy.blocks(PendingWork("globex", None, "d"))
    assert busy.blocks(PendingWork("initech", "p", "d"))
    assert not busy.blocks(PendingWork("initech", None, "d"))
