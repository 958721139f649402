"""Files that only a registered parser takes, in processes that have it and in others that do not."""

from __future__ import annotations

import copy
from pathlib import Path

import psycopg
import pytest

from rag_assets.documents import registry
from rag_assets.documents.model import Document, Record
from rag_assets.ingest.run import ingest
from rag_assets.store.database import Database
from tests.support.worlds import ingested


def parse_notes(data: bytes, name: str, _: str | None) -> list[Record]:
    if b"bad" in data:
        return [Record("", name, "ready")]
    return [Record("", name, "ready", Document(data.decode()))]


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this test registers is forgotten after it."""
    monkeypatch.setattr(registry, "_registry", copy.copy(registry._registry))
    monkeypatch.setattr(registry._registry, "by_suffix", dict(registry._registry.by_suffix))
    monkeypatch.setattr(registry._registry, "by_name", dict(registry._registry.by_name))
    monkeypatch.setattr(registry._registry, "added", list(registry._registry.added))


def contents(database: Database) -> list[str]:
    with psycopg.connect(database.url) as connection:
        return sorted(row[0] for row in connection.execute("SELECT content FROM rag.knowledge_chunks"))


def test_what_a_parser_of_another_process_read_is_kept_by_one_that_has_no_such_parser(
    database: Database, root: Path, elsewhere: None
) -> None:
    registry.register_parser("note", parse_notes, suffixes=[".elsewhere"])
    files = {"pump.elsewhere": "Behind the door.", "gone.elsewhere": "Not for long.", "a.md": "The pump."}
    ingested(database, root, "acme", files)
    del registry._registry.by_suffix[".elsewhere"]
    (root / "gone.elsewhere").unlink()
    report = ingest(database, "acme", "support", "hash-64")
    assert report.sources.deleted == 0, "nobody here knows whether it is there"
    assert contents(database) == sorted(files.values())
    registry.register_parser("note", parse_notes, suffixes=[".elsewhere"])
    assert ingest(database, "acme", "support", "hash-64").sources.deleted == 1
    assert contents(database) == ["Behind the door.", "The pump."]


def test_a_parser_that_gives_back_nonsense_for_one_file_stops_no_other(
    database: Database, root: Path, elsewhere: None
) -> None:
    registry.register_parser("note", parse_notes, suffixes=[".elsewhere"])
    report = ingested(database, root, "acme", {"x.elsewhere": "bad", "y.elsewhere": "good", "a.md": "The pump."})
    assert [(one.name, "has no Document" in one.error) for one in report.sources.failures] == [("x.elsewhere", True)]
    assert contents(database) == ["The pump.", "good"]
