"""What a record, a member of an archive and an attachment are called, and where they say that they stand."""

from __future__ import annotations

from collections.abc import Mapping
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rag_assets.documents.registry import PARSER_VERSION
from rag_assets.ingest.run import ingest
from rag_assets.retrieval import LexicalRetriever, RetrievalResult, open_scope
from rag_assets.settings import bundled
from rag_assets.store.database import Database
from rag_assets.store.evals import label_sources
from rag_assets.store.sources import sources_overview
from rag_assets.store.tenants import spaces_of
from tests.support.worlds import ingested, rewrite
from tests.support.zip_files import zip_of


def hit(database: Database, word: str) -> RetrievalResult:
    (found,) = LexicalRetriever(database).search(word, open_scope(database, "acme", "support"))
    return found


def cited(citation: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(citation.get(part) for part in ("document", "file", "place"))


def mail() -> bytes:
    message = EmailMessage()
    message["Subject"], message["From"] = "Minutes", "a@example.org"
    message.set_content("The word letter.")
    for words in ("The word first.", "The word second."):
        message.add_attachment(words.encode(), maintype="text", subtype="plain", filename="report.txt")
    return message.as_bytes()


def test_each_file_inside_a_file_is_a_document_of_its_own(database: Database, root: Path) -> None:
    nested = zip_of({"a.md": "The word nested."})
    (root / "z.zip").write_bytes(
        zip_of(
            {"inner/in.md": "The word inner.", "in.zip": nested, "m.eml": mail(), "fm.md": "---\nid: 7\n---\nFront."}
        )
    )
    ingested(database, root, "acme", {})
    expected = {
        "inner": ("z.zip#inner/in.md", "inner/in.md"),
        "nested": ("z.zip#in.zip#a.md", "in.zip#a.md"),
        "letter": ("z.zip#m.eml", "m.eml"),
        "first": ("z.zip#m.eml#report.txt", "m.eml#report.txt"),
        "second": ("z.zip#m.eml#report (2).txt", "m.eml#report (2).txt"),
    }
    for word, (name, place) in expected.items():
        found = hit(database, word)
        assert (found.source_name, *cited(found.citation)) == (name, name, "z.zip", place)
    front = hit(database, "front")
    assert (front.source_name, *cited(front.citation)) == ("z.zip#fm.md", "7", "z.zip", "fm.md"), "its own id"
    with database.work("acme") as connection:
        known = label_sources(connection, spaces_of(connection, "acme", "support")[0], None)
    assert {one.document for one in known} == {name for name, _ in expected.values()} | {"7"}, "what labels may name"


@pytest.mark.parametrize(
    ("file", "text", "place"),
    [
        ("faq.csv", "question,answer\nOpen?,Yes.\nClosed?,The pump.\n", "line 3"),
        ("prices.json", '[{"name": "Nut"}, {"name": "The pump."}]', "item 2"),
        ("rows.jsonl", '{"name": "Nut"}\n\n{"name": "The pump."}\n', "line 3"),
    ],
)
def test_a_record_says_in_which_file_and_where_in_it_it_stands(
    database: Database, root: Path, file: str, text: str, place: str
) -> None:
    (root / "z.zip").write_bytes(zip_of({f"in/{file}": text.replace("pump", "valve")}))
    ingested(database, root, "acme", {file: text})
    assert cited(hit(database, "pump").citation)[1:] == (file, place)
    assert cited(hit(database, "valve").citation)[1:] == ("z.zip", f"in/{file}, {place}")
    assert not [key for key in hit(database, "pump").metadata if "origin" in key]


def test_a_record_that_has_moved_in_its_file_says_so_and_is_not_published_again(database: Database, root: Path) -> None:
    ingested(database, root, "acme", {"r.jsonl": '{"id": "a", "text": "The pump."}\n'})
    before = hit(database, "pump")
    rewrite(root / "r.jsonl", '{"id": "b", "text": "The valve."}\n{"id": "a", "text": "The pump."}\n')
    report = ingest(database, "acme", "support", "hash-64")
    after = hit(database, "pump")
    assert (report.sources.unchanged, report.publication.chunks_written) == (1, 1)
    assert cited(after.citation) == ("a", "r.jsonl", "line 2")
    assert (after.chunk_id, after.citation["version"]) == (before.chunk_id, before.citation["version"])


def test_what_an_earlier_version_called_after_its_container_gets_its_name_and_no_other_vector(
    database: Database, root: Path
) -> None:
    (root / "z.zip").write_bytes(zip_of({"a.md": "The pump.", "b.md": "The valve."}))
    ingested(database, root, "acme", {"plain.md": "The hose."})
    with psycopg.connect(database.url) as connection:
        connection.execute(
            "UPDATE rag.knowledge_sources SET name = 'a.md', metadata = '{\"doc_id\": \"z.zip\"}' "
            "WHERE name LIKE 'z.zip#%'"
        )
        migration = (bundled("sql") / "migrations" / "0022.source-life.sql").read_text(encoding="utf-8")
        statement = migration[migration.index("UPDATE rag.source_files") :].partition(";")[0]
        connection.execute(statement)
        marked = connection.execute("SELECT uri FROM rag.source_files WHERE parser_version <> %s", [PARSER_VERSION])
        assert [uri.rpartition("/")[2] for (uri,) in marked] == ["z.zip"]
    report = ingest(database, "acme", "support", "hash-64")
    assert (report.sources.changed, report.embeddings.embedded, report.publication.chunks_written) == (0, 0, 0)
    assert cited(hit(database, "valve").citation) == ("z.zip#b.md", "z.zip", "b.md")
    with database.work("acme") as connection:
        names = [source["name"] for source in sources_overview(connection, "acme", "support")]
    assert sorted(names) == ["plain.md", "z.zip#a.md", "z.zip#b.md"]
