"""Which process executes a run, so that a run whose process was killed does not count as running for ever.

Dagster's own monitoring cannot ask a process that it did not launch, and a run that is taken for running
holds the tenant's place in the queue.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import dagster as dg
import psutil

PROCESS_TAG = "rag/process"
UNMARKED_AFTER = timedelta(minutes=10)
_INTERRUPTED_S = 30.0
_ALIVE_UNTIL_PROVEN_DEAD = (dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING)


def this_process() -> str:
    """Host, process id and start time of this process: an id alone is used again."""
    process = psutil.Process()
    return f"{socket.gethostname()}:{process.pid}:{process.create_time():.0f}"


def is_dead(mark: str) -> bool:
    """Whether the marked process is known to be gone. Of another host's processes nothing is known."""
    try:
        host, pid, started = mark.rsplit(":", 2)
        if host != socket.gethostname():
            return False
        process = psutil.Process(int(pid))
        # Clock adjustments move the computed start time by a second or so.
        began: float = process.create_time()
        return abs(began - float(started)) > 5 or process.status() == psutil.STATUS_ZOMBIE
    except ValueError:
        return False
    except psutil.NoSuchProcess:
        return True


def report_dead_runs(instance: dg.DagsterInstance, jobs: tuple[str, ...]) -> list[str]:
    """Mark runs as failed whose process is gone; returns their ids.

    A run of `jobs` that has not marked its process long after it started died before its first step.
    """
    now = datetime.now(UTC)
    dead = []
    for record in instance.get_run_records(dg.RunsFilter(statuses=list(_ALIVE_UNTIL_PROVEN_DEAD))):
        run = record.dagster_run
        mark = run.tags.get(PROCESS_TAG)
        if mark is None:
            started = datetime.fromtimestamp(record.start_time or now.timestamp(), UTC)
            gone = run.job_name in jobs and now - started > UNMARKED_AFTER
        else:
            gone = is_dead(mark)
        if gone:
            instance.report_run_failed(run, "The process that executed this run is gone.")
            dead.append(run.run_id)
    return dead


def interrupt(mark: str) -> bool:
    """Tell the marked process to end what it does, as Ctrl-C would; kill it if it has not 30 s later.

    False if it is gone, runs on another host, or belongs to another user.
    """
    host, pid, _ = mark.rsplit(":", 2) if mark.count(":") >= 2 else ("", "0", "")
    if host != socket.gethostname() or is_dead(mark):
        return False
    try:
        os.kill(int(pid), signal.SIGINT)
    except OSError:
        return False
    timer = threading.Timer(_INTERRUPTED_S, _kill, [mark])
    timer.daemon = True
    timer.start()
    return True


def _kill(mark: str) -> None:
    if not is_dead(mark):
        with suppress(OSError):
            os.kill(int(mark.rsplit(":", 2)[1]), signal.SIGKILL)
