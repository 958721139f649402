"""The embedded server starts once for all who ask, wherever it lives and however it ended."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psutil
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from rag_assets.errors import DatabaseUnavailable, InvalidArgument
from rag_assets.settings import bundled
from rag_assets.store.database import Database, ensure_database
from rag_assets.store.migrate import migrate
from rag_assets.store.server import running_url, start_server, stop_server

START = """
import sys
from pathlib import Path
from rag_assets.store.server import start_server
print(start_server(Path(sys.argv[1])))
"""

# Becomes another user only after its imports, because the interpreter may lie where only root may read.
AS_NOBODY = """
import os, sys
import fasteners, platformdirs, psutil, psycopg
from pathlib import Path
from rag_assets.store.server import start_server, stop_server
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
home = Path(sys.argv[1])
url = start_server(home)
try:
    with psycopg.connect(url) as connection:
        print(connection.execute("SELECT 40 + 2").fetchone()[0])
finally:
    print(stop_server(home))
"""


def pid_file(home: Path) -> Path:
    return home / "postgres" / "postmaster.pid"


def postmaster(home: Path) -> psutil.Process:
    return psutil.Process(int(pid_file(home).read_text().split()[0]))


def answers(url: str) -> bool:
    with psycopg.connect(url, connect_timeout=5) as connection:
        return connection.execute("SELECT 1").fetchone() == (1,)


def alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def kill_all(home: Path) -> None:
    """SIGKILL the server and all its processes, as a machine that loses power does."""
    server = postmaster(home)
    for process in [server, *server.children()]:
        with suppress(psutil.NoSuchProcess):  # some end by themselves
            process.kill()
    psutil.wait_procs([server], timeout=10)


@pytest.fixture(scope="module")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home whose server has been started once; tests may leave it in any state."""
    home = tmp_path_factory.mktemp("shared")
    start_server(home)
    yield home
    start_server(home)
    stop_server(home)


@pytest.fixture
def home(shared_home: Path) -> Path:
    """The shared home, with its server running."""
    start_server(shared_home)
    return shared_home


def test_a_home_without_a_server_has_no_url(tmp_path: Path) -> None:
    assert running_url(tmp_path) is None
    assert stop_server(tmp_path) is False


def test_a_running_server_is_not_started_again(home: Path) -> None:
    before = postmaster(home).pid
    assert start_server(home) == running_url(home)
    assert postmaster(home).pid == before


def test_a_stopped_server_has_no_url_and_starts_again_with_its_data(home: Path) -> None:
    with psycopg.connect(start_server(home)) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept AS SELECT 7 AS n")
    assert stop_server(home) is True
    assert running_url(home) is None
    assert stop_server(home) is False
    with psycopg.connect(start_server(home)) as connection:
        assert connection.execute("SELECT n FROM kept").fetchone() == (7,)


@pytest.mark.slow
def test_a_killed_server_starts_again_with_what_was_committed(home: Path) -> None:
    with psycopg.connect(start_server(home)) as connection:
        connection.execute("CREATE TABLE survived AS SELECT generate_series(1, 1000) AS n")
    kill_all(home)
    assert running_url(home) is None
    with psycopg.connect(start_server(home)) as connection:
        assert connection.execute("SELECT count(*) FROM survived").fetchone() == (1000,)


@pytest.mark.slow
def test_a_killed_postmaster_whose_children_still_work_is_waited_for(home: Path) -> None:
    busy = psycopg.connect(start_server(home), autocommit=True)
    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(busy.execute, "SELECT count(*) FROM generate_series(1, 20000000)")
        time.sleep(0.3)
        orphan = psutil.Process(busy.info.backend_pid)
        postmaster(home).kill()
        assert answers(start_server(home))
        # Two servers over the same files would destroy them.
        assert not alive(orphan)
        assert isinstance(work.exception(), psycopg.OperationalError) or work.exception() is None
    busy.close()


