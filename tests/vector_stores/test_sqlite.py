"""The file of the store in SQLite: killed writers, several processes, and files that are something else."""

from __future__ import annotations

import importlib
import random
import sqlite3
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from rag_assets.errors import DatabaseFailed, DatabaseUnavailable, RagError, UsageError
from rag_assets.vector_stores.sqlite import SqliteStore
from tests.support.workers.store_worker import CHUNKS, SCOPE, versions

ONE = np.eye(16, dtype=np.float32)[0]


def state(path: Path) -> tuple[int, set[str]]:
    """How many chunks the file holds, and of which versions."""
    store = SqliteStore(path)
    found = store.search(SCOPE, ONE, top_k=1000)
    assert len(found) == store.count(SCOPE)
    store.close()
    return len(found), {one.content for one in found}


def started(path: Path) -> subprocess.Popen[str]:
    worker = subprocess.Popen(
        [sys.executable, "-m", "tests.support.workers.store_worker", str(path)], stdout=subprocess.PIPE, text=True
    )
    assert worker.stdout is not None
    assert worker.stdout.readline() == "0\n"
    return worker


@pytest.mark.slow
def test_a_killed_writer_leaves_whole_batches(tmp_path: Path, rounds: int) -> None:
    for number in range(3 * rounds):
        path = tmp_path / f"kb{number}"
        worker = started(path)
        time.sleep(random.uniform(0, 0.3))
        worker.kill()
        worker.communicate()
        chunks, seen = state(path)
        assert (chunks, len(seen)) == (2 * CHUNKS, 1)


@pytest.mark.slow
def test_another_process_reads_beside_a_writer_and_sees_one_version(tmp_path: Path) -> None:
    worker = started(tmp_path / "kb")
    try:
        seen = [state(tmp_path / "kb") for _ in range(20)]
    finally:
        worker.kill()
        worker.communicate()
    assert {(chunks, len(contents)) for chunks, contents in seen} == {(2 * CHUNKS, 1)}
    assert len(set.union(*(contents for _, contents in seen))) > 1


def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "kb").close()
    assert stat.S_IMODE((tmp_path / "kb").stat().st_mode) == 0o600


def test_a_file_that_is_something_else_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    text, other, later = tmp_path / "text", tmp_path / "other", tmp_path / "later"
    text.write_text("this is no database, however long it may be\n" * 200)
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE chunks (id)")
    connection.close()
    SqliteStore(later).close()
    with sqlite3.connect(later) as connection:
        connection.execute("PRAGMA user_version = 99")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    for path in (text, other, later):
        before = path.read_bytes()
        with pytest.raises(UsageError, match="name"):
            SqliteStore(path)
        assert path.read_bytes() == before
    with sqlite3.connect(other) as connection:
        assert [name for (name,) in connection.execute("SELECT name FROM sqlite_schema")] == ["chunks"]
    connection.close()


def test_a_name_that_means_memory_to_sqlite_is_a_file_as_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (":memory:", "file:kb?mode=memory"):
        store = SqliteStore(name)
        store.upsert(SCOPE, versions(0))
        store.close()
        again = SqliteStore(name)
        assert again.count(SCOPE) > 0
        again.close()


def test_a_place_where_no_file_can_be_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "none" / "kb", tmp_path / "file" / "kb", tmp_path):
        with pytest.raises(DatabaseUnavailable):
            SqliteStore(path)


def test_a_damaged_file_raises_none_but_typed_errors(tmp_path: Path) -> None:
    path = tmp_path / "kb"
    store = SqliteStore(path)
    store.upsert(SCOPE, versions(0))
    store.close()
    sound = path.read_bytes()
    chance = random.Random(0)
    raised = 0
    for _ in range(30):
        damaged = bytearray(sound)
        for _ in range(20):
            start = chance.randrange(4096, len(damaged) - 512)
            damaged[start : start + 512] = chance.randbytes(512)
        path.write_bytes(damaged)
        try:
            store = SqliteStore(path)
            store.search(SCOPE, ONE, top_k=1000)
            store.close()
        except RagError:
            raised += 1
    assert raised > 0
    path.write_bytes(sound[: len(sound) // 2])
    with pytest.raises((DatabaseFailed, UsageError)):
        SqliteStore(path).search(SCOPE, ONE, top_k=1000)


def test_where_its_packages_are_missing_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apsw", None)
    monkeypatch.delitem(sys.modules, "rag_assets.vector_stores.sqlite")
    with pytest.raises(ImportError, match="pip install apsw sqlite-vec"):
        importlib.import_module("rag_assets.vector_stores.sqlite")
