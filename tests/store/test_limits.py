"""Limits hold across processes, in every window, and hold nobody up who is inside his own."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.embedding.profiles import EmbeddingProfile, ProviderOptions, make_profile
from rag_assets.embedding.protocol import Usage
from rag_assets.errors import CostCeilingReached, ProviderRefused, ProviderUnavailable, UnknownTenant, UsageError
from rag_assets.store import limits
from rag_assets.store.cache import PgVectorCache
from rag_assets.store.database import Database
from rag_assets.store.erase import erase
from rag_assets.store.limits import (
    PgGate,
    ProfileSettings,
    RateLimit,
    clear_rate_limit,
    profile_settings,
    rate_limits,
    set_profile_settings,
    set_rate_limit,
)
from rag_assets.store.profiles import add_spec
from rag_assets.store.tenants import add_tenant
from tests.support.workers.gate_worker import PROFILE, Sent, Shift, busiest, sent_by, start

PAID = make_profile(name="paid", provider="google", model="gemini-embedding-2", dimensions=128)
MILLION = 1_000_000  # tokens; 20 cents of that model


@pytest.fixture(autouse=True)
def _short_slack(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of 1 s last 1.2 s, and not 2; other processes keep to the real value."""
    monkeypatch.setattr(limits, "_SLACK_S", 0.2)


@pytest.fixture
def tenants(database: Database) -> Database:
    """Two tenants, and a profile that costs money."""
    add_tenant(database, "acme", "b")
    add_tenant(database, "bolt", "b")
    add_spec(database, PAID)
    return database


def _gate(database: Database, tenant: str = "acme", profile: EmbeddingProfile = PROFILE) -> PgGate:
    return PgGate(database, tenant, "b", profile)


def _seconds(call: Callable[[], object]) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began


def _work(database: Database, tenants: Sequence[str], items: Sequence[int], seconds: float) -> list[Sent]:
    """What one process for each name in `tenants` sends at the same time."""
    until = time.time() + seconds
    shifts = [Shift(database.url, tenant, items, until, seed) for seed, tenant in enumerate(tenants)]
    workers = [start(shift) for shift in shifts]
    time.sleep(max(0, until - time.time()))
    for worker in workers:
        worker.kill()  # those that are waiting for their turn would do so to the end
    return [sent for shift, worker in zip(shifts, workers, strict=True) for sent in sent_by(worker, shift.tenant)]


def _of(sent: Sequence[Sent], tenant: str) -> list[Sent]:
    return sorted((one for one in sent if one.tenant == tenant), key=lambda one: one.at)


@pytest.mark.slow
def test_two_tenants_in_four_processes_keep_to_their_limits_and_both_use_them(tenants: Database) -> None:
    for tenant in ("acme", "bolt"):
        set_rate_limit(tenants, RateLimit(tenant, "hash", None, items=40, tokens=None, per_seconds=2))
    sent = _work(tenants, ["acme", "acme", "bolt", "bolt"], items=(1, 3, 10, 16), seconds=12)
    for tenant in ("acme", "bolt"):
        assert busiest(_of(sent, tenant), 2)[0] <= 40
        assert sum(one.items for one in _of(sent, tenant)) >= 80


@pytest.mark.slow
def test_a_hundred_items_a_minute_for_each_of_two_tenants(tenants: Database) -> None:
    for tenant in ("acme", "bolt"):
        set_rate_limit(tenants, RateLimit(tenant, "hash", None, items=100, tokens=None))
    sent = _work(tenants, ["acme", "acme", "bolt", "bolt"], items=(5, 20), seconds=80)
    for tenant in ("acme", "bolt"):
        mine = _of(sent, tenant)
        assert busiest(mine, 60)[0] <= 100
        # All of the first minute's but what is too little for two requests of 20, and the second one's as soon as those
        # have left the window.
        assert sum(one.items for one in mine) >= 2 * 85


