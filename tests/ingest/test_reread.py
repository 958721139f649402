"""Files that are read again: because they changed without looking so, because their day has come, or on request."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest

from rag_assets.documents.registry import PARSER_VERSION
from rag_assets.ingest.root_changes import decide
from rag_assets.ingest.run import IngestReport, ingest
from rag_assets.sources.listing import RootListing, SourceFile
from rag_assets.store.database import Database
from rag_assets.store.sources import FileState, let_files_be_reread
from tests.support.worlds import ingested


def _again(database: Database) -> IngestReport:
    return ingest(database, "acme", "support", "hash-64")


def _served(database: Database) -> list[str]:
    with psycopg.connect(database.url) as connection:
        return [row[0] for row in connection.execute("SELECT content FROM rag.knowledge_chunks ORDER BY content")]


def test_new_content_of_the_same_size_and_time_is_read(database: Database, tmp_path: Path) -> None:
    """As `cp -p`, `rsync -t` and builds of images leave it."""
    ingested(database, tmp_path, "acme", {"a.md": "The red pump."})
    path = next(tmp_path.rglob("a.md"))
    before = path.stat()
    path.write_text("The tin pump.")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert _again(database).sources.changed == 1
    assert _served(database) == ["The tin pump."]


def test_another_file_with_the_same_bytes_is_only_touched(database: Database, tmp_path: Path) -> None:
    ingested(database, tmp_path, "acme", {"a.md": "The red pump."})
    path = next(tmp_path.rglob("a.md"))
    before = path.stat()
    copy = path.with_name("copy")
    copy.write_text("The red pump.")
    os.utime(copy, ns=(before.st_atime_ns, before.st_mtime_ns))
    copy.replace(path)
    report = _again(database)
    assert (report.sources.bytes_read, report.sources.changed, report.sources.unchanged) == (13, 0, 1)
    assert (report.embeddings.embedded, report.publication.chunks_written) == (0, 0)
    assert _again(database).sources.bytes_read == 0


def test_files_read_before_their_numbers_were_noted_are_not_all_read_again(database: Database, tmp_path: Path) -> None:
    ingested(database, tmp_path, "acme", {"a.md": "The red pump."})
    with psycopg.connect(database.url) as connection:
        connection.execute("UPDATE rag.source_files SET ctime_ns = NULL, inode = NULL, read_at = NULL")
    assert _again(database).sources.bytes_read == 0


def test_all_files_are_read_again_on_request_and_nothing_is_paid(database: Database, tmp_path: Path) -> None:
    ingested(database, tmp_path, "acme", {"a.md": "The red pump.", "b.md": "The blue valve."})
    with database.work("acme") as connection:
        assert let_files_be_reread(connection, "acme", "support") == 2
    report = _again(database)
    assert (report.sources.bytes_read, report.sources.changed, report.sources.unchanged) == (28, 0, 2)
    assert (report.embeddings.embedded, report.publication.chunks_written) == (0, 0)
    assert _again(database).sources.bytes_read == 0


FILES = tuple(SourceFile(f"file:///r/{n}.md", f"{n}.md", 1, 1, 5, 7) for n in range(1000))
STATE = FileState(1, 1, "c", PARSER_VERSION, ctime_ns=5, inode=7)


def _to_read(state: FileState) -> int:
    return len(decide(RootListing(FILES), {file.uri: state for file in FILES}).to_read)


@pytest.mark.parametrize("changed", [{"ctime_ns": 6}, {"inode": 8}, {"mtime_ns": 2}, {"size": 2}])
def test_each_part_of_a_files_state_counts(changed: dict[str, int]) -> None:
    assert _to_read(STATE) == 0
    assert _to_read(replace(STATE, **changed)) == len(FILES)  # type: ignore[arg-type]


@pytest.mark.parametrize("unknown", [{"ctime_ns": None}, {"inode": None}, {"ctime_ns": None, "inode": None}])
def test_what_is_not_known_counts_as_the_same(unknown: dict[str, None]) -> None:
    assert _to_read(replace(STATE, **unknown)) == 0  # type: ignore[arg-type]


@pytest.mark.parametrize("days", [1, 2, 7, 30])
def test_each_file_is_read_again_within_the_days_and_not_all_on_one(days: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_REREAD_DAYS", str(days))
    now = datetime.now(UTC)
    due = [_to_read(replace(STATE, read_at=now - timedelta(days=age))) for age in range(days + 1)]
    assert due[0] == 0, "what was read today is not read again today"
    assert due[-1] == len(FILES)
    assert due == sorted(due)
    if days >= 7:
        steps = [after - before for before, after in pairwise(due)]
        assert max(steps) < len(FILES) / 2
    monkeypatch.setenv("RAG_REREAD_DAYS", "0")
    assert _to_read(replace(STATE, read_at=now - timedelta(days=4000))) == 0
    assert _to_read(replace(STATE, read_at=datetime.fromtimestamp(0, UTC))) == len(FILES)