@pytest.mark.slow
@pytest.mark.parametrize("whose", ["this process", "another program", "another server", "nobody"])
def test_a_pid_file_that_names_a_process_of_somebody_else_is_overcome(home: Path, server_url: str, whose: str) -> None:
    lines = pid_file(home).read_text().splitlines()
    kill_all(home)
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        with psycopg.connect(server_url) as other:
            foreign = str(psutil.Process(other.info.backend_pid).ppid())
        pids = {"this process": os.getpid(), "another program": sleeper.pid, "another server": foreign}
        pid = str(pids.get(whose, 4194000))
        pid_file(home).write_text("\n".join([pid, *lines[1:]]) + "\n")
        try:
            assert answers(start_server(home))
        finally:
            sleeper.kill()
    assert answers(server_url)


@pytest.mark.slow
@pytest.mark.parametrize("left", ["", "12", "garbage\n"])
def test_a_pid_file_that_a_crash_cut_off_is_overcome(home: Path, left: str) -> None:
    kill_all(home)
    pid_file(home).write_text(left)
    assert answers(start_server(home))


@pytest.mark.slow
def test_six_processes_that_start_the_server_at_once_get_the_same_one(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", START, str(tmp_path)]
    starting = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(6)]
    try:
        urls = {process.communicate(timeout=120)[0].strip() for process in starting}
        assert {process.returncode for process in starting} == {0}
        assert urls == {running_url(tmp_path)}
        data = str(tmp_path / "postgres")
        servers = [
            process.pid
            for process in psutil.process_iter(["name", "cmdline"])
            if process.info["name"] == "postgres" and data in (process.info["cmdline"] or [])
        ]
        assert servers == [postmaster(tmp_path).pid]
        assert answers(urls.pop())
    finally:
        stop_server(tmp_path)


@pytest.mark.slow
def test_six_processes_that_find_a_killed_server_start_one(home: Path) -> None:
    kill_all(home)
    with ThreadPoolExecutor(6) as pool:
        command = [sys.executable, "-W", "ignore", "-c", START, str(home)]
        done = list(pool.map(lambda _: subprocess.run(command, capture_output=True, text=True, timeout=120), range(6)))
    assert [process.stderr for process in done] == [""] * 6
    assert {process.stdout.strip() for process in done} == {running_url(home)}


@pytest.mark.slow
@pytest.mark.parametrize(
    "folder",
    ["with spaces and 'quotes'", "a" * 60 + "/" + "b" * 60, "long and spaced " * 8, "größe 100% & more;"],
    ids=["spaces", "long", "long with spaces", "signs"],
)
def test_any_path_is_a_home(tmp_path: Path, folder: str) -> None:
    home = tmp_path / folder
    database = Database(ensure_database(start_server(home), "rag"))
    try:
        migrate(database)
        assert running_url(home) == start_server(home)
        # Whoever reaches the socket is a superuser.
        assert Path(str(conninfo_to_dict(database.url)["host"])).stat().st_mode & 0o077 == 0
        kill_all(home)
        assert answers(start_server(home))
        with database.connect("app") as connection:
            assert connection.execute("SELECT current_user").fetchone() == ("rag_app",)
    finally:
        assert stop_server(home)


def test_a_path_that_the_server_could_not_be_started_in_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnavailable, match="RAG_HOME"):
        start_server(tmp_path / "$HOME")
    assert not (tmp_path / "$HOME").exists()


def test_a_home_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidArgument, match="RAG_HOME"):
        start_server(tmp_path / "file" / "home")


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_another_user_has_a_server_of_his_own_beside_that_of_root(home: Path) -> None:
    # Not under pytest's folders, which only root may enter; as user `nobody`, who has no home and no shell.
    theirs = Path("/tmp") / f"rag-nobody-{os.getpid()}"
    theirs.mkdir()
    os.chown(theirs, 65534, 65534)
    try:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", AS_NOBODY, str(theirs / "home")],
            cwd=theirs,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(bundled("sql").parent), "HOME": "/nonexistent"},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert (done.returncode, done.stdout.split()) == (0, ["42", "True"]), done.stderr
    finally:
        shutil.rmtree(theirs)
    assert answers(start_server(home))
