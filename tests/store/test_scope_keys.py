"""Keys of signed scopes come and go while others search, and nobody is let in or shut out by mistake."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from rag_assets.errors import UsageError
from rag_assets.retrieval import LexicalRetriever, open_scope
from rag_assets.settings import bundled
from rag_assets.signing import new_key
from rag_assets.store import scope_keys
from rag_assets.store.database import Database
from rag_assets.store.erase import erase
from tests.support.signed_world import BOT, KEY, REFUSED, SOURCES, build, intruder, read, rightly, scope


def test_rotation_loses_no_search_that_runs_meanwhile(new_database: Callable[[], Database], tmp_path: Path) -> None:
    old = build(new_database, tmp_path)
    new = new_key()
    current = {"database": old}
    counts: list[Any] = []
    stop = threading.Event()

    def search() -> None:
        while not stop.is_set():
            database = current["database"]
            try:
                found = LexicalRetriever(database).search("valve", open_scope(database, "alpha", BOT), top_k=50)
                counts.append(len(found))
            except Exception as error:
                counts.append(error)

    threads = [threading.Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for step in (
            lambda: scope_keys.add_scope_key(old, new),
            lambda: current.update(database=Database(old.url, scope_key=new)),
            lambda: time.sleep(0.5),  # those that began before have ended
            lambda: scope_keys.retire_scope_key(old, KEY.id),
        ):
            seen = len(counts)
            step()
            while len(counts) < seen + 10:
                time.sleep(0.01)
    finally:
        stop.set()
        for thread in threads:
            thread.join(30)
    assert set(map(str, counts)) == {"9"}
    with intruder(old) as connection:
        assert read(connection, rightly(), SOURCES) == REFUSED
    current["database"].close()
    old.close()


def test_the_last_key_in_use_is_retired_by_force_alone_and_then_nobody_reads(
    new_database: Callable[[], Database], tmp_path: Path
) -> None:
    database = build(new_database, tmp_path)
    with pytest.raises(UsageError, match="last key in use"):
        scope_keys.retire_scope_key(database, KEY.id)
    assert scope_keys.retire_scope_key(database, KEY.id, force=True)
    assert not scope_keys.retire_scope_key(database, KEY.id)
    with intruder(database) as connection:
        assert read(connection, rightly(), SOURCES) == REFUSED
        with pytest.raises(UsageError, match="retired"):
            scope_keys.add_scope_key(database, KEY)
        assert scope_keys.take_unsigned_scopes(database)
        assert len(read(connection, scope(), SOURCES)) == 9
        with pytest.raises(UsageError, match="no key is in use"):
            scope_keys.require_signed_scopes(database)
    database.close()


def test_a_tenant_is_erased_and_ingested_where_scopes_are_signed(
    new_database: Callable[[], Database], tmp_path: Path
) -> None:
    database = build(new_database, tmp_path)
    assert not any(erase(database, "beta").remaining.values())
    with intruder(database) as connection:
        assert read(connection, rightly("beta"), SOURCES) == []
        assert len(read(connection, rightly(), SOURCES)) == 9
    database.close()


def test_two_keys_of_one_id_are_told_apart(database: Database) -> None:
    assert scope_keys.add_scope_key(database, KEY)
    assert not scope_keys.add_scope_key(database, KEY)
    with pytest.raises(UsageError, match="another key has the id"):
        scope_keys.add_scope_key(database, replace(KEY, secret=bytes(32)))


@pytest.mark.parametrize(
    ("name", "table"), [("0046.scopes-once", "knowledge_sources"), ("0047.terms", "embedding_profiles")]
)
def test_a_table_is_changed_while_somebody_reads_for_long_and_nobody_waits_for_it(
    database: Database, name: str, table: str
) -> None:
    migration = (bundled("sql") / "migrations" / f"{name}.sql").read_text()
    read_all = sql.SQL("SELECT count(*) FROM rag.{}").format(sql.Identifier(table))
    waits: list[float] = []
    with psycopg.connect(database.url) as reader, psycopg.connect(database.url, autocommit=True) as other:
        reader.execute(read_all)  # and keeps the lock of it

        def migrate() -> None:
            with database.connect("owner", autocommit=True) as owner:
                owner.execute(migration)

        migrating = threading.Thread(target=migrate)
        migrating.start()
        until = time.monotonic() + 1.5
        while time.monotonic() < until:
            started = time.monotonic()
            other.execute("SET lock_timeout = '1s'")
            other.execute(read_all)
            waits.append(time.monotonic() - started)
        assert migrating.is_alive()
        reader.rollback()
        migrating.join(60)
        assert not migrating.is_alive()
    assert len(waits) > 10
