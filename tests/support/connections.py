"""How many connections a server has been asked for."""

from __future__ import annotations

import time

import psycopg

from rag_assets.store.database import with_database


def sessions(url: str) -> int:
    """How many have been opened to the database of `url` so far. Waits a second, in which the last are counted."""
    time.sleep(1.0)
    name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
    with psycopg.connect(with_database(url, "postgres")) as connection:
        row = connection.execute("SELECT sessions FROM pg_stat_database WHERE datname = %s", [name]).fetchone()
    assert row is not None
    return int(row[0])
