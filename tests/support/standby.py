"""A primary of its own and a hot standby that follows it, of the embedded server's programs."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from rag_assets.store.database import Database, ensure_database, with_database
from rag_assets.store.migrate import migrate
from rag_assets.store.profiles import add_spec, seed_specs
from rag_assets.store.server import SOCKET, running_url, start_server
from rag_assets.store.server_process import launch, run_program, server_user
from tests.support.servers import forget_crashes, take_down
from tests.support.worlds import HASH_PROFILE

_NAME = "rag"


@dataclass(frozen=True)
class Pair:
    """A primary and its standby. URLs are superusers'; `searching` is the app's login on the standby."""

    home: Path
    standby_home: Path

    @property
    def url(self) -> str:
        return with_database(_running(self.home), _NAME)

    @property
    def standby_url(self) -> str:
        return with_database(_running(self.standby_home), _NAME)

    @property
    def searching(self) -> str:
        return make_conninfo(self.standby_url, user="rag_app_login")

    def follow(self) -> None:
        """Wait until the standby has all that the primary has."""
        with psycopg.connect(self.url) as primary, psycopg.connect(self.standby_url, autocommit=True) as standby:
            (position,) = primary.execute("SELECT pg_current_wal_flush_lsn()").fetchone() or (None,)
            for _ in range(600):
                if _one(standby, "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", position):
                    return
                time.sleep(0.05)
        raise AssertionError("the standby does not follow")

    def on_standby(self, statement: str) -> Any:
        """What a statement of the standby's superuser returns."""
        with psycopg.connect(self.standby_url, autocommit=True) as connection:
            return _one(connection, statement)

    def until(self, statement: str) -> None:
        """Wait until a statement of the standby's superuser is true."""
        for _ in range(600):
            if self.on_standby(statement):
                return
            time.sleep(0.05)
        raise AssertionError(statement)

    def kill_primary(self) -> None:
        take_down(self.home, "killed")

    def start_primary(self) -> None:
        start_server(self.home)


def _running(home: Path) -> str:
    url = running_url(home)
    assert url is not None
    return url


def _one(connection: psycopg.Connection[Any], statement: str, *values: Any) -> Any:
    cursor = connection.execute(statement.encode(), values)
    row = cursor.fetchone() if cursor.description else None
    return row[0] if row else None


@contextmanager
def primary_and_standby() -> Iterator[Pair]:
    """Both, with a migrated database that knows `hash-64`; gone at the end."""
    # The standby's server reaches the primary's socket by its path, also where it runs as a user of its own.
    with tempfile.TemporaryDirectory(prefix="rag-pair-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        pair = Pair(Path(folder) / "one", Path(folder) / "two")
        try:
            url = start_server(pair.home)
            forget_crashes(url)
            with psycopg.connect(url, autocommit=True) as connection:
                # Otherwise what is committed may be sent seconds later.
                connection.execute("ALTER SYSTEM RESET synchronous_commit")
                connection.execute("SELECT pg_reload_conf()")
            database = Database(ensure_database(url, _NAME))
            migrate(database)
            seed_specs(database)
            add_spec(database, HASH_PROFILE)
            database.close()
            _add_standby(url, pair.standby_home)
            yield pair
        finally:
            take_down(pair.standby_home, "killed")
            take_down(pair.home, "killed")


def _add_standby(url: str, home: Path) -> None:
    data, parts = home / "postgres", conninfo_to_dict(url)
    data.mkdir(mode=0o700, parents=True)
    if user := server_user():
        os.chown(data, user.pw_uid, user.pw_gid)
    where = ["-h", str(parts["host"]), "-p", str(parts["port"]), "-U", str(parts["user"])]
    run_program("pg_basebackup", [*where, "-D", str(data), "-R", "-X", "stream", "-c", "fast", "--no-sync"], data)
    (data / f"{SOCKET}.lock").unlink()  # the primary's
    launch(data, data)
    for _ in range(600):
        if running_url(home):
            return
        time.sleep(0.05)
    raise AssertionError((data / "log").read_text())