@pytest.mark.slow
def test_a_limit_of_the_account_is_shared_alike_however_many_workers_a_tenant_has(tenants: Database) -> None:
    set_rate_limit(tenants, RateLimit(None, "hash", None, items=40, tokens=None, per_seconds=2))
    sent = _work(tenants, ["acme", "acme", "acme", "bolt"], items=(4,), seconds=15)
    assert busiest(sent, 2)[0] <= 40
    both = [one for one in sent if one.at > max(_of(sent, tenant)[0].at for tenant in ("acme", "bolt"))]
    share = sum(one.items for one in _of(both, "bolt")) / sum(one.items for one in both)
    assert 0.35 < share < 0.65


def test_tokens_are_limited_like_items(tenants: Database) -> None:
    set_rate_limit(tenants, RateLimit("acme", "hash", "hash", items=None, tokens=100, per_seconds=1))
    gate = _gate(tenants)
    gate.acquire(1, 60)
    gate.acquire(1, 40)
    assert _seconds(lambda: gate.acquire(1, 1)) > 0.9


def test_a_tenant_at_its_own_limit_holds_up_nobody_else(tenants: Database) -> None:
    set_rate_limit(tenants, RateLimit("acme", "hash", None, items=2, tokens=None, per_seconds=2))
    set_rate_limit(tenants, RateLimit(None, "hash", None, items=100, tokens=None, per_seconds=2))
    mine = _gate(tenants)
    queued = _gate(tenants)
    other = _gate(tenants, "bolt")
    mine.acquire(2, 10)
    waiting = threading.Thread(target=queued.acquire, args=(2, 10))
    waiting.start()
    time.sleep(0.3)
    assert _seconds(lambda: other.acquire(50, 10)) < 1
    assert waiting.is_alive()
    waiting.join(timeout=20)


def test_a_large_request_is_not_passed_over_for_ever_by_small_ones(tenants: Database) -> None:
    set_rate_limit(tenants, RateLimit(None, "hash", None, items=20, tokens=None, per_seconds=1))
    stop = threading.Event()

    def small_ones() -> None:
        gate = _gate(tenants, "bolt")
        while not stop.is_set():
            gate.acquire(1, 1)

    crowd = [threading.Thread(target=small_ones) for _ in range(3)]
    for thread in crowd:
        thread.start()
    try:
        time.sleep(0.5)
        gate = _gate(tenants)
        assert _seconds(lambda: gate.acquire(20, 20)) < 8
    finally:
        stop.set()
        for thread in crowd:
            thread.join(timeout=20)


def test_a_limit_of_one_model_leaves_the_others_alone(tenants: Database) -> None:
    set_rate_limit(tenants, RateLimit(None, "google", "gemini-embedding-001", items=1, tokens=None))
    gate = _gate(tenants, profile=PAID)
    assert gate.batch_items(100) == 100
    assert _seconds(lambda: [gate.acquire(10, 10) for _ in range(3)]) < 1


def test_a_request_larger_than_the_limit_is_refused_and_says_how_much_fits(tenants: Database) -> None:
    set_rate_limit(tenants, RateLimit("acme", "hash", None, items=50, tokens=1000))
    gate = _gate(tenants)
    with pytest.raises(ProviderRefused, match=r"51 items.*50 items and 1,000 tokens a minute.*rag tenant limit"):
        gate.acquire(51, 10)
    assert gate.batch_items(100) == 50
    assert gate.batch_items(100, longest_tokens=200) == 5
    assert gate.batch_items(100, longest_tokens=5000) == 1
    gate.acquire(50, 1000)


@pytest.mark.slow
def test_a_killed_workers_place_in_the_queue_expires(tenants: Database) -> None:
    set_rate_limit(tenants, RateLimit("acme", "hash", None, items=10, tokens=None, per_seconds=1))
    gate = _gate(tenants)
    gate.acquire(10, 1)
    worker = start(Shift(tenants.url, "acme", (10,), time.time() + 60))
    _until_queued(tenants)
    worker.send_signal(signal.SIGKILL)
    sent_by(worker, "acme")
    gate = _gate(tenants)
    assert _seconds(lambda: gate.acquire(10, 1)) < 12
    assert _waiting(tenants) == 0


def _until_queued(database: Database) -> None:
    deadline = time.monotonic() + 30
    while not _waiting(database):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _waiting(database: Database) -> int:
    with database.connect() as connection:
        row = connection.execute("SELECT count(*) FROM rag.rate_requests WHERE granted_at IS NULL").fetchone()
        return row[0] if row else 0


