from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import psycopg
import pytest

from rag_assets.automation import history, pending
from rag_assets.automation.jobs import PAIR_JOB, SOURCES_JOB
from rag_assets.automation.new_sources import new_sources
from rag_assets.partitions import TENANT_TAG, pair_key
from rag_assets.resources import Postgres
from rag_assets.sources.listing import KnownFile
from rag_assets.store.database import Database
from rag_assets.store.roots import Root
from tests.support.dagster_world import PROFILE, World, keys

pytestmark = pytest.mark.slow  # runs of Dagster, or whole ingests and evaluations, in each

QUIET = "nothing new under"


def pair_request(tenant: str) -> tuple[str, str]:
    return (PAIR_JOB, pair_key(tenant, PROFILE.name))


def due_now(world: World, tenant: str) -> None:
    """What has failed has waited for long enough."""
    with world.database.work(tenant) as connection:
        connection.execute("UPDATE rag.work_attempts SET next_try_at = now()")


def settle(world: World) -> None:
    """Do what is requested until nothing is."""
    for _ in range(6):
        requested = world.tick()
        if isinstance(requested, str):
            assert requested.startswith(QUIET)
            return
        world.obey(requested)
    pytest.fail(f"the sensor does not come to rest: {requested}")


def test_a_new_file_asks_for_its_tenant_then_for_the_pair_then_for_nothing(world: World) -> None:
    acme, _ = world.tenant("acme"), world.tenant("globex")
    assert world.tick() == "nothing new under 2 roots"
    (acme / "a.txt").write_text("The pump is dry.")

    first = world.tick()
    assert keys(first) == [(SOURCES_JOB, "acme")]
    world.obey(first)
    second = world.tick()
    assert keys(second) == [pair_request("acme")]
    world.obey(second)

    assert world.tick() == "nothing new under 2 roots"
    assert world.served("acme") == ["The pump is dry."]


def test_an_edit_replaces_and_a_deletion_removes_what_is_served(world: World) -> None:
    root = world.tenant("acme")
    (root / "a.txt").write_text("The pump is dry.")
    (root / "b.txt").write_text("The valve is shut.")
    settle(world)
    (root / "a.txt").write_text("The pump is wet again.")
    settle(world)
    assert world.served("acme") == ["The pump is wet again.", "The valve is shut."]
    (root / "b.txt").unlink()
    settle(world)
    assert world.served("acme") == ["The pump is wet again."]


@pytest.mark.slow
def test_a_file_edited_and_reverted_and_edited_again_is_served_each_time(world: World) -> None:
    path = world.tenant("acme") / "a.txt"
    used: set[str] = set()
    for turn, text in enumerate(["Version A.", "Version B."] * 3):
        path.write_text(text)
        # The same size and time each time it holds the same text, as after `cp -p` or a checkout.
        os.utime(path, (1000 + turn % 2, 1000 + turn % 2))
        for _ in range(2):
            requested = world.tick()
            assert not isinstance(requested, str), f"turn {turn}: {requested}"
            (request,) = requested
            assert request.run_key not in used, "this run key was used before, so the daemon starts no run"
            used.add(request.run_key or "")
            world.obey(requested)
        assert world.served("acme") == [text]
        assert isinstance(world.tick(), str)


def test_nothing_is_asked_for_twice_while_a_run_is_waiting(world: World) -> None:
    root = world.tenant("acme")
    (root / "a.txt").write_text("The pump is dry.")
    (request,) = world.tick()
    assert isinstance(request, dg.RunRequest)
    world.instance.add_run(
        dg.DagsterRun(
            job_name=SOURCES_JOB,
            tags={**request.tags, TENANT_TAG: "acme"},
            status=dg.DagsterRunStatus.STARTING,
        )
    )
    assert "waiting for a run that is under way" in world.tick()
    (root / "b.txt").write_text("The valve is shut.")
    assert isinstance(world.tick(), str), "the waiting run will read this file as well"


def test_an_unreadable_root_is_not_an_empty_one_and_does_not_stop_another_tenant(world: World) -> None:
    acme, globex = world.tenant("acme"), world.tenant("globex")
    (acme / "a.txt").write_text("The pump is dry.")
    settle(world)
    acme.rename(acme.with_name("elsewhere"))
    (globex / "b.txt").write_text("The valve is shut.")
    assert keys(world.tick()) == [(SOURCES_JOB, "globex")]
    settle(world)
    assert world.served("acme") == ["The pump is dry."]
    assert world.served("globex") == ["The valve is shut."]


def test_a_file_that_cannot_be_parsed_does_not_keep_the_sensor_busy(world: World) -> None:
    root = world.tenant("acme")
    (root / "bad.pdf").write_bytes(b"%PDF-1.7 this is not one")
    (root / "good.txt").write_text("The pump is dry.")
    settle(world)
    assert world.served("acme") == ["The pump is dry."]


