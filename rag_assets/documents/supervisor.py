"""The process between a parser and a program of this system: nothing of that program outlives whoever asked for it.

It is run as a file, imports nothing of this package, and is started by `rag_assets.documents.tools`. It limits what the
program may write, takes its network away where the system lets it, and says its exit status as a line on standard
output. Once standard input ends, because the answer was read or because nobody is there any more, it kills the
program with all that this has started, and removes its folder.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading

_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000  # of unshare(2)


def main(folder: str, largest: int, command: list[str]) -> None:
    """Run `command` in `folder`, with its output in the files `stdout` and `stderr` there; no file that it writes may
    be larger than `largest` bytes."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    _leave_network()
    with open(os.path.join(folder, "stdout"), "wb") as stdout, open(os.path.join(folder, "stderr"), "wb") as stderr:
        program = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, process_group=0
        )
    threading.Thread(target=_report, args=(program.pid,), daemon=True).start()
    sys.stdin.buffer.read()
    # It has not been waited for yet, so that its number is still its own.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(program.pid, signal.SIGKILL)
    program.wait()
    shutil.rmtree(folder, ignore_errors=True)


def _leave_network() -> None:
    """Go where there is no network, for root at once and for others in a user namespace; some systems allow neither."""
    if sys.platform == "linux":
        system = ctypes.CDLL(None)
        if system.unshare(_NEW_NETWORK):
            system.unshare(_NEW_USER | _NEW_NETWORK)


def _report(program: int) -> None:
    ended = os.waitid(os.P_PID, program, os.WEXITED | os.WNOWAIT)
    if ended:
        status = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        print(status, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
