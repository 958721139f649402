"""For root, the server is another user's, who is let into nothing that was closed."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from rag_assets.settings import bundled
from rag_assets.store import server_process
from rag_assets.store.server import running_url, start_server, stop_server

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")]

START = """
import sys
from pathlib import Path
from rag_assets.store import server_process
from rag_assets.store.server import start_server
server_process._COPIES = Path(sys.argv[3])
installed = Path(sys.argv[2])
server_process._installed = lambda: installed
print(start_server(Path(sys.argv[1])))
"""


@pytest.fixture
def closed() -> Iterator[Path]:
    """A folder under folders that nobody else may pass through."""
    top = Path(tempfile.mkdtemp())
    folder = top / "of" / "mine"
    folder.mkdir(mode=0o700, parents=True)
    (top / "of").chmod(0o700)
    yield folder
    stop_server(folder / "home")
    shutil.rmtree(top)


def modes(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mode for path in [folder, *folder.parents]}


def server_of(url: str) -> psutil.Process:
    with psycopg.connect(url) as connection:
        return psutil.Process(connection.info.backend_pid).parent() or psutil.Process(0)


def assert_nothing_of_root(process: psutil.Process) -> None:
    assert 0 not in process.uids()
    assert 0 not in process.gids()
    status = Path(f"/proc/{process.pid}/status").read_text()
    groups = next(line for line in status.splitlines() if line.startswith("Groups"))
    assert groups.split()[1:] in ([], [str(process.gids().real)])


def test_closed_folders_above_a_home_stay_closed_and_the_server_runs(closed: Path) -> None:
    before = modes(closed)
    url = start_server(closed / "home")
    assert modes(closed) == before
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS n")
    assert stop_server(closed / "home")
    assert running_url(closed / "home") is None
    with psycopg.connect(start_server(closed / "home")) as connection:
        assert connection.execute("SELECT n FROM kept").fetchone() == (7,)
    assert modes(closed) == before


def test_the_server_has_no_group_of_roots(closed: Path) -> None:
    server = server_of(start_server(closed / "home"))
    assert_nothing_of_root(server)
    seen = 0
    for process in server.children():
        # Workers (of autovacuum, the backend that answered just now) end whenever they are done.
        with contextlib.suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
            assert_nothing_of_root(process)
            seen += 1
    assert seen >= 3, "the checkpointer and the writers live as long as the server"


def test_programs_that_the_server_may_not_reach_are_copied_and_their_folders_stay_closed(closed: Path) -> None:
    installed = server_process._installed()
    package = closed / "package"
    shutil.copytree(installed.parent, package / "pgserver" / "pg")
    libraries = installed.parent.parent.with_name(f"{installed.parent.parent.name}.libs")
    shutil.copytree(libraries, package / "pgserver.libs") if libraries.exists() else None
    # The programs find their libraries by the package's own name.
    (package / "pgserver").rename(package / installed.parent.parent.name)
    (package / "pgserver.libs").rename(package / libraries.name) if libraries.exists() else None
    before = modes(package)
    copies = Path(tempfile.mkdtemp())
    copies.chmod(0o755)
    try:
        programs = package / installed.parent.parent.name / "pg" / "bin"
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", START, str(closed / "home"), str(programs), str(copies)],
            env={**os.environ, "PYTHONPATH": str(bundled("sql").parent)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert str(copies) in server_of(done.stdout.strip()).exe()
        assert modes(package) == before
    finally:
        stop_server(closed / "home")
        shutil.rmtree(copies)