def test_a_late_grant_is_given_back_and_asked_for_again(tenants: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    set_rate_limit(tenants, RateLimit("acme", "hash", None, items=1, tokens=None, per_seconds=60))
    gate = _gate(tenants)
    slow, work = _Slow(), tenants.work

    @contextmanager
    def hanging(*scope: str) -> Iterator[_Slow]:
        with work(*scope) as slow.connection:
            yield slow

    monkeypatch.setattr(tenants, "work", hanging)
    assert _seconds(lambda: gate.acquire(1, 1)) < 5  # with the first grant used up it would be a minute
    assert slow.asked == 2


class _Slow:
    """A connection over a network that hangs once, after the server has granted."""

    connection: psycopg.Connection
    asked = 0

    def execute(self, text: str, values: object) -> psycopg.Cursor:
        cursor = self.connection.execute(text, values)  # type: ignore[call-overload]
        if "take_turn" in text:
            self.asked += 1
            time.sleep(0.4 if self.asked == 1 else 0)
        return cursor

    def __getattr__(self, name: str) -> object:
        return getattr(self.connection, name)


def test_a_pause_that_the_provider_asks_for_holds_for_all_workers_of_the_account(tenants: Database) -> None:
    mine = make_profile(
        name="own-key", provider="google", model="gemini-embedding-2", dimensions=128,
        options=ProviderOptions(key_env="ACME_KEY"),
    )  # fmt: skip
    told = _gate(tenants, profile=PAID)
    told.throttled(1.5)
    other = _gate(tenants, "bolt", PAID)
    elsewhere = _gate(tenants, profile=mine)
    assert _seconds(lambda: elsewhere.acquire(1, 1)) < 1
    assert _seconds(lambda: other.acquire(1, 1)) > 0.5
    assert _seconds(lambda: told.acquire(1, 1)) < 1


def test_a_pause_longer_than_a_run_should_wait_ends_it_at_once(tenants: Database) -> None:
    gate = _gate(tenants, profile=PAID)
    gate.throttled(3600)
    with pytest.raises(ProviderUnavailable, match=r"asked for a pause.*60 minutes"):
        gate.acquire(1, 1)
    assert clear_rate_limit(tenants, None, "google")
    gate = _gate(tenants, profile=PAID)
    gate.acquire(1, 1)
    assert _waiting(tenants) == 0


def test_without_limits_the_database_is_asked_once(tenants: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = _gate(tenants)
    gate.acquire(1, 1)
    monkeypatch.setattr(gate, "_transaction", None)
    assert _seconds(lambda: [gate.acquire(100, 10_000) for _ in range(1000)]) < 0.5


def test_a_long_wait_is_told(
    tenants: Database, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "_TOLD_AFTER_S", 0.5)
    set_rate_limit(tenants, RateLimit("acme", "hash", None, items=1, tokens=None, per_seconds=1))
    gate = _gate(tenants)
    with caplog.at_level(logging.WARNING):
        gate.acquire(1, 1)
        gate.acquire(1, 1)
        gate.acquire(1, 1)
    assert [record.message for record in caplog.records] == ["acme waits about 1 s for its turn at hash/hash"]


def test_the_queue_forgets_what_nobody_asks_about_any_more(tenants: Database) -> None:
    set_rate_limit(tenants, RateLimit("acme", "hash", None, items=100, tokens=None, per_seconds=1))
    gate = _gate(tenants)
    for _ in range(20):
        gate.acquire(1, 1)
    time.sleep(2.5)
    gate.acquire(1, 1)
    with tenants.connect() as connection:
        assert connection.execute("SELECT count(*) FROM rag.rate_requests").fetchone() == (1,)


def test_what_one_tenant_sends_is_not_shown_to_another(tenants: Database) -> None:
    set_rate_limit(tenants, RateLimit(None, "hash", None, items=100, tokens=None))
    set_rate_limit(tenants, RateLimit("acme", "hash", None, items=50, tokens=None))
    gate = _gate(tenants)
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


def _pay(database: Database, cost: float, tenant: str = "acme", number: int = 0) -> None:
    cache = PgVectorCache(database, tenant, "b", PAID.name)
    vector = np.eye(1, 128, dtype=np.float32)
    cache.put(PAID.model_key, [number.to_bytes(32)], vector, Usage(tenant, "b", 1, MILLION, cost))


def test_a_ceiling_stops_what_could_go_beyond_it_and_names_the_way_on(tenants: Database) -> None:
    set_profile_settings(tenants, PAID.name, max_cost_usd=1.0)
    _pay(tenants, 0.9)
    gate = _gate(tenants, profile=PAID)
    other = _gate(tenants, "bolt", PAID)
    gate.acquire(1, MILLION // 4)
    wanted = r"'paid'.*'acme'.*\$0\.9000.*\$0\.2000.*\$1\.00.*rag profile limit paid --max-cost-usd"
    with pytest.raises(CostCeilingReached, match=wanted):
        gate.acquire(1, MILLION)
    other.acquire(1, MILLION)
    gate.check_ceiling(MILLION // 5, batch=True)
    set_profile_settings(tenants, PAID.name, max_cost_usd=2.0)
    gate = _gate(tenants, profile=PAID)
    gate.acquire(1, MILLION)


def test_requests_that_are_not_counted_yet_count_against_the_ceiling_once(tenants: Database) -> None:
    set_profile_settings(tenants, PAID.name, max_cost_usd=0.5)
    gate = _gate(tenants, profile=PAID)
    gate.acquire(1, MILLION)
    gate.acquire(1, MILLION)
    with pytest.raises(CostCeilingReached):
        gate.acquire(1, MILLION)
    _pay(tenants, 0.2)  # less than was feared
    gate.acquire(1, MILLION)


def test_a_request_that_was_turned_away_does_not_count_against_the_ceiling(tenants: Database) -> None:
    set_profile_settings(tenants, PAID.name, max_cost_usd=0.3)
    gate = _gate(tenants, profile=PAID)
    for _ in range(3):
        gate.acquire(1, MILLION)
        gate.throttled(0.01)
    gate.acquire(1, MILLION)


def test_settings_of_a_profile_are_changed_in_part(tenants: Database) -> None:
    def settings() -> ProfileSettings:
        with tenants.work() as connection:
            return profile_settings(connection, PAID.name)

    assert settings() == ProfileSettings(None, "sync")
    set_profile_settings(tenants, PAID.name, mode="batch")
    set_profile_settings(tenants, PAID.name, max_cost_usd=0.25)
    assert settings() == ProfileSettings(0.25, "batch")
    set_profile_settings(tenants, PAID.name, no_max_cost=True, mode="sync")
    assert settings() == ProfileSettings(None, "sync")
    for wrong in (-1, float("nan"), float("inf")):
        with pytest.raises(UsageError):
            set_profile_settings(tenants, PAID.name, max_cost_usd=wrong)


def test_limits_and_usage_of_an_erased_tenant_are_gone_and_the_others_stay(tenants: Database) -> None:
    for tenant in ("acme", "bolt"):
        set_rate_limit(tenants, RateLimit(tenant, "hash", None, items=10, tokens=None))
        _pay(tenants, 0.1, tenant)
        gate = _gate(tenants, tenant)
        gate.acquire(1, 1)
    set_rate_limit(tenants, RateLimit(None, "hash", None, items=100, tokens=None))
    late = _gate(tenants)
    late.acquire(1, 1)
    report = erase(tenants, "acme")
    assert {table: report.counts[table] for table in ("rate_limits", "rate_requests", "embedding_usage")} == {
        "rate_limits": 1, "rate_requests": 2, "embedding_usage": 1,
    }  # fmt: skip
    with pytest.raises(UnknownTenant, match="erased"):
        late.acquire(1, 1)
    with tenants.connect() as connection:
        assert connection.execute("SELECT tenant_id FROM rag.rate_limits ORDER BY 1").fetchall() == [("bolt",), (None,)]


def test_a_bot_that_goes_leaves_the_limits_of_its_tenant(tenants: Database) -> None:
    set_rate_limit(tenants, RateLimit("acme", "hash", None, items=10, tokens=None))
    _pay(tenants, 0.1)
    assert erase(tenants, "acme", "b").counts["embedding_usage"] == 1
    with tenants.work("acme") as connection:
        assert len(rate_limits(connection)) == 1


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
