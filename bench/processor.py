"""Processor time, which says what something costs also on a machine that is busy with other things."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import psutil


def own() -> float:
    """Seconds that this process has used so far, with its children that have ended."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def server(home: Path) -> float:
    """Seconds that the embedded server of a home has used so far, with all of its processes, to a hundredth."""
    postmaster = psutil.Process(int((home / "postgres" / "postmaster.pid").read_text().splitlines()[0]))
    times = postmaster.cpu_times()
    used: float = times.user + times.system + times.children_user + times.children_system
    for child in postmaster.children():
        try:
            times = child.cpu_times()
            used += times.user + times.system
        except psutil.NoSuchProcess:
            continue  # counted as a child that has ended, next time
    return used


def backend(pid: int) -> float:
    """Seconds that one process has used so far, to the nanosecond, as Linux tells it; 0 elsewhere."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    except OSError:
        return 0.0


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
