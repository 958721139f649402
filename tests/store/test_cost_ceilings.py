"""What a profile may cost: ceilings stop what could go beyond them, and go with their tenant."""

from __future__ import annotations

import numpy as np
import pytest

from rag_assets.embedding.protocol import Usage
from rag_assets.errors import CostCeilingReached, UnknownTenant, UsageError
from rag_assets.store.cache import PgVectorCache
from rag_assets.store.database import Database
from rag_assets.store.erase import erase
from rag_assets.store.limits import (
    ProfileSettings,
    RateLimit,
    profile_settings,
    rate_limits,
    set_profile_settings,
    set_rate_limit,
)
from tests.support.limits_world import PAID, gate_of

MILLION = 1_000_000  # tokens; 20 cents of that model


def _pay(database: Database, cost: float, tenant: str = "acme", number: int = 0) -> None:
    cache = PgVectorCache(database, tenant, "b", PAID.name)
    vector = np.eye(1, 128, dtype=np.float32)
    cache.put(PAID.model_key, [number.to_bytes(32)], vector, Usage(tenant, "b", 1, MILLION, cost))


def test_a_ceiling_stops_what_could_go_beyond_it_and_names_the_way_on(tenants: Database) -> None:
    set_profile_settings(tenants, PAID.name, max_cost_usd=1.0)
    _pay(tenants, 0.9)
    gate = gate_of(tenants, profile=PAID)
    other = gate_of(tenants, "bolt", PAID)
    gate.acquire(1, MILLION // 4)
    wanted = r"'paid'.*'acme'.*\$0\.9000.*\$0\.2000.*\$1\.00.*rag profile limit paid --max-cost-usd"
    with pytest.raises(CostCeilingReached, match=wanted):
        gate.acquire(1, MILLION)
    other.acquire(1, MILLION)
    gate.check_ceiling(MILLION // 5, batch=True)
    set_profile_settings(tenants, PAID.name, max_cost_usd=2.0)
    gate = gate_of(tenants, profile=PAID)
    gate.acquire(1, MILLION)


def test_requests_that_are_not_counted_yet_count_against_the_ceiling_once(tenants: Database) -> None:
    set_profile_settings(tenants, PAID.name, max_cost_usd=0.5)
    gate = gate_of(tenants, profile=PAID)
    gate.acquire(1, MILLION)
    gate.acquire(1, MILLION)
    with pytest.raises(CostCeilingReached):
        gate.acquire(1, MILLION)
    _pay(tenants, 0.2)  # less than was feared
    gate.acquire(1, MILLION)


def test_a_request_that_was_turned_away_does_not_count_against_the_ceiling(tenants: Database) -> None:
    set_profile_settings(tenants, PAID.name, max_cost_usd=0.3)
    gate = gate_of(tenants, profile=PAID)
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
        gate = gate_of(tenants, tenant)
        gate.acquire(1, 1)
    set_rate_limit(tenants, RateLimit(None, "hash", None, items=100, tokens=None))
    late = gate_of(tenants)
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
