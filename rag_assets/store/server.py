"""The embedded PostgreSQL: PostgreSQL 18 with pgvector from a wheel, started on demand under `RAG_HOME`.

It keeps running until `stop_server`, so that the UI, the daemon, run workers and the command line share one
server and none of them takes it away from another.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from filelock import FileLock, Timeout

from rag_assets.errors import DatabaseUnavailable, InvalidArgument
from rag_assets.settings import read_variable
from rag_assets.store.logins import SUPERUSER, is_marked, see_to_logins
from rag_assets.store.server_process import HERE, launch, path_for_server, run_program, server_user

START_TIMEOUT_S = 90.0
SOCKET = ".s.PGSQL.5432"
_ATTEMPT_S = 10.0
_STOP_TIMEOUT_S = 300.0
_MAX_SOCKET_PATH = 103  # bytes, without the NUL: macOS; Linux takes four more
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_./-]+")
_UNQUOTABLE = re.compile(r'["$`\\\n]')  # no shell sees the path any more, but PostgreSQL quotes it in ways of its own


def _data_dir(home: Path) -> Path:
    return home / "postgres"


@contextmanager
def _locked(home: Path) -> Iterator[None]:
    """One process at a time starts or stops the server of this home."""
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unfit(home, f"cannot be made: {error}") from error
    try:
        with FileLock(home / "postgres.lock", timeout=START_TIMEOUT_S):
            yield
    except Timeout:
        raise DatabaseUnavailable(
            f"another process has held {home / 'postgres.lock'} for {START_TIMEOUT_S:.0f} s; "
            "if none is running, remove that file"
        ) from None
    except PermissionError as error:
        raise _unfit(home, f"is not writable: {error}") from error


def _unfit(home: Path, why: str) -> InvalidArgument:
    return InvalidArgument(f"{home} {why}. Set RAG_HOME to a folder of yours", "RAG_HOME")


def _socket_dir(data: Path) -> Path:
    """Where the socket lies: in the data folder, or where a client could not name it there, in one of our own."""
    if len(os.fsencode(data / SOCKET)) <= _MAX_SOCKET_PATH and _PLAIN_PATH.fullmatch(str(data)):
        return data
    runtime = Path(read_variable("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}")
    if os.geteuid() == 0:
        runtime = Path("/run")  # root's own may be closed to the server's user
    if not os.access(runtime, os.W_OK):
        runtime = Path(tempfile.gettempdir())
    name = hashlib.sha256(f"{data}-{data.stat().st_ino}".encode()).hexdigest()[:12]
    return runtime / f"rag-assets-{name}"


def running_url(home: Path) -> str | None:
    """URL of the superuser connection if the server of this home answers, else None."""
    try:
        lines = (_data_dir(home) / "postmaster.pid").read_text().splitlines()
    except OSError:
        return None
    if len(lines) < 5 or not lines[4].strip():
        return None
    named = lines[4].strip()
    socket_dir = _data_dir(home).resolve() if named == HERE else Path(named)
    url = f"postgresql://{SUPERUSER}@/postgres?host={socket_dir}&port={lines[3].strip()}"
    try:
        with psycopg.connect(url, connect_timeout=5) as connection:
            if not is_marked(socket_dir):  # new, or of an earlier version
                see_to_logins(connection, socket_dir)
    except psycopg.OperationalError:
        return None
    return url


def start_server(home: Path) -> str:
    """Start the embedded server of `home` if it does not answer, and return its superuser URL.

    Safe to call from several processes at once, as root (the server then runs as the OS user `pgserver`)
    or not. Waits out the crash recovery of a killed server.

    Raises:
        DatabaseUnavailable: with the end of the server's log.
    """
    url = running_url(home)
    if url is not None:
        return url
    if _UNQUOTABLE.search(str(home)):
        raise DatabaseUnavailable(f'PostgreSQL cannot run in {home}: set RAG_HOME to a path without " $ ` \\')
    with _locked(home):
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            url = running_url(home) or _try_start(home)
            if url is not None:
                return url
            if time.monotonic() > deadline:
                raise DatabaseUnavailable(
                    f"the embedded PostgreSQL in {_data_dir(home)} did not start within {START_TIMEOUT_S:.0f} s."
                    f"\n{_log_tail(home)}"
                )
            time.sleep(0.5)


def _try_start(home: Path) -> str | None:
    """One attempt; None where the server is not ready yet (recovering, or its predecessor still ending)."""
    data = _data_dir(home).resolve()
    _drop_stale_pid_file(data)
    try:
        _make_cluster(data)
        if not (data / "postmaster.pid").exists():
            socket_dir = _socket_dir(data)
            _keep_others_out(socket_dir)
            launch(data, socket_dir)
    except (subprocess.SubprocessError, OSError) as error:
        raise DatabaseUnavailable(f"cannot run PostgreSQL in {data}: {error}") from error
    deadline = time.monotonic() + _ATTEMPT_S
    while (url := running_url(home)) is None and time.monotonic() < deadline:
        time.sleep(0.05)
    return url


def _make_cluster(data: Path) -> None:
    """Make the data folder if it is not there, whole or not at all."""
    user = server_user()
    if (data / "PG_VERSION").exists():
        owner = data.stat().st_uid
        if owner != (user.pw_uid if user else os.geteuid()):
            raise DatabaseUnavailable(f"{data} belongs to the user with id {owner}: run rag as that user")
        return
    part = data.with_name(f"{data.name}.new")
    shutil.rmtree(part, ignore_errors=True)  # of a process that was killed
    part.mkdir(mode=0o700)
    if user is not None:
        os.chown(part, user.pw_uid, user.pw_gid)
    how = ["--auth=trust", "--encoding=utf8", "--lc-messages=C", "--no-instructions", "-U", SUPERUSER]
    run_program("initdb", [*how, *_fitting(), "-D", path_for_server(part)], part)
    part.rename(data)  # fails where files of somebody else are there


def _fitting() -> list[str]:
    """Settings of a new server for loads of many chunks on this machine, which stand in its postgresql.conf for whoever
    wants others. PostgreSQL's own fit a machine of any size, and write pages out that are needed again."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    shared = min(max(memory // 16, 128 << 20), 1 << 30)
    return [f"--set=shared_buffers={shared >> 20}MB", "--set=wal_buffers=16MB", "--set=max_wal_size=4GB"]


