"""Servers that only tests use, and copies of databases in them."""

from __future__ import annotations

import contextlib
from pathlib import Path

import psutil
import psycopg
from psycopg import sql

from rag_assets.store.database import with_database
from rag_assets.store.server import stop_server

# What a server needs that outlives a crash, or a day.
_SPARED = ("fsync", "synchronous_commit", "full_page_writes", "autovacuum")


def forget_crashes(server_url: str) -> None:
    """Let a server that no test kills wait for no disk, and look after none of its many databases."""
    with psycopg.connect(server_url, autocommit=True) as connection:
        for name in _SPARED:
            connection.execute(sql.SQL("ALTER SYSTEM SET {} = off").format(sql.Identifier(name)))
        connection.execute("SELECT pg_reload_conf()")


def copy_database(server_url: str, template: str, name: str) -> str:
    """The URL of a new copy of a database that nobody is connected to."""
    # Its files are copied: through the log it takes three times as long.
    statement = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy")
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(statement.format(sql.Identifier(name), sql.Identifier(template)))
    return with_database(server_url, name)


def drop_database(server_url: str, name: str) -> None:
    """Take a database away, whoever is connected to it."""
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def take_down(home: Path, how: str) -> None:
    """End the server of a home: `stopped`, or `killed` with all its processes."""
    if how == "stopped":
        stop_server(home)
        return
    for process in psutil.process_iter(["cmdline"]):
        if str(home) in " ".join(process.info["cmdline"] or ()):
            for one in [*process.children(), process]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.kill()
            psutil.wait_procs([process], timeout=30)
