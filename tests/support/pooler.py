"""PgBouncer before a server, as tests want it."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from rag_assets.store.database import Database
from rag_assets.store.server_process import HERE

PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
_USERS = ("postgres", "searching", "ingesting")


@dataclass
class Pooler:
    """One that runs; called with a login, it makes the URL of that login through it."""

    url: str
    port: int
    folder: Path
    command: Sequence[str]
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def __call__(self, user: str) -> str:
        return make_conninfo(self.url, host="127.0.0.1", port=self.port, user=user)

    def start(self) -> None:
        """And wait until it listens."""
        with (self.folder / "log").open("a") as log:
            # In the server's folder, whose socket nobody else may reach.
            cwd = str(conninfo_to_dict(self.url)["host"])
            self._process = subprocess.Popen(self.command, cwd=cwd, stdout=log, stderr=log)
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.1)
        raise AssertionError((self.folder / "log").read_text())

    def stop(self) -> None:
        """At once: whoever is connected is cut off."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)

    def restart(self) -> None:
        self.stop()
        self.start()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@contextmanager
def pgbouncer(database: Database, folder: Path, mode: str, size: int = 2) -> Iterator[Pooler]:
    """A pooler of `size` connections for each login. Who waits for one for half a minute is cut off."""
    parts, port = conninfo_to_dict(database.url), _free_port()
    folder.mkdir()
    (folder / "users").write_text("".join(f'"{user}" ""\n' for user in _USERS))
    (folder / "pgbouncer.ini").write_text(
        f"[databases]\n* = host={HERE} port={parts['port']}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
        f"listen_port = {port}\nunix_socket_dir =\nauth_type = trust\nauth_file = {folder}/users\npool_mode = {mode}\n"
        f"default_pool_size = {size}\nmax_client_conn = 200\nquery_wait_timeout = 30\n"
    )
    command = [str(PGBOUNCER), str(folder / "pgbouncer.ini")]
    if os.geteuid() == 0:  # it refuses to be root, and the server's socket is for root and this user
        command += ["-u", "pgserver"]
        os.chown(folder, *pwd.getpwnam("pgserver")[2:4])
    pooler = Pooler(database.url, port, folder, command)
    try:
        pooler.start()
        yield pooler
    finally:
        pooler.stop()
