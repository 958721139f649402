"""Limits hold across processes, in every window, and hold nobody up who is inside his own."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.embedding.profiles import ProviderOptions, make_profile
from rag_assets.errors import ProviderRefused, ProviderUnavailable, UnknownTenant, UsageError
from rag_assets.store import limits
from rag_assets.store.database import Database
from rag_assets.store.limits import (
    RateLimit,
    clear_rate_limit,
    rate_limits,
    set_rate_limit,
)
from rag_assets.store.sql import first_row
from tests.support.limits_world import PAID, gate_of
from tests.support.workers.gate_worker import Sent, Shift, busiest, sent_until, start


@pytest.fixture(autouse=True)
def _short_slack(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of 1 s last 1.2 s, and not 2; other processes keep to the real value."""
    monkeypatch.setattr(limits, "_SLACK_S", 0.2)


@pytest.fixture
def asks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits in this process looks soon whether he still has to."""
    monkeypatch.setattr(limits, "_NAP_S", 0.2)


def _seconds(call: Callable[[], object]) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began


def _of(sent: Sequence[Sent], tenant: str) -> list[Sent]:
    return sorted((one for one in sent if one.tenant == tenant), key=lambda one: one.at)


def _items(sent: Sequence[Sent]) -> int:
    return sum(one.items for one in sent)


def _least(sent: Sequence[Sent]) -> int:
    """How many items the tenant has sent that has sent fewer."""
    return min(_items(_of(sent, tenant)) for tenant in ("acme", "bolt"))


@pytest.mark.slow
def test_two_tenants_in_four_processes_keep_to_their_limits_and_both_use_them(tenants: Database) -> None:
    for tenant in ("acme", "bolt"):
        set_rate_limit(tenants, RateLimit(tenant, "hash", None, items=40, tokens=None, per_seconds=1))
    workers = [Shift(tenants.url, tenant, (1, 3, 10, 16)) for tenant in ("acme", "acme", "bolt", "bolt")]
    sent = sent_until(workers, lambda sent: _least(sent) >= 80)
    for tenant in ("acme", "bolt"):
        assert busiest(_of(sent, tenant), 1)[0] <= 40


@pytest.mark.slow
def test_a_hundred_items_a_minute_for_each_of_two_tenants(tenants: Database, rounds: int) -> None:
    limit = RateLimit("acme", "hash", None, items=100, tokens=None)
    assert limit.per_seconds == 60
    window = limit.per_seconds if rounds > 1 else 3
    for tenant in ("acme", "bolt"):
        set_rate_limit(tenants, replace(limit, tenant=tenant, per_seconds=window))
    workers = [Shift(tenants.url, tenant, (5, 20)) for tenant in ("acme", "acme", "bolt", "bolt")]
    # All of the first window's but what is too little for two requests of 20, and the second one's as soon as those
    # have left the window.
    sent = sent_until(workers, lambda sent: _least(sent) >= 2 * 85)
    for tenant in ("acme", "bolt"):
        assert busiest(_of(sent, tenant), window)[0] <= 100


@pytest.mark.slow
def test_a_limit_of_the_account_is_shared_alike_however_many_workers_a_tenant_has(tenants: Database) -> None:
    # Two requests a window, so that both tenants always have one that waits.
    set_rate_limit(tenants, RateLimit(None, "hash", None, items=8, tokens=None, per_seconds=1))
    sent: list[Sent] = []
    stop = threading.Event()

    def work(tenant: str) -> None:
        gate = gate_of(tenants, tenant)
        while not stop.is_set():
            gate.acquire(4, 4)
            sent.append(Sent(tenant, time.time(), 4, 4))

    with ThreadPoolExecutor(4) as pool:
        workers = [pool.submit(work, tenant) for tenant in ("acme", "acme", "acme", "bolt")]
        while len(sent) < 12 and not any(worker.done() for worker in workers):
            time.sleep(0.02)
        stop.set()
        for worker in workers:
            worker.result()
    assert busiest(sent, 1)[0] <= 8
    both = [one for one in sent[:12] if one.at > max(_of(sent, tenant)[0].at for tenant in ("acme", "bolt"))]
    share = _items(_of(both, "bolt")) / _items(both)
    assert 0.35 < share < 0.65


def test_tokens_are_limited_like_items(tenants: Database) -> None:
    set_rate_limit(tenants, RateLimit("acme", "hash", "hash", items=None, tokens=100, per_seconds=1))
    gate = gate_of(tenants)
    gate.acquire(1, 60)
    gate.acquire(1, 40)
    assert _seconds(lambda: gate.acquire(1, 1)) > 0.9


def test_a_tenant_at_its_own_limit_holds_up_nobody_else(tenants: Database, asks_often: None) -> None:
    set_rate_limit(tenants, RateLimit("acme", "hash", None, items=2, tokens=None))
    set_rate_limit(tenants, RateLimit(None, "hash", None, items=100, tokens=None))
    mine = gate_of(tenants)
    queued = gate_of(tenants)
    other = gate_of(tenants, "bolt")
    mine.acquire(2, 10)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(queued.acquire, 2, 10)
        _until_queued(tenants)
        other.acquire(50, 10)
        assert not waiting.done()
        clear_rate_limit(tenants, "acme", "hash")


def test_a_large_request_is_not_passed_over_for_ever_by_small_ones(tenants: Database) -> None:
    set_rate_limit(tenants, RateLimit(None, "hash", None, items=20, tokens=None, per_seconds=1))
    stop = threading.Event()
    passed: list[int] = []

    def small_ones() -> None:
        gate = gate_of(tenants, "bolt")
        while not stop.is_set():
            gate.acquire(1, 1)
            passed.append(1)

    crowd = [threading.Thread(target=small_ones) for _ in range(3)]
    for thread in crowd:
        thread.start()
    try:
        while len(passed) < 5:
            time.sleep(0.01)
        gate = gate_of(tenants)
        before = len(passed)
        gate.acquire(20, 20)
        assert len(passed) - before <= 2 * 20
    finally:
        stop.set()
        for thread in crowd:
            thread.join(timeout=20)


def test_a_limit_of_one_model_leaves_the_others_alone(tenants: Database) -> None:
    set_rate_limit(tenants, RateLimit(None, "google", "gemini-embedding-001", items=1, tokens=None))
    gate = gate_of(tenants, profile=PAID)
    assert gate.batch_items(100) == 100
    for _ in range(3):
        gate.acquire(10, 10)  # refused where the limit counts


def test_a_request_larger_than_the_limit_is_refused_and_says_how_much_fits(tenants: Database) -> None:
    set_rate_limit(tenants, RateLimit("acme", "hash", None, items=50, tokens=1000))
    gate = gate_of(tenants)
    with pytest.raises(ProviderRefused, match=r"51 items.*50 items and 1,000 tokens a minute.*rag tenant limit"):
        gate.acquire(51, 10)
    assert gate.batch_items(100) == 50
    assert gate.batch_items(100, longest_tokens=200) == 5
    assert gate.batch_items(100, longest_tokens=5000) == 1
    gate.acquire(50, 1000)


@pytest.mark.slow
def test_a_killed_workers_place_in_the_queue_expires(tenants: Database) -> None:
    set_rate_limit(tenants, RateLimit("acme", "hash", None, items=10, tokens=None, per_seconds=1))
    gate = gate_of(tenants)
    gate.acquire(10, 1)
    with start(Shift(tenants.url, "acme", (10,))) as worker:
        _until_queued(tenants)
        worker.send_signal(signal.SIGKILL)
    gate = gate_of(tenants)
    gate.acquire(10, 1)
    assert _waiting(tenants) == 0


def _until_queued(database: Database) -> None:
    deadline = time.monotonic() + 100
    while not _waiting(database):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _waiting(database: Database) -> int:
    with database.connect() as connection:
        row = connection.execute("SELECT count(*) FROM rag.rate_requests WHERE granted_at IS NULL").fetchone()
        return row[0] if row else 0


def test_a_late_grant_is_given_back_and_asked_for_again(tenants: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    set_rate_limit(tenants, RateLimit("acme", "hash", None, items=1, tokens=None, per_seconds=60))
    gate = gate_of(tenants)
    asked: list[object] = []

    def hangs_once(*request: Any) -> Any:
        """A network that hangs once, after the server has granted."""
        turn = first_row(*request)
        asked.append(turn)
        time.sleep(0.4 if len(asked) == 1 else 0)
        return turn

    gate.batch_items(1)  # so that it knows its limits, and asks for nothing but its turn
    monkeypatch.setattr(limits, "first_row", hangs_once)
    gate.acquire(1, 1)
    assert len(asked) == 2  # with the first grant used up it would be asked for a minute


def test_a_pause_that_the_provider_asks_for_holds_for_all_workers_of_the_account(
    tenants: Database, asks_often: None
) -> None:
    mine = make_profile(
        name="own-key", provider="google", model="gemini-embedding-2", dimensions=128,
        options=ProviderOptions(key_env="ACME_KEY"),
    )  # fmt: skip
    told = gate_of(tenants, profile=PAID)
    told.throttled(600)
    other = gate_of(tenants, "bolt", PAID)
    elsewhere = gate_of(tenants, profile=mine)
    elsewhere.acquire(1, 1)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(other.acquire, 1, 1)
        _until_queued(tenants)
        assert not waiting.done()
        with tenants.connect() as connection:
            until = "clock_timestamp() + interval '0.5 s'"
            connection.execute(f"UPDATE rag.rate_blocks SET blocked_until = {until}")
    told.acquire(1, 1)


def test_a_pause_longer_than_a_run_should_wait_ends_it_at_once(tenants: Database) -> None:
    gate = gate_of(tenants, profile=PAID)
    gate.throttled(3600)
    with pytest.raises(ProviderUnavailable, match=r"asked for a pause.*60 minutes"):
        gate.acquire(1, 1)
    assert clear_rate_limit(tenants, None, "google")
    gate = gate_of(tenants, profile=PAID)
    gate.acquire(1, 1)
    assert _waiting(tenants) == 0


def test_without_limits_the_database_is_asked_once(tenants: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = gate_of(tenants)
    gate.acquire(1, 1)
    monkeypatch.setattr(gate, "_transaction", None)
    for _ in range(100):
        gate.acquire(100, 10_000)


def test_a_long_wait_is_told(
    tenants: Database, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "_TOLD_AFTER_S", 0.5)
    set_rate_limit(tenants, RateLimit("acme", "hash", None, items=1, tokens=None, per_seconds=1))
    gate = gate_of(tenants)
    with caplog.at_level(logging.WARNING):
        gate.acquire(1, 1)
        gate.acquire(1, 1)
        gate.acquire(1, 1)
    assert [record.message for record in caplog.records] == ["acme waits about 1 s for its turn at hash/hash"]


def test_the_queue_forgets_what_nobody_asks_about_any_more(tenants: Database) -> None:
    set_rate_limit(tenants, RateLimit("acme", "hash", None, items=100, tokens=None, per_seconds=1))
    gate = gate_of(tenants)
    for _ in range(20):
        gate.acquire(1, 1)
    with tenants.connect() as connection:
        connection.execute("UPDATE rag.rate_requests SET granted_at = granted_at - interval '2.5 s'")
    gate.acquire(1, 1)
    with tenants.connect() as connection:
        assert connection.execute("SELECT count(*) FROM rag.rate_requests").fetchone() == (1,)


def test_what_one_tenant_sends_is_not_shown_to_another(tenants: Database) -> None:
    set_rate_limit(tenants, RateLimit(None, "hash", None, items=100, tokens=None))
    set_rate_limit(tenants, RateLimit("acme", "hash", None, items=50, tokens=None))
    gate = gate_of(tenants)
    gate.acquire(10, 1)
    with tenants.work("bolt") as connection:
        assert connection.execute("SELECT count(*) FROM rag.rate_requests").fetchone() == (0,)
        assert [limit.tenant for limit in rate_limits(connection)] == [None]
    with tenants.connect("app") as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("SELECT rag.take_turn(NULL, 'hash', 'hash', '@', 1, 1, 1, 5)")


def test_limits_are_set_changed_in_part_and_cleared(tenants: Database) -> None:
    both = RateLimit("acme", "google", None, items=100, tokens=None)
    set_rate_limit(tenants, both)
    set_rate_limit(tenants, replace(both, items=None, tokens=30_000))
    set_rate_limit(tenants, replace(both, tenant=None, items=500))
    with tenants.work("acme") as connection:
        assert rate_limits(connection, "google", "gemini-embedding-2") == [
            replace(both, tenant=None, items=500), replace(both, tokens=30_000),
        ]  # fmt: skip
        assert rate_limits(connection, "hash") == []
    assert clear_rate_limit(tenants, "acme", "google")
    assert not clear_rate_limit(tenants, "acme", "google")


@pytest.mark.parametrize(("items", "tokens"), [(None, None), (0, None), (10, -1)])
def test_a_limit_that_would_let_nothing_through_is_refused(
    tenants: Database, items: int | None, tokens: int | None
) -> None:
    with pytest.raises(UsageError):
        set_rate_limit(tenants, RateLimit("acme", "hash", None, items, tokens))
    with pytest.raises(UnknownTenant):
        set_rate_limit(tenants, RateLimit("nobody", "hash", None, 1, None))


@given(
    items=st.integers(0, 10_000),
    tokens=st.integers(0, 10**7),
    limit=st.tuples(st.integers(1, 5000), st.integers(1, 10**6), st.integers(1, 120)),
)
def test_the_time_at_a_limit_is_that_of_the_scarcer_of_the_two(
    items: int, tokens: int, limit: tuple[int, int, int]
) -> None:
    both = RateLimit(None, "p", None, *limit)
    apart = [replace(both, tokens=None), replace(both, items=None)]
    assert both.seconds(items, tokens) == max(one.seconds(items, tokens) for one in apart)
    assert both.seconds(limit[0], 0) == limit[2]