def test_a_failed_run_is_tried_again_after_a_pause_under_another_key(world: World) -> None:
    root = world.tenant("acme")
    (root / "a.txt").write_text("The pump is dry.")
    (request,) = world.tick()
    assert isinstance(request, dg.RunRequest)
    run = dg.DagsterRun(job_name=SOURCES_JOB, tags=request.tags, status=dg.DagsterRunStatus.STARTED)
    world.instance.add_run(run)
    world.instance.report_run_failed(run)
    assert isinstance(world.tick(), str), "a failure is followed by a pause"
    due_now(world, "acme")
    (again,) = world.tick()
    assert isinstance(again, dg.RunRequest)
    assert again.run_key == f"{request.run_key}:after-{run.run_id}"
    world.obey([again])
    settle(world)
    assert world.served("acme") == ["The pump is dry."]


def test_a_run_whose_process_was_killed_is_noticed_and_done_again(world: World) -> None:
    root = world.tenant("acme")
    (root / "a.txt").write_text("The pump is dry.")
    (request,) = world.tick()
    assert isinstance(request, dg.RunRequest)
    killed = dg.DagsterRun(
        job_name=SOURCES_JOB,
        tags={**request.tags, "rag/process": f"{socket.gethostname()}:{2**22 + 1}:0"},
        status=dg.DagsterRunStatus.STARTED,
    )
    world.instance.add_run(killed)
    assert isinstance(world.tick(), str), "it is only now known to have failed"
    due_now(world, "acme")
    assert keys(world.tick()) == [(SOURCES_JOB, "acme")]
    found = world.instance.get_run_by_id(killed.run_id)
    assert found is not None
    assert found.status == dg.DagsterRunStatus.FAILURE


def test_a_pair_whose_run_failed_after_publication_is_finished(world: World) -> None:
    root = world.tenant("acme")
    (root / "a.txt").write_text("The pump is dry.")
    settle(world)
    failed = dg.DagsterRun(
        job_name=PAIR_JOB,
        tags={TENANT_TAG: "acme", "dagster/partition/profile": PROFILE.name},
        status=dg.DagsterRunStatus.STARTED,
    )
    world.instance.add_run(failed)
    world.instance.report_run_failed(failed)
    assert isinstance(world.tick(), str)
    due_now(world, "acme")
    requested = world.tick()
    assert keys(requested) == [pair_request("acme")]
    world.obey(requested)
    assert isinstance(world.tick(), str)


def test_a_tenant_that_cannot_be_looked_at_does_not_stop_the_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    acme, globex = world.tenant("acme"), world.tenant("globex")
    (acme / "a.txt").write_text("The pump is dry.")
    (globex / "b.txt").write_text("The valve is shut.")

    scan = pending.list_root

    def break_for_acme(database: Database, root: Root, known: Mapping[str, KnownFile]) -> object:
        if "acme" in root.uri:
            raise RuntimeError("a driver of its own went wrong")
        return scan(database, root, known)

    monkeypatch.setattr(pending, "list_root", break_for_acme)
    assert keys(world.tick()) == [(SOURCES_JOB, "globex")]
    with psycopg.connect(world.database.url) as connection:
        connection.execute("DELETE FROM rag.source_roots WHERE tenant_id = 'globex'")
    monkeypatch.setattr(pending, "built_profiles", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        world.tick()  # nothing could be looked at: the tick has to show it


def test_a_database_that_does_not_answer_is_a_reason_to_skip(tmp_path: Path) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        context = dg.build_sensor_context(instance=instance, cursor="kept")
        url = f"postgresql://nobody@/none?host={tmp_path}"
        result = new_sources(context, postgres=Postgres(url=url))
    assert isinstance(result, dg.SkipReason)
    assert "cannot connect to database none" in (result.skip_message or "")


def test_partitions_of_new_tenants_and_profiles_are_added_with_the_request(world: World) -> None:
    root = world.tenant("acme")
    (root / "a.txt").write_text("The pump is dry.")
    world.instance.delete_dynamic_partition("tenant", "acme")
    world.instance.delete_dynamic_partition("profile", PROFILE.name)
    context = dg.build_sensor_context(instance=world.instance)
    result = new_sources(context, postgres=Postgres(url=world.database.url))
    assert isinstance(result, dg.SensorResult)
    added = {
        request.partitions_def_name: request.partition_keys for request in result.dynamic_partitions_requests or []
    }
    assert added == {"tenant": ["acme"], "profile": [PROFILE.name]}


def test_a_pair_that_a_command_line_is_about_to_build_is_left_to_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = world.tenant("acme")
    (root / "a.txt").write_text("The pump is dry.")
    world.run(SOURCES_JOB, "acme", tags={TENANT_TAG: "acme", history.ORIGIN_TAG: history.COMMAND_LINE})
    assert isinstance(world.tick(), str)
    monkeypatch.setattr(history, "_HAND_OVER", timedelta(seconds=-60))
    assert keys(world.tick()) == [pair_request("acme")]


def test_quiet_ticks_read_no_file(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    root = world.tenant("acme")
    (root / "a.txt").write_text("The pump is dry.")
    settle(world)
    read: list[str] = []
    opened = Path.open

    def noted(path: Path, *words: Any, **named: Any) -> Any:
        read.append(str(path))
        return opened(path, *words, **named)

    monkeypatch.setattr(Path, "open", noted)
    assert isinstance(world.tick(), str)
    assert [path for path in read if path.startswith(str(root))] == []
    (root / "b.txt").write_text("The valve is shut.")
    world.obey(world.tick())
    assert str(root / "b.txt") in read, "a run reads it"
