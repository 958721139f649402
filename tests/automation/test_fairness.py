"""No tenant waits for what is wrong with another: sensors ask nobody, have little time, and take turns."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import dagster as dg
import psycopg
import pytest

from rag_assets.automation import looks as looks_module
from rag_assets.automation import new_sources as sensor
from rag_assets.automation import pending
from rag_assets.automation.history import leave_lanes
from rag_assets.automation.jobs import PAIR_JOB, SOURCES_JOB
from rag_assets.automation.looks import Looks
from rag_assets.automation.work import Look, SensorMemory
from rag_assets.embedding.profiles import make_profile
from rag_assets.ingest.pairs import enable_pair
from rag_assets.partitions import PROFILE_TAG, TENANT_TAG, ensure_partitions, pair_key
from rag_assets.resources import Postgres
from rag_assets.runs.lanes import AFTER_TAG, LANE_TAG
from rag_assets.sources import scan
from rag_assets.store.attempts import LONGEST_PAUSE_S, failed_work
from rag_assets.store.profiles import add_spec
from rag_assets.store.roots import Root, add_root
from tests.support.dagster_world import PROFILE, World, keys


def requests_of(world: World) -> list[dg.RunRequest]:
    requested = world.tick()
    return [] if isinstance(requested, str) else requested


def fail(world: World, request: dg.RunRequest, message: str = "the provider is away") -> dg.DagsterRun:
    """What happens when a requested run fails."""
    run = dg.DagsterRun(
        job_name=request.job_name or "",
        tags={**request.tags, "dagster/partition": str(request.partition_key), **request_tags(request)},
        status=dg.DagsterRunStatus.STARTED,
    )
    world.instance.add_run(run)
    world.instance.report_run_failed(run, message)
    return run


def request_tags(request: dg.RunRequest) -> dict[str, str]:
    key = request.partition_key
    return {PROFILE_TAG: key.keys_by_dimension["profile"]} if isinstance(key, dg.MultiPartitionKey) else {}


def elapse(world: World, tenant: str, seconds: float) -> None:
    """Let time pass for what has failed."""
    with world.database.work(tenant) as connection:
        connection.execute(
            "UPDATE rag.work_attempts SET last_at = last_at - %(by)s, next_try_at = next_try_at - %(by)s",
            {"by": timedelta(seconds=seconds)},
        )


@pytest.fixture
def slow_scans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], threading.Event]]:
    """Roots of a tenant whose listing hangs until its event is set."""
    hanging: dict[str, threading.Event] = {}
    real = pending.list_root

    def list_root(database: Any, root: Root, *rest: Any) -> Any:
        for part, event in hanging.items():
            if part in root.uri:
                event.wait(60)
        return real(database, root, *rest)

    monkeypatch.setattr(pending, "list_root", list_root)
    yield lambda part: hanging.setdefault(part, threading.Event())
    for event in hanging.values():
        event.set()


@pytest.mark.slow
def test_a_sensor_asks_no_server_and_a_run_does_when_a_root_is_due(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.tenant("acme")
    for uri in ("https://example.com/sitemap.xml", "https://example.com/page", "s3://bucket/folder"):
        add_root(world.database, "acme", "help", uri)

    def refuse(*_: object) -> None:
        raise AssertionError("a sensor asked a server")

    for name in ("scan_web", "scan_remote"):
        monkeypatch.setattr(scan, name, refuse)
    (request,) = requests_of(world)
    assert (request.job_name, request.partition_key) == (SOURCES_JOB, "acme")
    assert request.tags[LANE_TAG] == "outside"
    with psycopg.connect(world.database.url) as connection:  # as a run does that has looked
        connection.execute("UPDATE rag.source_roots SET scanned_at = now(), next_scan_at = now() + interval '15 min'")
    assert str(world.tick()).startswith("nothing new")
    with psycopg.connect(world.database.url) as connection:
        connection.execute("UPDATE rag.source_roots SET next_scan_at = now() WHERE uri LIKE 's3%'")
    assert keys(world.tick()) == [(SOURCES_JOB, "acme")]


@pytest.mark.slow
def test_with_a_tiny_budget_every_tenant_is_looked_at_in_turn_and_nothing_known_is_lost(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"t{number}" for number in range(5)]
    for name in names:
        (world.tenant(name) / "a.txt").write_text(f"The pump of {name} is dry.")
    monkeypatch.setattr(sensor, "_BUDGET_S", 0.0)
    real = sensor._looks.look
    monkeypatch.setattr(sensor._looks, "look", lambda *words: real(*words[:3], 60.0))
    asked = []
    for _ in names:
        requested = requests_of(world)
        assert len(requested) == 1, "one tenant fits into a tick, and one is always looked at"
        asked += [request.partition_key for request in requested]
    assert sorted(str(name) for name in asked) == names
    seen = SensorMemory.load(world.cursor).seen
    assert set(seen) == {f"sources:{name}" for name in names}, "what was known of the others is kept"


@pytest.mark.slow
def test_a_tenant_whose_disk_hangs_is_looked_at_once_and_holds_up_nobody(
    world: World, slow_scans: Callable[[str], threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a-hangs", "b-well"):
        (world.tenant(name) / "a.txt").write_text("The pump is dry.")
    back = slow_scans("a-hangs")
    monkeypatch.setattr(sensor, "_WAIT_S", 0.3)
    for _ in range(3):
        began = time.monotonic()
        requested = requests_of(world)
        assert [request.partition_key for request in requested] == ["b-well"]
        assert time.monotonic() - began < 30
        assert sum(thread.name == "look at a-hangs" for thread in threading.enumerate()) == 1
    world.obey([one for one in requested if one.partition_key == "b-well"])
    world.obey(world.tick())
    assert "still looking at: a-hangs" in str(world.tick())
    back.set()
    until = time.monotonic() + 30
    while not (requested := requests_of(world)) and time.monotonic() < until:
        time.sleep(0.1)
    assert [request.partition_key for request in requested] == ["a-hangs"]


def test_a_look_that_took_long_is_followed_by_a_rest() -> None:
    looks, done = Looks(), []

    def slow() -> Look:
        done.append(time.sleep(0.6))
        return Look()

    assert looks.look("db", "acme", slow, 10) is not None
    assert looks.look("db", "acme", slow, 10) is None, "it is too early for another"
    assert len(done) == 1
    assert looks.look("db", "globex", Look, 10) is not None, "another tenant has no rest to wait for"
    assert looks.look("db", "globex", Look, 10) is not None


def test_the_rest_after_a_look_is_no_longer_for_being_collected_late_or_for_a_disk_that_hung(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(looks_module, "_NO_REST_BELOW_S", 0.05)
    looks, go = Looks(), threading.Event()

    def short() -> Look:
        go.wait(10)
        return Look()

    assert looks.look("db", "acme", short, 0.0) is None
    go.set()
    time.sleep(1)  # the tick after it has others to look at
    assert looks.look("db", "acme", Look, 10) is not None
    time.sleep(0.2)
    assert looks.look("db", "acme", Look, 10) is not None, "it is looked at again, not after nine seconds"
    monkeypatch.setattr(looks_module, "_LONGEST_REST_S", 0.1)
    assert looks.look("db", "globex", lambda: Look(roots=time.sleep(0.3) or 1), 10) is not None
    time.sleep(0.2)
    assert looks.look("db", "globex", Look, 10) is not None


def test_what_a_look_raises_is_raised_where_it_is_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks_module, "_NO_REST_BELOW_S", 10.0)
    looks, go = Looks(), threading.Event()

    def fails() -> Look:
        go.wait(10)
        raise TimeoutError("the disk says so")

    assert looks.look("db", "acme", fails, 0.01) is None
    assert looks.going_on("db", "acme") is not None
    go.set()
    with pytest.raises(TimeoutError, match="the disk says so"):
        looks.look("db", "acme", Look, 10)
    assert looks.look("db", "acme", Look, 10) is not None


@pytest.mark.slow
def test_the_pauses_after_failures_grow_to_an_hour_and_never_end(world: World) -> None:
    (world.tenant("acme") / "a.txt").write_text("The pump is dry.")
    (request,) = requests_of(world)
    keys_used, pauses = {request.run_key}, []
    for _ in range(12):
        fail(world, request)
        told = world.tick()
        assert isinstance(told, str)
        assert "the provider is away" in told
        assert "next try" in told
        with world.database.work("acme") as connection:
            (failed,) = failed_work(connection, "acme")
        pauses.append((failed.next_try_at - failed.last_at).total_seconds())
        assert failed.attempts == len(pauses)
        elapse(world, "acme", pauses[-1] - 20)
        assert isinstance(world.tick(), str), "its pause is not over"
        elapse(world, "acme", 40)
        (request,) = requests_of(world)
        assert request.run_key not in keys_used
        keys_used.add(request.run_key)
        assert request.tags[LANE_TAG] == "retry"
    assert pauses == [min(60.0 * 2**number, LONGEST_PAUSE_S) for number in range(12)]
    world.obey([request])
    world.tick()
    with world.database.work("acme") as connection:
        assert failed_work(connection, "acme") == [], "it has succeeded"


@pytest.mark.slow
def test_a_new_file_does_not_wait_for_the_pause_of_another_that_failed(world: World) -> None:
    root = world.tenant("acme")
    (root / "a.txt").write_text("The pump is dry.")
    (request,) = requests_of(world)
    for _ in range(8):
        fail(world, request)
        world.tick()
        elapse(world, "acme", 3600)
        (request,) = requests_of(world)
    fail(world, request)
    assert isinstance(world.tick(), str)
    (root / "b.txt").write_text("The valve is shut.")
    assert isinstance(world.tick(), str), "but not more often than once a minute"
    elapse(world, "acme", 61)
    assert keys(world.tick()) == [(SOURCES_JOB, "acme")]


@pytest.mark.slow
def test_a_candidate_waits_for_what_serves_and_never_the_other_way_round(world: World) -> None:
    root = world.tenant("acme")
    (root / "a.txt").write_text("The pump is dry.")
    world.ingest("acme")
    for name in ("a-candidate", "b-candidate"):
        add_spec(world.database, make_profile(name=name, provider="hash", model="hash", dimensions=8))
        enable_pair(world.database, "acme", "help", name)
        ensure_partitions(world.instance, [], [name])
    (root / "b.txt").write_text("The valve is shut.")
    world.obey(world.tick())
    serving, *candidates = requests_of(world)
    assert serving.partition_key == pair_key("acme", PROFILE.name)
    assert len(candidates) == 2
    for candidate in candidates:
        assert int(candidate.tags["dagster/priority"]) < int(serving.tags["dagster/priority"])
        assert candidate.tags[AFTER_TAG] != serving.tags[AFTER_TAG], "it does not wait for them in the queue"
    fail(world, candidates[0], "no key is set")
    world.obey([serving, candidates[1]])
    (root / "c.txt").write_text("The tank is full.")
    world.obey(world.tick())
    first = requests_of(world)
    assert [request.partition_key for request in first] == [
        pair_key("acme", PROFILE.name),
        pair_key("acme", "b-candidate"),
    ], "the broken one has its pause"


@pytest.mark.slow
def test_runs_that_turn_out_to_be_slow_leave_their_place_to_others(world: World) -> None:
    def running(lane: str) -> str:
        run = dg.DagsterRun(job_name=PAIR_JOB, tags={LANE_TAG: lane}, status=dg.DagsterRunStatus.STARTING)
        world.instance.add_run(run)
        world.instance.report_dagster_event(
            dg.DagsterEvent(event_type_value="PIPELINE_START", job_name=PAIR_JOB), run_id=run.run_id
        )
        return run.run_id

    runs = [running("quick") for _ in range(5)]
    assert leave_lanes(world.instance, time.time()) == []
    moved = leave_lanes(world.instance, time.time() + 61)
    assert len(moved) == 3, "not all: they would take every place that there is"
    lanes = [world.instance.get_run_by_id(run) for run in runs]
    assert sorted(run.tags[LANE_TAG] for run in lanes if run) == ["bulk"] * 3 + ["quick"] * 2
    assert leave_lanes(world.instance, time.time() + 61) == []


@pytest.mark.slow
def test_a_failure_is_shown_at_the_asset_once(world: World) -> None:
    (world.tenant("acme") / "a.txt").write_text("The pump is dry.")
    (request,) = requests_of(world)
    fail(world, request, "no key is set")
    results = []
    for _ in range(2):
        context = dg.build_sensor_context(instance=world.instance, cursor=world.cursor)
        result: Any = sensor.new_sources(context, postgres=Postgres(url=world.database.url))
        world.cursor = result.cursor
        results.append(result.asset_events)
    (observation,) = results[0]
    assert observation.partition == "acme"
    assert observation.metadata["failed_attempts"].value == 1
    assert "no key is set" in observation.metadata["last_error"].value
    assert results[1] == []


@pytest.mark.slow
def test_the_row_of_a_failure_goes_with_the_pair_that_is_not_enabled_any_more(world: World) -> None:
    world.tenant("acme", profile=None)
    run = dg.DagsterRun(
        job_name=PAIR_JOB,
        tags={TENANT_TAG: "acme", PROFILE_TAG: PROFILE.name},
        status=dg.DagsterRunStatus.STARTED,
    )
    world.instance.add_run(run)
    world.instance.report_run_failed(run)
    assert str(world.tick()).startswith("nothing new")
    with world.database.work("acme") as connection:
        assert failed_work(connection, "acme") == []