def _keep_others_out(socket_dir: Path) -> None:
    """Let only the server's user (and root) reach the socket: whoever does is let in as whoever he says.

    The data folder is closed anyway. Another one may lie where everybody makes folders, so it has to be ours.
    """
    user = server_user()
    socket_dir.mkdir(mode=0o700, exist_ok=True)
    owners = {os.geteuid(), user.pw_uid if user else os.geteuid()}
    if socket_dir.is_symlink() or socket_dir.stat().st_uid not in owners:
        raise DatabaseUnavailable(f"{socket_dir} is not ours, and the server's socket would lie there: remove it")
    if user is not None:
        os.chown(socket_dir, user.pw_uid, user.pw_gid)
    socket_dir.chmod(0o700)


def _drop_stale_pid_file(data: Path) -> None:
    """Remove a `postmaster.pid` that names no server of this folder: after a crash the process is gone, and
    after a reboot its id may be anybody's, another home's server too.

    A server whose children outlive it is safe from this: PostgreSQL finds their shared memory by the folder.
    """
    pid_file = data / "postmaster.pid"
    try:
        pid = int(pid_file.read_text().splitlines()[0])
    except (OSError, ValueError, IndexError):
        pid_file.unlink(missing_ok=True)
        return
    if not _serves(pid, data):
        pid_file.unlink(missing_ok=True)


def _serves(pid: int, data: Path) -> bool:
    """Whether the process is a PostgreSQL that was started with `-D data`; True where that cannot be seen."""
    import psutil  # 8 ms of every command, for what only a crash makes necessary

    try:
        process = psutil.Process(pid)
        return (
            process.name().startswith("postgres")
            and process.status() != psutil.STATUS_ZOMBIE
            and (str(data) in process.cmdline() or process.cwd() == str(data))
        )
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True


def _log_tail(home: Path, lines: int = 15) -> str:
    try:
        return "\n".join((_data_dir(home) / "log").read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return "(no server log)"


def stop_server(home: Path) -> bool:
    """Stop the embedded server of `home`; False if it was not running.

    Raises:
        DatabaseUnavailable: it does not end.
    """
    with _locked(home):
        if running_url(home) is None:
            return False
        pid_file = _data_dir(home) / "postmaster.pid"
        pid = int(pid_file.read_text().splitlines()[0])
        os.kill(pid, signal.SIGINT)  # ends its sessions, writes all down, and goes
        deadline = time.monotonic() + _STOP_TIMEOUT_S
        while pid_file.exists() and _serves(pid, _data_dir(home).resolve()):
            if time.monotonic() > deadline:
                raise DatabaseUnavailable(f"the embedded PostgreSQL in {_data_dir(home)} does not end")
            time.sleep(0.05)
        return True
