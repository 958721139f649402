"""Dagster's daemon: a process of `rag dev`.

Dagster's own command first reads the file `.env` of the working folder into its environment. Where documents lie, that
is a document: a `PYTHONPATH` in it would run code of its author, and an address in it would be sent our keys.
"""

from __future__ import annotations

import sys
from contextlib import suppress

from dagster import DagsterInstance
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster._daemon.controller import daemon_controller_from_instance
from dagster._utils.interrupts import capture_interrupts, setup_interrupt_handlers

_LEVEL = "warning"


def main() -> None:
    """Run until told to end, or until one of its threads has; the argument is the workspace file."""
    (workspace,) = sys.argv[1:]
    setup_interrupt_handlers()
    with (
        suppress(KeyboardInterrupt),
        capture_interrupts(),
        DagsterInstance.get() as instance,
        daemon_controller_from_instance(
            instance, WorkspaceFileTarget([workspace]), log_level=_LEVEL, code_server_log_level=_LEVEL
        ) as controller,
    ):
        controller.check_daemon_loop()


if __name__ == "__main__":
    main()
