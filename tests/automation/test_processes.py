from __future__ import annotations

import socket
import subprocess
import sys
from datetime import timedelta

import dagster as dg
import psutil
import pytest

from rag_assets.runs import processes
from rag_assets.runs.processes import PROCESS_TAG, is_dead, report_dead_runs, this_process


def test_this_process_is_alive() -> None:
    assert not is_dead(this_process())


def test_a_process_that_has_ended_is_dead() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    mark = f"{socket.gethostname()}:{child.pid}:{psutil.Process(child.pid).create_time():.0f}"
    assert not is_dead(mark)
    child.communicate()
    assert is_dead(mark)


def test_another_process_with_the_same_id_is_not_the_one_that_was_marked() -> None:
    host, pid, started = this_process().rsplit(":", 2)
    assert is_dead(f"{host}:{pid}:{int(started) - 1000}")


@pytest.mark.parametrize("mark", ["elsewhere:1:0", "no mark at all", "", "a:b:c"])
def test_nothing_is_claimed_of_processes_elsewhere(mark: str) -> None:
    assert not is_dead(mark)


def test_only_runs_whose_process_is_gone_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        gone = f"{socket.gethostname()}:{2**22 + 1}:0"
        dead, alive, unmarked = (
            dg.DagsterRun(job_name="ours", tags=tags, status=dg.DagsterRunStatus.STARTED)
            for tags in ({PROCESS_TAG: gone}, {PROCESS_TAG: this_process()}, {})
        )
        for run in (dead, alive, unmarked):
            instance.add_run(run)
        assert report_dead_runs(instance, ("ours",)) == [dead.run_id]
        assert report_dead_runs(instance, ("ours",)) == []
        monkeypatch.setattr(processes, "UNMARKED_AFTER", timedelta(seconds=-1))
        assert report_dead_runs(instance, ("another",)) == []
        assert report_dead_runs(instance, ("ours",)) == [unmarked.run_id]
