"""What may be taken away of a file of which a part cannot be read: all but what may be hidden behind that part."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rag_assets.ingest.run import IngestReport, ingest
from rag_assets.retrieval import LexicalRetriever, open_scope
from rag_assets.store.database import Database
from rag_assets.store.sources import forget_unread_files, sources_overview
from tests.support.worlds import ingested, rewrite
from tests.support.zip_files import zip_of

NO_JSON = "this is no JSON"


def again(database: Database) -> IngestReport:
    return ingest(database, "acme", "support", "hash-64")


def rows(*ids: str) -> str:
    """JSON lines: a record for each id, and whatever is no bare word as it is."""
    lines = (json.dumps({"id": key, "text": f"The word {key}."}) if key.isalnum() else key for key in ids)
    return "".join(f"{line}\n" for line in lines)


def found(database: Database, *words: str) -> list[str]:
    """Those of the words that are found."""
    retriever, scope = LexicalRetriever(database), open_scope(database, "acme", "support")
    return [word for word in words if any(word in hit.content for hit in retriever.search(word, scope))]


def failures(database: Database) -> list[str]:
    with database.work("acme") as connection:
        listed: Sequence[dict[str, Any]] = sources_overview(connection, "acme", "support")
    return [str(source["name"]) for source in listed if source["status"] == "failed"]


@pytest.mark.parametrize(
    ("fault", "file"),
    [
        (rows("twin"), "x.jsonl"),  # a second record of an id
        ('{"id": "twin", "text": 5}', "x.jsonl"),
        ('{"id": "bad", "text": "The word', "x.jsonl"),  # the line breaks off behind its id
        ("[1, 2]", "x.jsonl"),
        (NO_JSON, "x.jsonl"),  # as unreadable as it was when the record was there
    ],
)
def test_a_record_goes_though_another_part_of_its_file_fails(
    database: Database, root: Path, fault: str, file: str
) -> None:
    ingested(database, root, "acme", {file: rows("twin", "secret") + fault})
    assert found(database, "twin", "secret") == ["twin", "secret"]
    rewrite(root / file, rows("twin") + fault)
    report = again(database)
    assert (report.sources.deleted, report.publication.withdrawn, report.sources.failed) == (1, 1, 1)
    assert found(database, "twin", "secret") == ["twin"]


def test_a_row_of_a_table_goes_though_another_row_fails(database: Database, root: Path) -> None:
    ingested(database, root, "acme", {"x.csv": "id,text\n1,pump\n2,secret\n"})
    rewrite(root / "x.csv", "id,text\n1,pump\n3,valve,hose\n")
    assert again(database).sources.deleted == 1, "the row that fails says which one it is"
    assert found(database, "pump", "secret") == ["pump"]


def test_a_line_that_could_be_any_record_keeps_what_is_not_seen_for_as_long_as_it_is_there(
    database: Database, root: Path
) -> None:
    ingested(database, root, "acme", {"x.jsonl": rows("pump", "valve", "hose")})
    rewrite(root / "x.jsonl", rows("pump", "valve", NO_JSON))
    assert again(database).sources.deleted == 0
    assert found(database, "pump", "valve", "hose") == ["pump", "valve", "hose"]
    rewrite(root / "x.jsonl", rows("pump", NO_JSON))
    report = again(database)
    assert report.sources.deleted == 1, "the valve was seen beside that very line"
    assert found(database, "pump", "valve", "hose") == ["pump", "hose"]
    rewrite(root / "x.jsonl", rows("pump"))
    assert again(database).sources.deleted == 1
    assert found(database, "pump", "hose") == ["pump"]
    assert failures(database) == []


def test_what_was_not_seen_and_comes_back_is_as_it_was(database: Database, root: Path) -> None:
    ingested(database, root, "acme", {"x.jsonl": rows("pump", "valve")})
    for text in (rows("pump", NO_JSON), rows("pump", "valve"), rows("pump", "valve", NO_JSON)):
        rewrite(root / "x.jsonl", text)
        assert again(database).publication.chunks_written == 0
    rewrite(root / "x.jsonl", rows("pump", NO_JSON))
    assert again(database).sources.deleted == 1


def test_a_locked_member_keeps_what_it_held_and_nothing_else(database: Database, root: Path) -> None:
    inner = zip_of({"deep.md": "The word deep."})
    whole = zip_of({"in.zip": inner, "open.md": "The word open.", "secret.md": "The word secret."})
    (root / "z.zip").write_bytes(whole)
    ingested(database, root, "acme", {})
    assert found(database, "deep", "open", "secret") == ["deep", "open", "secret"]
    rewrite(root / "z.zip", zip_of({"in.zip": inner, "open.md": "The word open."}, locked=("in.zip",)))
    assert again(database).sources.deleted == 1
    assert found(database, "deep", "open", "secret") == ["deep", "open"]
    assert failures(database) == ["z.zip#in.zip"]
    rewrite(root / "z.zip", zip_of({"open.md": "The word open."}))
    assert again(database).sources.deleted == 1
    assert found(database, "deep", "open") == ["open"]
    assert failures(database) == []


def test_a_line_in_a_member_of_an_archive_hides_nothing_outside_of_it(database: Database, root: Path) -> None:
    (root / "z.zip").write_bytes(zip_of({"r.jsonl": rows("pump", "valve"), "s.md": "The word secret."}))
    ingested(database, root, "acme", {})
    rewrite(root / "z.zip", zip_of({"r.jsonl": rows("pump", NO_JSON)}))
    assert again(database).sources.deleted == 1
    assert found(database, "pump", "valve", "secret") == ["pump", "valve"]


def test_a_file_that_cannot_be_read_at_all_keeps_everything(database: Database, root: Path) -> None:
    whole = zip_of({"a.md": "The word pump.", "b.md": "The word valve."})
    (root / "z.zip").write_bytes(whole)
    ingested(database, root, "acme", {})
    rewrite(root / "z.zip", whole[: len(whole) // 2])
    report = again(database)
    assert (report.sources.deleted, report.sources.failed) == (0, 1)
    assert found(database, "pump", "valve") == ["pump", "valve"]
    rewrite(root / "z.zip", zip_of({"a.md": "The word pump."}))
    assert again(database).sources.deleted == 1
    assert (found(database, "pump", "valve"), failures(database)) == (["pump"], [])


def test_a_failure_goes_with_what_failed(database: Database, root: Path) -> None:
    ingested(database, root, "acme", {"x.jsonl": rows("pump", NO_JSON, "valve", "[1]")})
    assert len(failures(database)) == 2
    rewrite(root / "x.jsonl", rows("pump", "valve", NO_JSON))
    report = again(database)
    assert (len(failures(database)), report.sources.deleted) == (1, 0), "no source was deleted"
    rewrite(root / "x.jsonl", rows("pump", "valve"))
    assert again(database).sources.failed == 0
    assert failures(database) == []


def test_what_could_never_be_read_goes_with_its_file(
    database: Database, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag_assets.sources.scan.MAX_FILE_BYTES", 100)
    ingested(database, root, "acme", {"huge.txt": "word " * 100, "a.txt": "The word crane."})
    assert failures(database) == ["huge.txt"]
    (root / "huge.txt").unlink()
    again(database)
    assert failures(database) == []
    assert found(database, "crane") == ["crane"]


@pytest.mark.parametrize("file", ["x.jsonl", "mine #1.jsonl"])
def test_a_file_that_is_to_be_read_again_for_a_failure_goes_when_it_is_away(
    database: Database, root: Path, file: str
) -> None:
    ingested(database, root, "acme", {file: rows("twin", NO_JSON), "a.txt": "The word crane."})
    (root / file).unlink()
    with database.work("acme") as connection:
        assert forget_unread_files(connection, "acme", "support") == 1
    again(database)
    assert (failures(database), found(database, "twin", "crane")) == ([], ["crane"])
