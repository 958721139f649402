"""Work that failed is remembered with its attempts, its error and the next try, until it succeeds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from rag_assets.store.attempts import failed_work, record_failure, record_success
from rag_assets.store.database import Database
from rag_assets.store.tenants import add_tenant

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def tenants(database: Database) -> Database:
    for tenant in ("acme", "globex"):
        add_tenant(database, tenant, "help")
    return database


def fail(database: Database, run: int, profile: str | None = "p", minutes: int = 0) -> int | None:
    with database.work("acme") as connection:
        at = NOW + timedelta(minutes=minutes)
        return record_failure(connection, "acme", profile, error=f"error {run}", at=at, run_id=f"run-{run}", work="k")


def test_the_pause_doubles_from_a_minute_to_an_hour_and_stays_there(tenants: Database) -> None:
    pauses = []
    for number in range(40):
        assert fail(tenants, number, minutes=number) == number + 1
        with tenants.work("acme") as connection:
            (failed,) = failed_work(connection, "acme")
        pauses.append((failed.next_try_at - failed.last_at).total_seconds())
    assert pauses == [min(3600, 60 * 2**number) for number in range(40)]
    assert "failed 40 times, next try 2026-01-01" in str(failed)
    assert "error 39" in str(failed)


def test_a_run_is_counted_once_and_an_older_one_not_at_all(tenants: Database) -> None:
    assert fail(tenants, 1, minutes=5) == 1
    assert fail(tenants, 1, minutes=5) is None
    assert fail(tenants, 2, minutes=4) is None


def test_a_success_forgets_what_failed_before_it_and_of_its_own_work_alone(tenants: Database) -> None:
    fail(tenants, 1), fail(tenants, 2, profile=None), fail(tenants, 3, profile="q", minutes=2)
    with tenants.work("acme") as connection:
        assert [one.profile for one in failed_work(connection, "acme")] == [None, "p", "q"]
        for profile in ("p", "q"):
            record_success(connection, "acme", profile, NOW + timedelta(minutes=1))
        assert [one.profile for one in failed_work(connection, "acme")] == [None, "q"], "q failed after it"


def test_nobody_sees_the_failures_of_another_tenant(tenants: Database) -> None:
    fail(tenants, 1)
    with tenants.work("globex") as connection:
        assert failed_work(connection, "acme") == []
        assert connection.execute("SELECT count(*) FROM rag.work_attempts").fetchone() == (0,)
