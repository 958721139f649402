"""The Dagster UI and daemon, run to their end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from rag_assets.errors import UsageError
from rag_assets.launch.instance import dagster_instance, refresh
from rag_assets.settings import Settings

_STOP_TIMEOUT_S = 30.0
_WORKSPACE = """\
load_from:
  - python_module: {{module_name: rag_assets.definitions, location_name: rag, executable_path: {python!r}}}
"""


def serve(settings: Settings, host: str, port: int) -> int:
    """Run the Dagster UI and daemon until they end or this process is told to; returns their exit code.

    Raises:
        UsageError: the port is taken; Dagster would quietly serve on another one.
    """
    _require_port(host, port)
    with dagster_instance(settings):  # the daemon's runs find the pool's limit set
        environment = dict(os.environ)
    workspace = settings.dagster_home / "workspace.yaml"
    refresh(workspace, _WORKSPACE.format(python=sys.executable))
    command = [sys.executable, "-m", "dagster", "dev", "-w", str(workspace), "-h", host, "-p", str(port)]
    return run_child(command, environment)


def _require_port(host: str, port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise UsageError(
                f"cannot serve on {host}:{port}: {error.strerror}. Choose another: rag dev --port {port + 1}"
            ) from error


def run_child(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a process to its end, pass SIGINT and SIGTERM on to it, and return its exit code.

    One that does not end within 30 s of being told to is killed with all that it started.
    """
    told: list[tuple[float, int]] = []
    # Handlers first: a child started while a signal is ignored, as by `&` in a script, would ignore it too.
    before = {
        number: signal.signal(number, lambda signum, _frame: told.append((time.monotonic(), signum)))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        # A group of its own: the terminal's Ctrl-C reaches the child once, through us, and not twice.
        child = subprocess.Popen(command, env=environment, start_new_session=True)
        passed = 0
        while True:
            try:
                return child.wait(timeout=0.2)
            except subprocess.TimeoutExpired:
                for _, signum in told[passed:]:
                    child.send_signal(signum)
                passed = len(told)
                if told and time.monotonic() - told[0][0] > _STOP_TIMEOUT_S:
                    os.killpg(child.pid, signal.SIGKILL)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
