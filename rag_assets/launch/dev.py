"""The Dagster UI and daemon, run to their end."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from rag_assets.children import start_python
from rag_assets.errors import UsageError
from rag_assets.hosts import is_loopback
from rag_assets.launch.guard import LOGIN
from rag_assets.launch.instance import dagster_environment, dagster_instance, refresh
from rag_assets.launch.services import TOKEN
from rag_assets.settings import Settings

_STOP_TIMEOUT_S = 60.0
_CODE = Path(__file__).resolve().parents[2]  # where `rag_assets` is imported from, and nothing else is looked for
_WORKSPACE = """\
load_from:
  - python_module:
      module_name: rag_assets.definitions
      location_name: rag
      working_directory: {code!r}
"""


def serve(settings: Settings, host: str, port: int, token: str | None) -> int:
    """Run the Dagster UI and daemon until they end or this process is told to; returns their exit code.

    Raises:
        UsageError: the port is taken; Dagster would quietly serve on another one.
    """
    _require_port(host, port)
    with dagster_instance(settings):
        pass  # the daemon's runs find the pool's limit set
    environment = {**os.environ, **dagster_environment(settings)}
    workspace = settings.dagster_home / "workspace.yaml"
    refresh(workspace, _WORKSPACE.format(code=str(_CODE)))
    environment.pop(TOKEN, None)
    if token:
        environment[TOKEN] = token
    arguments = ("-m", "rag_assets.launch.services", host, str(port), str(workspace), address_of(host, port))
    return run_child(*arguments, environment=environment)


def token_for(settings: Settings, host: str) -> str | None:
    """The token that requests have to bring: the one of `RAG_DEV_TOKEN`; else a new one where others than this machine
    reach the server, and none where they do not."""
    if settings.dev_token:
        return settings.dev_token.get_secret_value()
    return None if is_loopback(host) else secrets.token_urlsafe(32)


def address_of(host: str, port: int, token: str | None = None) -> str:
    """Where a person opens the UI; with a token, the link that logs in."""
    shown = socket.gethostname() if host in ("", "0.0.0.0", "::") else host  # nosec B104: compared
    shown = f"[{shown}]" if ":" in shown else shown
    return f"http://{shown}:{port}" + (f"{LOGIN}?token={token}" if token else "")


def _require_port(host: str, port: int) -> None:
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise UsageError(
            f"cannot serve on {host}:{port}: {error.strerror}. Choose another: rag dev --port {port + 1}"
        ) from error


def run_child(*arguments: str, environment: Mapping[str, str]) -> int:
    """Run a process of Python to its end, pass SIGINT and SIGTERM on to it, and return its exit code.

    One that does not end within 60 s of being told to is killed with all that it started.
    """
    told: list[tuple[float, int]] = []
    # Handlers first: a child started while a signal is ignored, as by `&` in a script, would ignore it too.
    before = {
        number: signal.signal(number, lambda signum, _frame: told.append((time.monotonic(), signum)))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        # A group of its own: the terminal's Ctrl-C reaches the child once, through us, and not twice.
        child = start_python(*arguments, environment=environment, start_new_session=True)
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
