"""What a second run does: nothing where nothing changed, and just what is needed where something did."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rag_assets.documents.registry import PARSER_VERSION
from rag_assets.ingest.pairs import enable_pair, enabled_profiles
from rag_assets.ingest.root_changes import decide
from rag_assets.ingest.run import IngestReport, ingest
from rag_assets.ingest.sources import sync_sources
from rag_assets.retrieval import RetrievalResult, open_scope
from rag_assets.retrieval.retrievers import RETRIEVERS
from rag_assets.sources.listing import RootListing, ScanError, SourceFile
from rag_assets.store.database import Database
from rag_assets.store.partitions import partition_name
from rag_assets.store.profiles import add_spec
from rag_assets.store.roots import add_root
from rag_assets.store.sources import FileState, sources_overview
from rag_assets.store.tenants import add_tenant
from tests.support.worlds import HASH_PROFILE, ingested, rewrite, write_files

LONG = "\n\n".join(f"Paragraph {n} is about the pump, the valve and the hose of model {n}." * 3 for n in range(10))


def again(database: Database, tenant: str = "acme", profile: str = "hash-64") -> IngestReport:
    return ingest(database, tenant, "support", profile)


def search(database: Database, query: str, tenant: str = "acme", profile: str | None = None) -> list[RetrievalResult]:
    """What any mode finds."""
    scope = open_scope(database, tenant, "support", profile)
    found = [kind(database).search(query, scope, top_k=100) for kind in RETRIEVERS.values()]
    return [result for results in found for result in results]


def contents(database: Database, tenant: str = "acme") -> list[str]:
    """The chunks of a tenant, whole table, in order."""
    with psycopg.connect(database.url) as connection:
        rows = connection.execute(
            "SELECT content FROM rag.knowledge_chunks WHERE tenant_id = %s "
            "ORDER BY source_id, embedding_profile_id, chunk_index",
            [tenant],
        )
        return [row[0] for row in rows]


def sources(database: Database, tenant: str = "acme") -> dict[str, dict[str, Any]]:
    with database.work(tenant) as connection:
        return {source["name"]: source for source in sources_overview(connection, tenant, "support")}


def work(report: IngestReport) -> tuple[int, int, int, int]:
    """Changed sources, embedded texts, written chunks, withdrawn sources."""
    return (
        report.sources.changed, report.embeddings.embedded, report.publication.chunks_written,
        report.publication.withdrawn,
    )  # fmt: skip


def test_bug_35_a_second_run_embeds_nothing_and_writes_nothing(database: Database, root: Path) -> None:
    first = ingested(database, root, "acme", {"long.md": LONG, "a.md": "The pump.", "sub/b.md": "The valve."})
    assert first.sources.changed == 3
    assert first.publication.chunks_written == first.embeddings.embedded == len(contents(database)) > 5
    before = contents(database)
    second = again(database)
    assert work(second) == (0, 0, 0, 0)
    assert (second.sources.unchanged, second.sources.bytes_read, second.chunks.chunks) == (3, 0, 0)
    assert contents(database) == before


def test_a_touched_file_is_read_but_not_published_again(database: Database, root: Path) -> None:
    ingested(database, root, "acme", {"a.md": "The pump."})
    rewrite(root / "a.md", "The pump.")
    report = again(database)
    assert work(report) == (0, 0, 0, 0)
    assert (report.sources.unchanged, report.sources.bytes_read) == (1, 9)


def test_bug_30_and_34_an_edited_file_is_replaced_whole_and_leaves_no_tail(database: Database, root: Path) -> None:
    ingested(database, root, "acme", {"a.md": LONG, "b.md": "Something else about lamps."})
    assert len(contents(database)) > 5, "every chunk of a long document is kept"
    rewrite(root / "a.md", "Short now: the gasket.")
    report = again(database)
    assert work(report) == (1, 1, 1, 0)
    assert sorted(contents(database)) == ["Short now: the gasket.", "Something else about lamps."]
    assert not any("Paragraph" in result.content for result in search(database, "paragraph pump valve hose model"))


def test_a_deleted_file_disappears_in_each_mode(database: Database, root: Path) -> None:
    ingested(database, root, "acme", {"a.md": "The red pump.", "b.md": "The blue valve."})
    (root / "a.md").unlink()
    report = again(database)
    assert (report.sources.deleted, report.publication.withdrawn) == (1, 1)
    assert {result.content for result in search(database, "red pump")} == {"The blue valve."}
    assert list(sources(database)) == ["b.md"]
    with psycopg.connect(database.url) as connection:
        assert connection.execute("SELECT count(*) FROM rag.source_documents").fetchone() == (1,)


def test_a_renamed_file_is_found_under_its_new_name_and_not_embedded_again(database: Database, root: Path) -> None:
    ingested(database, root, "acme", {"old.md": "The red pump."})
    (root / "old.md").rename(root / "new.md")
    report = again(database)
    assert (report.sources.deleted, *work(report)) == (1, 1, 0, 1, 1)
    assert report.embeddings.cache_hits == 1
    assert {result.source_name for result in search(database, "red pump")} == {"new.md"}


def test_a_file_that_is_changed_and_changed_back_pays_once_for_each_text(database: Database, root: Path) -> None:
    ingested(database, root, "acme", {"a.md": "The red pump."})
    rewrite(root / "a.md", "The blue pump.")
    assert work(again(database)) == (1, 1, 1, 0)
    rewrite(root / "a.md", "The red pump.")
    back = again(database)
    assert work(back) == (1, 0, 1, 0)
    assert back.embeddings.cache_hits == 1
    assert contents(database) == ["The red pump."]
    assert sources(database)["a.md"]["status"] == "ready"


def test_a_change_that_was_taken_back_before_it_was_published_leaves_the_source_ready(
    database: Database, root: Path
) -> None:
    ingested(database, root, "acme", {"a.md": "The red pump."})
    for text in ("The blue pump.", "The red pump."):
        rewrite(root / "a.md", text)
        sync_sources(database, "acme")
    assert (sources(database)["a.md"]["status"], sources(database)["a.md"]["progress_percent"]) == ("ready", 100)
    assert work(again(database)) == (0, 0, 0, 0)


@pytest.mark.parametrize("garbage", [b"%PDF-1.7 and nothing that a PDF needs", bytes(range(256)) * 40])
def test_a_file_that_turns_into_garbage_keeps_its_old_version_served_and_says_why(
    database: Database, root: Path, garbage: bytes
) -> None:
    ingested(database, root, "acme", {"a.md": "# Red\n\nThe red pump.", "b.md": "Lamps."})
    described = sources(database)["a.md"]
    rewrite(root / "a.md", garbage)
    report = again(database)
    assert work(report) == (0, 0, 0, 0)
    (failure,) = report.sources.failures
    assert failure.name == "a.md"
    source = sources(database)["a.md"]
    assert source["status"] == "failed"
    assert source["error"] == failure.error != ""
    assert (source["content_type"], source["locale"]) == (described["content_type"], described["locale"])
    assert any("red pump" in result.content for result in search(database, "red pump"))

    quiet = again(database)
    assert (quiet.sources.failed, quiet.sources.bytes_read, quiet.sources.changed) == (1, 0, 0), "and is counted"
    rewrite(root / "a.md", "# Red\n\nThe red pump.")
    again(database)
    healed = sources(database)["a.md"]
    assert (healed["status"], healed["error"], healed["progress_percent"]) == ("ready", None, 100)


def test_a_file_that_holds_no_text_any_more_disappears_and_says_so(database: Database, root: Path) -> None:
    ingested(database, root, "acme", {"a.md": "The red pump.", "b.md": "Lamps."})
    rewrite(root / "a.md", " \n\n")
    report = again(database)
    assert (report.sources.no_text, report.publication.withdrawn) == (1, 1)
    assert contents(database) == ["Lamps."]
    assert sources(database)["a.md"]["status"] == "no_text"
    assert again(database).sources.no_text == 1, "it stays visible"
    rewrite(root / "a.md", "The green pump.")
    again(database)
    assert "The green pump." in contents(database)


def test_a_root_that_is_moved_away_deletes_nothing_and_comes_back_unchanged(database: Database, root: Path) -> None:
    files = {"a.md": "The red pump.", "b.md": "The blue valve."}
    other = root.parent / "other"
    ingested(database, root, "acme", files)
    add_root(database, "acme", "support", str(write_files(other, {"c.md": "Lamps."})))
    root.rename(root.parent / "away")
    report = again(database)
    assert [failure.name for failure in report.sources.unreadable_roots] == [str(root)]
    assert str(root) in report.sources.unreadable_roots[0].error
    assert (report.sources.deleted, report.sources.changed) == (0, 1), "and the other root was read"
    assert len(contents(database)) == 3
    with database.work("acme") as connection:
        errors = connection.execute("SELECT uri, last_error IS NOT NULL FROM rag.source_roots").fetchall()
    assert sorted(errors) == sorted([(str(root), True), (str(other), False)])
    (root.parent / "away").rename(root)
    back = again(database)
    assert work(back) == (0, 0, 0, 0)
    assert (back.sources.unchanged, back.sources.unreadable_roots) == (3, [])


def listing(*uris: str, errors: tuple[ScanError, ...] = ()) -> RootListing:
    return RootListing(tuple(SourceFile(uri, uri.rpartition("/")[2], 1, 1) for uri in uris), errors)


STATE = FileState(1, 1, "c", PARSER_VERSION)


def test_what_lies_under_a_folder_that_could_not_be_listed_is_kept() -> None:
    names = ("a.md", "sub/b.md", "sub/deep/c.md", "subway.md", "x%20y.md")
    known = dict.fromkeys((f"file:///r/{name}" for name in names), STATE)
    errors = (
        ScanError("sub/", "sub/: Permission denied", "file:///r/sub/"),
        ScanError("x y.md", "x y.md: Input/output error", "file:///r/x%20y.md"),
    )
    changes = decide(listing("file:///r/a.md", errors=errors), known)
    assert changes.gone == ("file:///r/subway.md",)
    assert (changes.to_read, changes.kept) == ((), ("file:///r/a.md",))


def test_a_file_is_read_again_when_its_size_its_time_or_the_parser_has_changed() -> None:
    uri = "file:///r/a.md"
    for state in (None, replace(STATE, size=2), replace(STATE, mtime_ns=2), replace(STATE, parser_version="old")):
        assert decide(listing(uri), {uri: state} if state else {}).to_read == listing(uri).files
    assert decide(listing(uri), {uri: replace(STATE, checksum="other")}).kept == (uri,)


def test_a_file_under_two_roots_is_one_source_and_counted_once(database: Database, root: Path) -> None:
    ingested(database, root, "acme", {"a.md": "The red pump.", "sub/b.md": "The blue valve."})
    add_root(database, "acme", "support", str(root / "sub"))
    report = again(database)
    assert (report.sources.files, report.sources.unchanged, report.sources.changed) == (2, 2, 0)
    rewrite(root / "sub" / "b.md", "The green valve.")
    report = again(database)
    assert (report.sources.files, report.sources.unchanged, report.sources.changed) == (2, 1, 1)
    assert sorted(contents(database)) == ["The green valve.", "The red pump."]
    (root / "sub" / "b.md").unlink()
    assert again(database).sources.deleted == 1
    assert contents(database) == ["The red pump."]


def test_bug_32_and_33_equal_texts_are_two_sources_and_one_may_go(database: Database, root: Path) -> None:
    first = ingested(database, root, "acme", {"a.md": "The red pump.", "b.md": "The red pump.", "c.md": "The red pum"})
    assert (first.embeddings.embedded, first.publication.chunks_written) == (2, 3)
    (root / "a.md").unlink()
    again(database)
    assert sorted(contents(database)) == ["The red pum", "The red pump."]
    assert {result.source_name for result in search(database, "pump")} == {"b.md", "c.md"}


def test_equal_texts_of_two_tenants_stay_apart_and_share_no_cache(database: Database, tmp_path: Path) -> None:
    files = {"a.md": "The red pump.", "b.md": LONG}
    first = ingested(database, tmp_path / "1", "acme", files)
    second = ingested(database, tmp_path / "2", "bolt", files)
    assert second.embeddings.embedded == first.embeddings.embedded
    assert second.embeddings.cache_hits == 0, "a hit would tell that another tenant holds the same text"
    (tmp_path / "1" / "a.md").unlink()
    again(database, "acme")
    assert len(contents(database, "bolt")) == len(contents(database, "acme")) + 1
    other_bot = ingested(database, tmp_path / "3", "bolt", files, bot="sales")
    assert (other_bot.embeddings.embedded, other_bot.embeddings.cache_hits) == (0, first.embeddings.embedded)


def test_bug_40_another_profile_of_the_same_model_pays_nothing_again(database: Database, root: Path) -> None:
    first = ingested(database, root, "acme", {f"{n}.md": f"The pump number {n}." for n in range(8)})
    add_spec(database, HASH_PROFILE.model_copy(update={"name": "hash-again", "distance_metric": "ip"}))
    second = again(database, profile="hash-again")
    assert (second.embeddings.embedded, second.embeddings.cache_hits) == (0, first.embeddings.embedded)
    assert second.publication.chunks_written == 8


def test_the_first_complete_profile_becomes_active_and_a_later_one_does_not_take_over(
    database: Database, root: Path
) -> None:
    first = ingested(database, root, "acme", {"a.md": "The red pump."})
    assert first.publication.activated == ["support"]
    add_spec(database, HASH_PROFILE.model_copy(update={"name": "hash-later"}))
    assert again(database, profile="hash-later").publication.activated == []
    assert open_scope(database, "acme", "support").profile.name == "hash-64"
    assert open_scope(database, "acme", "support", "hash-later").profile.name == "hash-later"
    with psycopg.connect(database.url) as connection:
        events = connection.execute(
            "SELECT p.name, e.event FROM rag.profile_events e "
            "JOIN rag.embedding_profiles p ON p.id = e.embedding_profile_id ORDER BY e.id"
        ).fetchall()
    assert events == [
        ("hash-64", "created"), ("hash-64", "ready"), ("hash-64", "activated"), ("hash-later", "created"),
        ("hash-later", "ready"),
    ]  # fmt: skip
    statuses = {built.profile.name: built.status for built in enabled_profiles(database, "acme")}
    assert statuses == {"hash-64": "active", "hash-later": "ready"}


def test_status_and_progress_say_how_far_a_source_is(database: Database, root: Path) -> None:
    add_tenant(database, "acme", "support")
    add_root(database, "acme", "support", str(write_files(root, {"a.md": "The red pump.", "empty.md": ""})))
    enable_pair(database, "acme", "support", "hash-64")
    sync_sources(database, "acme")
    read, empty = sources(database)["a.md"], sources(database)["empty.md"]
    assert (read["status"], read["progress_percent"], read["profiles"]) == ("processing", 30, {})
    assert (empty["status"], empty["progress_percent"]) == ("no_text", 0)
    again(database)
    done = sources(database)["a.md"]
    assert (done["status"], done["progress_percent"]) == ("ready", 100)
    assert done["profiles"] == {
        "hash-64": {"status": "ready", "chunks": 1, "up_to_date": True, "error": None, "duplicate_of": None}
    }


def test_bug_38_a_partition_that_was_dropped_by_hand_is_built_again(database: Database, root: Path) -> None:
    ingested(database, root, "acme", {"a.md": "The red pump.", "b.md": LONG})
    before = contents(database)
    (built,) = enabled_profiles(database, "acme")
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute(f"DROP TABLE rag.{partition_name(built.id)}")
    assert search(database, "red pump") == []
    report = again(database)
    assert report.embeddings.embedded == 0, "the cache still has every vector"
    assert (report.publication.chunks_written, report.lexical.index_built) == (len(before), True)
    assert contents(database) == before
    assert any(result.content == "The red pump." for result in search(database, "red pump"))
    assert work(again(database)) == (0, 0, 0, 0)


def test_bug_18_and_19_nul_and_surrogates_are_stored_as_what_can_be_stored(database: Database, root: Path) -> None:
    record = {
        "_id": "r\u0000 1",
        "title": "A\u0000 title \ud800",
        "text": "body\u0000 text \ud83d\ude00 \udfff end",
        "note": {"k\u0000": "v\ud800"},
    }
    lines = json.dumps(record) + "\n" + json.dumps({"_id": "2", "text": "fine"}) + "\n"
    report = ingested(database, root, "acme", {"records.jsonl": lines, "nul.md": "before\0after the pump"})
    assert (report.sources.failures, report.publication.failures) == ([], [])
    assert sorted(contents(database)) == ["A title \ufffd\n\nbody text 😀 \ufffd end", "beforeafter the pump", "fine"]
    (found, *_) = search(database, "title body")
    assert found.metadata["note"] == {"k": "v\ufffd"}


def test_bug_27_a_blank_line_is_skipped_and_a_bad_one_fails_alone(database: Database, root: Path) -> None:
    lines = '{"_id": "1", "text": "The red pump."}\n\n{"_id": \n{"_id": "4", "text": "The blue valve."}\n'
    report = ingested(database, root, "acme", {"records.jsonl": lines})
    assert (report.sources.changed, report.sources.failed) == (2, 1)
    assert "line 3" in report.sources.failures[0].name + report.sources.failures[0].error
    assert sorted(contents(database)) == ["The blue valve.", "The red pump."]
    rewrite(root / "records.jsonl", lines.replace('{"_id": \n', '{"_id": "3", "text": "Lamps."}\n'))
    healed = again(database)
    assert (healed.sources.failed, healed.publication.chunks_written) == (0, 1)
    assert len(sources(database)) == 3


def test_bug_29_an_id_and_a_path_of_any_length_or_kind_are_keys(database: Database, root: Path) -> None:
    long_id = "https://example.com/" + "a/" * 6000
    odd = root / "back\\slash \\x41 'quote' %s"
    odd.mkdir()
    report = ingested(database, odd, "acme", {"r.jsonl": json.dumps({"_id": long_id, "text": "The red pump."})})
    assert report.publication.chunks_written == 1
    add_root(database, "acme", "support", str(odd))
    assert again(database).sources.roots == 1, "the same root is remembered once"
    (found, *_) = search(database, "red pump")
    assert found.citation["document"] == long_id
    assert work(again(database)) == (0, 0, 0, 0)


def test_bug_6_each_chunk_is_the_span_of_the_stored_text_that_it_cites(database: Database, root: Path) -> None:
    pattern = "Éte\u0301 {n}: naïve 👩‍👩‍👧 café 🇫🇷 \U0001f600 日本語 " + "wörter und mehr " * 12
    accents = "\n\n".join(pattern.replace("{n}", str(n)) for n in range(15))
    ingested(database, root, "acme", {"accents.md": "# Überschrift\r\n\r\n" + accents, "crlf.txt": "a\r\nb\r\nc é"})
    with psycopg.connect(database.url) as connection:
        rows = connection.execute(
            "SELECT c.content, substr(d.text, (c.citation->>'start')::int + 1, "
            "(c.citation->>'end')::int - (c.citation->>'start')::int) "
            "FROM rag.knowledge_chunks c JOIN rag.source_documents d "
            "ON d.source_id = c.source_id AND d.checksum = c.citation->>'version'"
        ).fetchall()
    assert len(rows) > 10
    assert all(content == cited for content, cited in rows)


def test_the_order_in_which_roots_are_read_does_not_change_what_is_served(
    new_database: Callable[[], Database], tmp_path: Path
) -> None:
    write_files(tmp_path, {"x/a.md": LONG, "y/b.md": "The red pump."})
    served = []
    for order in (("x", "y"), ("y", "x")):
        database = new_database()
        add_tenant(database, "acme", "support")
        for name in order:
            add_root(database, "acme", "support", str(tmp_path / name))
            again(database)
        served.append(sorted(contents(database)))
        database.close()
    assert served[0] == served[1]


@pytest.mark.parametrize("year", [-9000, 1, 2263, 9999, 50_000])
def test_a_file_of_any_time_is_read_and_keeps_no_other_from_it(database: Database, root: Path, year: int) -> None:
    ingested(database, root, "acme", {"a.md": "The pump."})
    write_files(root, {"acme/b.md": "The valve.", "acme/c.md": "The hose."})
    os.utime(root / "acme" / "b.md", (int((year - 1970) * 365.2425 * 86_400),) * 2)
    changed = [work(again(database))[0], work(again(database))[0]]
    rewrite(root / "acme" / "b.md", "The vault.")
    assert [*changed, work(again(database))[0]] == [2, 0, 1]
