from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.automation.work import (
    REMAINDER_RETRY_S,
    Attempt,
    Busy,
    PendingWork,
    Rank,
    SensorMemory,
    digest,
    in_lane,
    next_attempt,
    next_try,
    note,
    rotated,
    run_key,
    work_key,
)
from rag_assets.store.attempts import FIRST_PAUSE_S, FailedWork

NOW = 1_000_000.0
RANKS = ["serving", "canary", "candidate"]


def failed(attempts: int = 1, ago: float = 0.0, pause: float = 3600.0, work: str = "k") -> FailedWork:
    at = datetime.fromtimestamp(NOW - ago, UTC)
    return FailedWork("acme", "p", attempts, "no answer", at, at + timedelta(seconds=pause), "run-1", work)


def test_work_that_was_never_tried_is_due() -> None:
    assert next_attempt([], NOW) == 0


def test_work_is_not_asked_for_while_a_run_is_open() -> None:
    assert next_attempt([Attempt("success", NOW - 10**6), Attempt("open")], NOW) is None


def test_what_a_success_left_undone_is_tried_again_an_hour_later() -> None:
    done = [Attempt("failure", NOW - 100), Attempt("success", NOW)]
    assert next_attempt(done, NOW + REMAINDER_RETRY_S - 1) is None
    assert next_attempt(done, NOW + REMAINDER_RETRY_S) == 2


@given(st.lists(st.sampled_from(["success", "failure"]), max_size=20), st.floats(0, 10**6))
def test_an_attempt_never_reuses_a_run_key(outcomes: list[str], later: float) -> None:
    attempts = [Attempt(outcome, NOW + number) for number, outcome in enumerate(outcomes)]  # type: ignore[arg-type]
    attempt = next_attempt(attempts, NOW + later)
    if attempt is not None:
        used = {run_key("k", number) for number in range(len(attempts))}
        assert run_key("k", attempt) not in used


def test_work_that_failed_waits_for_its_pause_and_other_work_a_minute() -> None:
    same, other = failed(work="k"), failed(work="another")
    assert next_try(same, "k") == NOW + 3600
    assert next_try(other, "k") == NOW + FIRST_PAUSE_S
    assert next_try(failed(work="another", pause=10), "k") == NOW + 10, "never later than the work that failed"


@given(st.permutations(RANKS), st.lists(st.booleans(), min_size=3, max_size=3))
def test_what_serves_goes_before_candidates_and_what_is_broken_comes_last(
    ranks: list[Rank], broken: list[bool]
) -> None:
    works = [
        PendingWork("acme", f"p{number}", "d", rank=rank, failed=failed() if bad else None)
        for number, (rank, bad) in enumerate(zip(ranks, broken, strict=True))
    ]
    order = sorted(works, key=lambda work: work.order)
    assert [work.failed is not None for work in order] == sorted(broken)
    well = [work for work in order if not work.failed]
    assert [work.rank for work in well] == [
        r for r in ("serving", "canary", "candidate") if r in {w.rank for w in well}
    ]
    assert sorted((work.priority for work in order), reverse=True) == [work.priority for work in order]


def test_sources_are_read_before_pairs_are_built() -> None:
    sources, pair = PendingWork("acme", None, "d"), PendingWork("acme", "p", "d")
    assert sources.order < pair.order


def test_a_candidate_and_a_broken_profile_never_wait_in_the_line_of_what_serves() -> None:
    serving, sources = PendingWork("acme", "p", "d"), PendingWork("acme", None, "d")
    aside = [PendingWork("acme", "q", "d", rank="candidate"), PendingWork("acme", "p", "d", failed=failed())]
    assert serving.after == sources.after == "acme"
    assert {work.after for work in aside} == {"acme/aside"}


def test_what_was_slow_has_much_to_do_and_what_failed_has_one_place_for_all() -> None:
    work = PendingWork("acme", "p", "d")
    assert in_lane(work, {}).lane == "quick"
    assert in_lane(work, {work.name: 61.0}).lane == "bulk"
    assert in_lane(replace(work, failed=failed()), {}).lane == "retry"
    assert in_lane(replace(work, lane="outside"), {work.name: 61.0}).lane == "outside"
    assert in_lane(replace(work, lane="bulk", failed=failed()), {}).lane == "bulk", "it would hold the place for hours"


@given(st.lists(st.sampled_from("abcdef"), unique=True), st.sampled_from(["", *"abcdefg"]))
def test_a_rotation_names_everybody_once_from_where_the_last_one_ended(names: list[str], first: str) -> None:
    found = rotated(names, first)
    assert sorted(found) == sorted(names)
    assert not found or found[0] == min([name for name in names if name >= first] or names)


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
    memory = SensorMemory(seen={"sources:acme": ("a", 1)}, resume="b", noted=5.0, slow={"sources:acme": 61.0})
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
