"""A source that must go now is gone everywhere at once, and stays away for as long as it is what it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from rag_assets.chunking import ChunkingSpec
from rag_assets.documents.registry import PARSER_VERSION
from rag_assets.ingest import sources as sync
from rag_assets.ingest.forgetting import forget
from rag_assets.ingest.pairs import enabled_profiles
from rag_assets.ingest.publication import publish_chunks
from rag_assets.ingest.run import ingest
from rag_assets.ingest.sources import sync_sources
from rag_assets.retrieval import open_scope
from rag_assets.retrieval.retrievers import RETRIEVERS
from rag_assets.store.database import Database
from rag_assets.store.forgetting import Forgotten, allow_sources
from rag_assets.store.profiles import add_spec
from rag_assets.store.promotion import list_events
from rag_assets.store.retirement import drop_retired, retire
from rag_assets.store.roots import add_root
from rag_assets.store.source_life import find_sources
from rag_assets.store.sources import StagedSource, sources_overview
from rag_assets.store.tenants import spaces_of
from tests.support.stages import cut, embedded
from tests.support.worlds import HASH_PROFILE, ingested, rewrite

ROWS = '{"id": "a", "text": "The red pump."}\n{"id": "b", "text": "The blue valve."}\n'


def again(database: Database) -> None:
    ingest(database, "acme", "support", "hash-64")


def forgotten(database: Database, name: str) -> Forgotten:
    with database.work("acme") as connection:
        found = find_sources(connection, "acme", "support", name, "")
    return forget(database, "acme", "support", [one.id for one in found])


def undo(database: Database, name: str) -> int:
    with database.work("acme") as connection:
        found = find_sources(connection, "acme", "support", name, "")
        return allow_sources(connection, spaces_of(connection, "acme", "support")[0], [one.id for one in found])


def found(database: Database, profile: str | None = None) -> set[str]:
    """All that any mode of search finds."""
    scope = open_scope(database, "acme", "support", profile)
    words = "red pump blue valve green hose"
    return {hit.content for kind in RETRIEVERS.values() for hit in kind(database).search(words, scope, top_k=50)}


def rows_with(database: Database, words: str) -> dict[str, int]:
    """Tables in which these words stand in any column."""
    tables = ("knowledge_chunks", "source_documents", "knowledge_sources", "embedding_job_items", "profile_events")
    with psycopg.connect(database.url) as connection:
        counts = {
            table: connection.execute(
                f"SELECT count(*) FROM rag.{table} t WHERE strpos(to_jsonb(t)::text, %s) > 0", [words]
            ).fetchone()
            for table in tables
        }
    return {table: count[0] for table, count in counts.items() if count and count[0]}


def vectors(database: Database) -> int:
    with psycopg.connect(database.url) as connection:
        (count,) = connection.execute("SELECT count(*) FROM rag.embedding_cache").fetchone() or (0,)
    return int(count)


def statuses(database: Database) -> dict[str, str]:
    with database.work("acme") as connection:
        return {source["name"]: source["status"] for source in sources_overview(connection, "acme", "support")}


def test_it_is_found_nowhere_once_it_is_forgotten(database: Database, root: Path) -> None:
    ingested(database, root, "acme", {"a.md": "The red pump.", "b.md": "The blue valve."})
    add_spec(database, HASH_PROFILE.model_copy(update={"name": "hash-later"}))
    ingest(database, "acme", "support", "hash-later")
    rewrite(root / "a.md", "The red pump, newer.")
    again(database)  # the other profile still serves the version before
    done = forgotten(database, "a.md")
    assert (done.chunks, done.versions, done.vectors) == ({"hash-64": 1, "hash-later": 1}, 2, 2)
    for profile in ("hash-64", "hash-later"):
        assert found(database, profile) == {"The blue valve."}
    assert rows_with(database, "red pump") == {}
    assert (vectors(database), statuses(database)["a.md"]) == (1, "forgotten")
    with database.work("acme") as connection:
        event = list_events(connection, "acme", "support", 1)[0]
    assert (event.event, event.profile, event.evidence) == ("forgotten", None, {"sources": 1, "names": ["a.md"]})


def test_the_vector_of_a_text_that_another_source_has_stays(database: Database, root: Path) -> None:
    ingested(database, root, "acme", {"a.md": "The red pump.", "b.md": "The red pump."})
    assert forgotten(database, "a.md").vectors == 0
    assert (vectors(database), found(database)) == (1, {"The red pump."})


@pytest.mark.parametrize(
    "change",
    [
        lambda root: None,
        lambda root: rewrite(root / "x.jsonl", ROWS),
        lambda root: rewrite(root / "x.jsonl", '{"id": "c", "text": "The green hose."}\n' + ROWS),
        lambda root: (root / "x.jsonl").rename(root.parent / "away"),
        lambda root: rewrite(root / "x.jsonl", ROWS.replace('{"id": "a", "text"', '{"id": "a", "text')),
    ],
    ids=["nothing", "touched", "another record", "gone", "unreadable"],
)
def test_it_is_not_read_again_for_as_long_as_it_is_what_it_was(
    database: Database, root: Path, change: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    ingested(database, root, "acme", {"x.jsonl": ROWS, "y.md": "The blue lamp."})
    forgotten(database, "a")
    assert found(database) == {"The blue valve.", "The blue lamp."}
    change(root)
    again(database)
    add_root(database, "acme", "support", str(root / "x.jsonl") if (root / "x.jsonl").exists() else str(root))
    again(database)
    with psycopg.connect(database.url) as connection:
        connection.execute("UPDATE rag.source_files SET parser_version = 'older'")
    again(database)
    if (root.parent / "away").exists():
        (root.parent / "away").rename(root / "x.jsonl")
        again(database)
    assert "The red pump." not in found(database)
    assert rows_with(database, "red pump") == {}
    assert statuses(database)["a"] == "forgotten"


def test_another_version_of_it_is_read(database: Database, root: Path) -> None:
    ingested(database, root, "acme", {"x.jsonl": ROWS, "y.md": "The blue lamp."})
    forgotten(database, "x.jsonl")
    assert found(database) == {"The blue lamp."}
    rewrite(root / "x.jsonl", ROWS.replace("red pump", "red pump now"))
    again(database)
    assert found(database) == {"The blue lamp.", "The red pump now."}, "the other record is what it was"
    assert statuses(database) == {"a": "ready", "b": "forgotten", "y.md": "ready"}


def test_what_is_allowed_again_is_read_by_the_next_ingest(database: Database, root: Path) -> None:
    ingested(database, root, "acme", {"a.md": "The red pump.", "b.md": "The blue valve."})
    forgotten(database, "a.md")
    assert undo(database, "a.md") == 1
    again(database)
    assert found(database) == {"The red pump.", "The blue valve."}
    with database.work("acme") as connection:
        assert list_events(connection, "acme", "support", 1)[0].event == "allowed"


def test_a_run_that_is_under_way_does_not_publish_it(database: Database, root: Path) -> None:
    ingested(database, root, "acme", {"b.md": "The blue valve."})
    rewrite(root / "a.md", "The red pump.")
    sync_sources(database, "acme")
    built = enabled_profiles(database, "acme")
    ready, _ = embedded(database, built, cut(database, built, root.parent), root.parent)
    forgotten(database, "a.md")
    assert publish_chunks(database, built, ready).superseded == 1
    assert found(database) == {"The blue valve."}


def test_a_scan_that_is_under_way_does_not_bring_it_back(
    database: Database, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingested(database, root, "acme", {"a.md": "The red pump."})
    rewrite(root / "a.md", "The red pump, newer.")
    write = sync.store.write_sources

    def late(connection: object, of: object, staged: list[StagedSource]) -> None:
        if staged:
            forgotten(database, "a.md")  # after the scan has looked what is known
        write(connection, of, staged)  # type: ignore[arg-type]

    monkeypatch.setattr(sync.store, "write_sources", late)
    again(database)
    assert (found(database), statuses(database)) == (set(), {"a.md": "forgotten"})
    assert rows_with(database, "newer") == {}


def test_pages_that_repeat_it_are_served_instead(database: Database, root: Path) -> None:
    ingested(database, root, "acme", {"a.md": "The red pump.", "b.md": "The blue valve."})
    with psycopg.connect(database.url) as connection:  # as a page that adds nothing to another one is published
        connection.execute(
            "UPDATE rag.source_profiles b "
            "SET duplicate_of = a.source_id, duplicate_checksum = a.checksum, chunk_count = 0 "
            "FROM rag.source_profiles a, rag.knowledge_sources s, rag.knowledge_sources o "
            "WHERE s.id = b.source_id AND s.name = 'b.md' AND o.id = a.source_id AND o.name = 'a.md'"
        )
        connection.execute(
            "DELETE FROM rag.knowledge_chunks c USING rag.knowledge_sources s "
            "WHERE s.id = c.source_id AND s.name = 'b.md'"
        )
    assert found(database) == {"The red pump."}
    forgotten(database, "a.md")
    again(database)
    assert found(database) == {"The blue valve."}


def test_it_stays_forgotten_when_another_parser_reads_its_file(database: Database, root: Path) -> None:
    ingested(database, root, "acme", {"a.md": "The red pump."})
    forgotten(database, "a.md")
    with psycopg.connect(database.url) as connection:
        connection.execute("UPDATE rag.source_files SET parser_version = %s", [f"{PARSER_VERSION} before"])
        connection.execute("UPDATE rag.knowledge_sources SET checksum = 'of another parser'")
    report = sync_sources(database, "acme")
    assert replace(report, bytes_read=0, files=0, roots=0) == replace(sync.SyncReport())
    assert statuses(database) == {"a.md": "forgotten"}


@pytest.mark.parametrize("dropped", [False, True], ids=["retired", "dropped"])
def test_vectors_that_a_profile_made_which_is_given_up_go_as_well(
    database: Database, root: Path, dropped: bool
) -> None:
    ingested(database, root, "acme", {"a.md": " ".join(f"The pump {number} is red." for number in range(30))})
    larger = HASH_PROFILE.model_copy(update={"name": "larger", "chunking": ChunkingSpec(size=90, overlap=0)})
    add_spec(database, larger)
    ingest(database, "acme", "support", "larger")
    before = vectors(database)
    retire(database, "acme", "support", "larger", force=True)
    if dropped:
        drop_retired(database, "acme", "support", soak_days=0)
    assert vectors(database) == before > 5
    forgotten(database, "a.md")
    assert vectors(database) == 0
