from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import psutil
import pytest
from dagster._core.launcher import WorkerStatus

from rag_assets.runs import launcher as launchers
from rag_assets.runs import processes
from rag_assets.runs.lanes import LANE_TAG
from rag_assets.runs.launcher import WarmRunLauncher
from rag_assets.runs.processes import PROCESS_TAG, is_dead
from tests.support.workers import launched

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not launchers._CAN_FORK, reason="runs are not forked here"),
]
ENDED = (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)
LAUNCHER = {
    "module": "rag_assets.runs.launcher",
    "class": "WarmRunLauncher",
    "config": {"preload": [launched.__name__]},
}


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with dg.instance_for_test(temp_dir=str(tmp_path), overrides={"run_launcher": LAUNCHER}) as made:
        yield made


def launch(instance: dg.DagsterInstance, job: dg.JobDefinition, tags: dict[str, str] | None = None) -> str:
    origin = dg.reconstructable(job).get_python_origin()
    run = instance.create_run_for_job(job, job_code_origin=origin, tags=tags)
    instance.launch_run(run.run_id, workspace=None)  # type: ignore[arg-type]
    return run.run_id


def found(instance: dg.DagsterInstance, run_id: str) -> dg.DagsterRun:
    run = instance.get_run_by_id(run_id)
    assert run is not None
    return run


def status_of(instance: dg.DagsterInstance, run_id: str, *wanted: dg.DagsterRunStatus) -> dg.DagsterRunStatus:
    """The status of a run, as soon as it is one of those wanted, or after a minute."""
    until = time.monotonic() + 60
    while (status := found(instance, run_id).status) not in wanted and time.monotonic() < until:
        time.sleep(0.05)
    return status


def process_of(instance: dg.DagsterInstance, run_id: str) -> psutil.Process:
    return psutil.Process(int(found(instance, run_id).tags[PROCESS_TAG].rsplit(":", 2)[1]))


def told(instance: dg.DagsterInstance, run_id: str) -> list[int]:
    lines = [entry.user_message for entry in instance.all_logs(run_id)]
    (line,) = [line for line in lines if line.startswith("imported by")]
    return [int(number) for number in re.findall(r"\d+", line)]


def test_each_run_has_a_process_of_its_own_and_none_imports_anew(instance: dg.DagsterInstance) -> None:
    runs = [launch(instance, launched.telling) for _ in range(2)]
    assert [status_of(instance, run, *ENDED) for run in runs] == [dg.DagsterRunStatus.SUCCESS] * 2
    (importer, first, _), (same, second, _) = (told(instance, run) for run in runs)
    assert importer == same
    assert len({importer, first, second, os.getpid()}) == 4


def test_a_run_with_much_to_do_stands_back(instance: dg.DagsterInstance) -> None:
    quick, bulk = launch(instance, launched.telling), launch(instance, launched.telling, {LANE_TAG: "bulk"})
    for run in (quick, bulk):
        assert status_of(instance, run, *ENDED) == dg.DagsterRunStatus.SUCCESS
    assert told(instance, bulk)[2] > told(instance, quick)[2]


def test_a_run_whose_process_crashes_has_failed_and_says_how(instance: dg.DagsterInstance) -> None:
    run = launch(instance, launched.crashing)
    assert status_of(instance, run, *ENDED) == dg.DagsterRunStatus.FAILURE
    said = [entry.dagster_event.message or "" for entry in instance.all_logs(run) if entry.dagster_event]
    assert any("SIGKILL" in message for message in said)
    assert status_of(instance, launch(instance, launched.telling), *ENDED) == dg.DagsterRunStatus.SUCCESS


def test_a_run_that_is_terminated_ends_and_is_cancelled(instance: dg.DagsterInstance) -> None:
    run = launch(instance, launched.waiting)
    assert status_of(instance, run, dg.DagsterRunStatus.STARTED) == dg.DagsterRunStatus.STARTED
    process = process_of(instance, run)
    assert instance.run_launcher.terminate(run)
    assert status_of(instance, run, *ENDED) == dg.DagsterRunStatus.CANCELED
    process.wait(30)
    assert not instance.run_launcher.terminate(run), "it has ended"


def test_a_run_that_does_not_listen_is_killed_and_is_cancelled(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_INTERRUPTED_S", 0.5)
    run = launch(instance, launched.deaf)
    status_of(instance, run, dg.DagsterRunStatus.STARTED)
    time.sleep(1)  # until its step is deaf
    process = process_of(instance, run)
    assert instance.run_launcher.terminate(run)
    assert status_of(instance, run, *ENDED) == dg.DagsterRunStatus.CANCELED
    process.wait(30)


def test_a_run_goes_on_when_who_launched_it_has_left(instance: dg.DagsterInstance) -> None:
    run = launch(instance, launched.lingering)
    server = process_of(instance, run).parent()
    instance.run_launcher.dispose()
    assert status_of(instance, run, *ENDED) == dg.DagsterRunStatus.SUCCESS
    assert server is not None
    server.wait(30)


def test_a_fork_server_that_was_killed_is_replaced_and_its_runs_go_on(instance: dg.DagsterInstance) -> None:
    run = launch(instance, launched.lingering)
    server = process_of(instance, run).parent()
    assert server is not None
    server.send_signal(signal.SIGKILL)
    while server.is_running() and server.status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.05)
    assert status_of(instance, launch(instance, launched.telling), *ENDED) == dg.DagsterRunStatus.SUCCESS
    assert status_of(instance, run, *ENDED) == dg.DagsterRunStatus.SUCCESS


def test_a_run_that_lost_its_process_and_its_fork_server_is_known_to_be_gone(instance: dg.DagsterInstance) -> None:
    run = launch(instance, launched.waiting)
    status_of(instance, run, dg.DagsterRunStatus.STARTED)
    assert instance.run_launcher.check_run_worker_health(found(instance, run)).status == WorkerStatus.RUNNING
    process = process_of(instance, run)
    server = process.parent()
    assert server is not None
    server.send_signal(signal.SIGKILL)
    process.send_signal(signal.SIGKILL)
    until = time.monotonic() + 30
    while not is_dead(found(instance, run).tags[PROCESS_TAG]) and time.monotonic() < until:
        time.sleep(0.05)
    assert instance.run_launcher.check_run_worker_health(found(instance, run)).status == WorkerStatus.FAILED


def test_what_cannot_be_started_is_an_error_of_the_launch(instance: dg.DagsterInstance) -> None:
    assert isinstance(instance.run_launcher, WarmRunLauncher)
    instance.run_launcher._preload = ["no.such.module"]
    with pytest.raises(Exception, match="could not be started"):
        launch(instance, launched.telling)


def test_where_nothing_can_be_forked_runs_start_as_dagsters_own_do(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launchers, "_CAN_FORK", False)
    with pytest.raises(Exception, match="DefaultRunLauncher requires a workspace"):
        launch(instance, launched.telling)
