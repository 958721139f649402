"""Servers that only tests use."""

from __future__ import annotations

import psycopg

_FAST = ("fsync", "synchronous_commit", "full_page_writes")


def forget_crashes(server_url: str) -> None:
    """Let a server that no test kills wait for no disk."""
    with psycopg.connect(server_url, autocommit=True) as connection:
        for name in _FAST:
            connection.execute(f"ALTER SYSTEM SET {name} = off")
        connection.execute("SELECT pg_reload_conf()")
