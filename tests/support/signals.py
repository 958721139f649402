"""Signals as a process of a test gets them."""

from __future__ import annotations

import signal


def hear_ctrl_c() -> None:
    """What a new process does first: a shell that runs tests in the background has Ctrl-C ignored in all of them."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
