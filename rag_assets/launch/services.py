"""What `rag dev` consists of: code server, webserver and daemon, started, watched and ended together.

Dagster's own `dagster dev` does the same without our guard, with code from whatever folder it is started in, and
aloud: every event of every run is written to the terminal, which the UI shows anyway. Here they go to a file.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

import yaml
from dagster import DagsterInstance
from dagster._cli.proxy_server_manager import ProxyServerManager
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster._utils.interrupts import setup_interrupt_handlers
from dagster._utils.log import configure_loggers

from rag_assets.children import Child, start_python
from rag_assets.launch.activity import Activity
from rag_assets.launch.instance import refresh

TOKEN = "RAG_DEV_TOKEN"  # nosec B105: a name
LOG = "services.log"  # under DAGSTER_HOME; begun anew at each start
FAILED = 1
_LEVEL = "warning"
_LOOK_S, _END_S = 2.0, 20.0
_PARENT = os.getppid()


def main() -> int:
    """Run until told to end, or until one of the processes has ended; arguments are host, port, workspace file, and
    the address that a person opens."""
    host, port, workspace, address = sys.argv[1:]
    token = os.environ.pop(TOKEN, None)  # the webserver's alone
    terminal = _speak_to(Path(workspace).with_name(LOG))
    configure_loggers(formatter="colored", log_level=_LEVEL.upper())
    setup_interrupt_handlers()
    with (
        contextlib.suppress(KeyboardInterrupt),
        DagsterInstance.get() as instance,
        _served(instance, workspace) as file,
    ):
        environment = dict(os.environ)
        web = {**environment, TOKEN: token} if token else environment
        commands = {
            "webserver": (("-m", "rag_assets.launch.webserver", host, port, file), web),
            "daemon": (("-m", "rag_assets.launch.daemon", file), environment),
        }
        with _ended_together() as running:
            for name, (arguments, variables) in commands.items():
                running[name] = start_python(
                    *arguments, environment=variables, stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal
                )
            return _watch(running, Activity(instance, address), terminal)
    return 0


def _speak_to(path: Path) -> TextIO:
    """Write what this process and its code server print to a file from now on; returns the terminal as it was."""
    terminal = os.fdopen(os.dup(2), "w", encoding="utf-8", errors="backslashreplace")
    with path.open("wb") as file:
        for descriptor in (1, 2):
            os.dup2(file.fileno(), descriptor)
    return terminal


@contextlib.contextmanager
def _served(instance: DagsterInstance, workspace: str) -> Iterator[str]:
    """A workspace file that names the code server of `workspace`, which runs meanwhile."""
    target = WorkspaceFileTarget([workspace])
    with ProxyServerManager(instance, target, code_server_log_level=_LEVEL.upper()) as manager:
        path = Path(workspace).with_name("services.yaml")
        refresh(path, yaml.safe_dump({"load_from": list(manager.get_code_server_specs())}))
        yield str(path)


@contextlib.contextmanager
def _ended_together() -> Iterator[dict[str, Child]]:
    running: dict[str, Child] = {}
    try:
        yield running
    finally:
        for process in running.values():
            process.terminate()
        _await(list(running.values()))


def _await(processes: Sequence[Child]) -> None:
    deadline = time.monotonic() + _END_S
    for process in processes:
        try:
            process.wait(timeout=max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _watch(running: dict[str, Child], activity: Activity, terminal: TextIO) -> int:
    while os.getppid() == _PARENT:  # else `rag dev` was killed, and nobody is left who could end us
        time.sleep(_LOOK_S)
        for name, process in running.items():
            if process.poll() is not None:
                print(f"Error: the {name} has ended with status {process.returncode}", file=terminal, flush=True)
                return FAILED
        try:
            for line in activity.news():
                print(line, file=terminal, flush=True)
        except Exception as error:  # the database may be away for a while; Dagster's own processes wait for it too
            logging.getLogger("rag").debug("cannot look at runs: %s", error)
    return FAILED


if __name__ == "__main__":
    sys.exit(main())
