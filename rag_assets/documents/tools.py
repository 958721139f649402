"""Programs of this system that read what no library does, each run within bounds and never by a shell."""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rag_assets.children import start_python
from rag_assets.documents.reasons import readable
from rag_assets.errors import ParseError

_SHARE = 0.6  # of the seconds that a file may take: another tool may be tried afterwards
_MAX_BYTES = 64 * 1024 * 1024  # of any file that a program writes
_SUPERVISOR = Path(__file__).with_name("supervisor.py")
_PASSED = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TZ")
_MAX_REASON = 200  # characters

_allowed = _SHARE * 30  # seconds


@dataclass(frozen=True)
class Tool:
    """A program: the names it may be installed under, and its arguments for a file and an empty folder."""

    name: str
    commands: tuple[str, ...]
    arguments: Callable[[str, str], Sequence[str]]
    output: str = "stdout"  # the file in the folder that holds the result

    def path(self) -> str | None:
        """Where it is installed; a folder of PATH that is not absolute does not count."""
        found = (shutil.which(command) for command in self.commands)
        return next((path for path in found if path and os.path.isabs(path)), None)


def allow(seconds: float) -> None:
    """Set what a file may take from now on: a program gets most of it."""
    global _allowed
    _allowed = _SHARE * seconds


def run(tool: Tool, data: bytes, suffix: str) -> bytes:
    """Return what an installed tool makes of a file whose name ends in `suffix`.

    Raises:
        ParseError: it is not installed, fails, takes too long, writes too much or nothing.
    """
    path = tool.path()
    if path is None:
        raise ParseError(f"{tool.name} is not installed")
    folder = tempfile.mkdtemp(prefix="rag-tool-")
    source = os.path.join(folder, f"in{suffix}")
    Path(source).write_bytes(data)
    command = [path, *tool.arguments(source, folder)]
    try:
        # At the end its standard input is closed: it ends the tool, and removes the folder.
        with start_python(
            *("-I", "-S", str(_SUPERVISOR), folder, str(_MAX_BYTES), *command),
            environment=_environment(folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            return _result(tool, folder, _status(tool, process))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _environment(folder: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in _PASSED if name in os.environ}
    return {**kept, "HOME": folder, "TMPDIR": folder, "LC_ALL": "C.UTF-8"}


def _status(tool: Tool, process: subprocess.Popen[bytes]) -> int:
    assert process.stdout
    with selectors.DefaultSelector() as ready:
        ready.register(process.stdout, selectors.EVENT_READ)
        if not ready.select(_allowed):
            raise ParseError(f"{tool.name} took more than {_allowed:g} s")
    line = process.stdout.readline()
    if not line:
        raise ParseError(f"{tool.name} could not be started")
    return int(line)


def _result(tool: Tool, folder: str, status: int) -> bytes:
    if status == -signal.SIGXFSZ:
        raise ParseError(f"{tool.name} writes more than {_MAX_BYTES // 2**20} MB")
    if status < 0:
        name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
        raise ParseError(f"{tool.name} was ended by {name}")
    output = Path(folder, tool.output)
    if status or not output.is_file() or output.is_symlink():
        raise ParseError(f"{tool.name} cannot read it{_said(folder)}")
    return output.read_bytes()


def _said(folder: str) -> str:
    with open(os.path.join(folder, "stderr"), "rb") as stderr:
        text = stderr.read(10 * _MAX_REASON).decode("utf-8", "replace").replace(folder, "").strip()
    return f": {readable(text)[:_MAX_REASON]}" if text else ""
