"""How many processors this process has."""

from __future__ import annotations

import os
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup/cpu.max")


def given_processors() -> int:
    """The processors that this process may run on, and of their time no more than its container has."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(usable, _quota() or usable))


def _quota() -> int | None:
    """The processors that a container may use in all, rounded up; None where nothing limits it."""
    try:
        allowed, _, period = _CGROUP.read_text(encoding="ascii").partition(" ")
        return -(-int(allowed) // int(period))
    except (OSError, ValueError):  # no such file, or "max"
        return None
