"""Dagster's webserver behind our guard: a process of `rag dev`."""

from __future__ import annotations

import socket
import sys
from ipaddress import ip_address
from pathlib import Path

import uvicorn
from dagster import DagsterInstance
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster_webserver.app import create_app_from_workspace_process_context

from rag_assets.errors import UsageError
from rag_assets.hosts import is_loopback
from rag_assets.launch.guard import Guard, Rules
from rag_assets.settings import Settings, load_settings

_STATEMENT_TIMEOUT_MS, _POOL_RECYCLE_S, _POOL_OVERFLOW = 15_000, 3_600, 20  # as in Dagster's own command
_POLL_MS = 2_000  # how often a page asks for what is new
_CLOSE_S = 3  # what open pages get to say goodbye


def main() -> None:
    """Serve until told to end; arguments are host, port and workspace file."""
    host, port, workspace = sys.argv[1:]
    rules = rules_for(host, int(port), load_settings())
    with DagsterInstance.get() as instance:
        instance.optimize_for_webserver(_STATEMENT_TIMEOUT_MS, _POOL_RECYCLE_S, _POOL_OVERFLOW)
        target = WorkspaceFileTarget([str(Path(workspace))])
        with WorkspaceProcessContext(instance, target, code_server_log_level="WARNING") as context:
            app = create_app_from_workspace_process_context(context, live_data_poll_rate=_POLL_MS)
            uvicorn.run(
                Guard(app, rules),
                host=host,
                port=int(port),
                log_level="error",
                server_header=False,
                timeout_graceful_shutdown=_CLOSE_S,
            )


def rules_for(host: str, port: int, settings: Settings) -> Rules:
    """Whom a server that listens on `host` lets in.

    Raises:
        UsageError: others reach the address, and there is no token.
    """
    token = settings.dev_token.get_secret_value() if settings.dev_token else None
    if token is None and not is_loopback(host):
        raise UsageError(f"others reach {host}: RAG_DEV_TOKEN has to be set")
    given = {name.strip("[]").lower() for name in (host, *settings.dev_hosts) if name}
    names = {"localhost", "127.0.0.1", "::1", *given}
    if _is_any(host):
        names |= {name.lower() for name in (socket.gethostname(), socket.getfqdn())}
    written = frozenset(f"[{name}]" if ":" in name else name for name in names)
    return Rules(written, any_address=_is_any(host), token=token, cookie=f"rag_dev_{port}")


def _is_any(host: str) -> bool:
    try:
        return not host or ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return False


if __name__ == "__main__":
    main()
