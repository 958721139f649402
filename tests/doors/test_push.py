"""Pushed documents: sources like any other, each in its own scope."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from rag_assets.automation.pending import look_at
from rag_assets.doors.push import (
    adelete_pushed,
    apush_document,
    apushed_status,
    delete_pushed,
    push_document,
    pushed_status,
)
from rag_assets.doors.tools import make_tools
from rag_assets.errors import PushLimitReached, UsageError
from rag_assets.ingest import sources, staging
from rag_assets.ingest.forgetting import forget
from rag_assets.ingest.roots import move_root, remove_root
from rag_assets.ingest.run import ingest
from rag_assets.ingest.staging import read_file
from rag_assets.sources.scan import SourceFile
from rag_assets.store.database import Database
from rag_assets.store.erase import erase
from rag_assets.store.roots import list_roots
from tests.support.pdf_files import pdf, says
from tests.support.push_world import ACME, found, ingest_all, state


def test_a_pushed_document_is_ingested_found_cited_replaced_and_gone_when_it_is_deleted(pushing: Database) -> None:
    pushed = push_document(pushing, *ACME, "faq/17", "# Returns\n\nThe code is R-1001.", metadata={"team": "sales"})
    assert pushed["outcome"] == "pushed"
    assert state(pushing, "faq/17") == ("received", None)
    ingest_all(pushing)
    status = pushed_status(pushing, *ACME, "faq/17")
    assert (status["state"], status["sources"], status["profiles"]) == ("ingested", 1, {"hash-64": "ingested"})
    (first,) = make_tools(pushing, tenant="acme", bot="support").search("R-1001", 1)["results"]
    assert "R-1001" in first["content"]
    assert (first["source_id"], first["citation"]["document"]) == (status["source_ids"][0], "faq/17")
    assert first["metadata"]["team"] == "sales"
    assert "R-1001" in found(pushing, "returns", metadata={"team": "sales"})
    assert "R-1001" not in found(pushing, "returns", metadata={"team": "legal"})
    assert "R-1001" in found(pushing, "returns", roots=["push://documents"])

    push_document(pushing, *ACME, "faq/17", "# Returns\n\nThe code is R-2002.", metadata={"team": "sales"})
    assert state(pushing, "faq/17") == ("received", None)
    assert "R-1001" in found(pushing, "returns")  # served until the next one is
    ingest_all(pushing)
    assert "R-2002" in found(pushing, "returns")
    assert "R-1001" not in found(pushing, "returns")
    assert pushed_status(pushing, *ACME, "faq/17")["source_ids"] == status["source_ids"]

    assert delete_pushed(pushing, *ACME, "faq/17")
    assert not delete_pushed(pushing, *ACME, "faq/17")
    assert state(pushing, "faq/17") == ("deleted", None)
    ingest_all(pushing)
    assert "R-2002" not in found(pushing, "returns")
    assert "drawer five" in found(pushing, "handbook")
    push_document(pushing, *ACME, "faq/17", "# Returns\n\nThe code is R-3003.")
    ingest_all(pushing)
    assert "R-3003" in found(pushing, "returns")


def test_an_identical_push_writes_nothing_and_another_description_is_taken_without_embedding(pushing: Database) -> None:
    push_document(pushing, *ACME, "a", "The code is R-1001.", metadata={"team": "sales"})
    ingest_all(pushing)
    before = pushed_status(pushing, *ACME, "a")
    again = push_document(pushing, *ACME, "a", "The code is R-1001.", metadata={"team": "sales"})
    assert again["outcome"] == "unchanged"
    assert pushed_status(pushing, *ACME, "a") == before
    assert ingest_all(pushing).sources.changes == 0
    assert push_document(pushing, *ACME, "a", "The code is R-1001.", metadata={"team": "legal"})["outcome"] == "pushed"
    ingest_all(pushing)
    assert "R-1001" in found(pushing, "code", metadata={"team": "legal"})
    assert state(pushing, "a") == ("ingested", None)


def test_a_file_that_cannot_be_read_fails_alone_and_what_was_served_stays(pushing: Database) -> None:
    push_document(pushing, *ACME, "good", "The code is R-1001.")
    push_document(pushing, *ACME, "manual", "The old manual says M-5005.", name="manual.md")
    ingest_all(pushing)
    push_document(pushing, *ACME, "manual", pdf(says("x"))[:200], name="manual.pdf")
    push_document(pushing, *ACME, "program", b"\x7fELF" + bytes(500), name="program.bin")
    push_document(pushing, *ACME, "blank", " \n ")
    ingest_all(pushing)
    for key in ("manual", "program"):
        failed, reason = state(pushing, key)
        assert failed == "failed"
        assert reason
    assert state(pushing, "blank") == ("no_text", "no text was found in it")
    assert state(pushing, "good") == ("ingested", None)
    assert "M-5005" in found(pushing, "old manual")
    push_document(pushing, *ACME, "manual", "The new manual says M-6006.", name="manual.md")
    ingest_all(pushing)
    assert state(pushing, "manual") == ("ingested", None)
    assert "M-6006" in found(pushing, "manual")


def test_formats_are_told_by_name_or_by_type_and_records_of_a_file_are_one_document(pushing: Database) -> None:
    push_document(
        pushing,
        *ACME,
        "page",
        b"<html><body><p>The hypertext word is HTM-1.</p></body></html>",
        content_type="text/html",
    )
    push_document(
        pushing, *ACME, "rows", "id,text\n1,Row CSV-1\n2,Row CSV-2\n", name="rows.csv", metadata={"team": "x"}
    )
    ingest_all(pushing)
    assert "HTM-1" in found(pushing, "hypertext")
    assert "<p>" not in found(pushing, "hypertext")
    assert pushed_status(pushing, *ACME, "rows")["state"] == "ingested"
    assert "CSV-2" in found(pushing, "row", metadata={"team": "x"})
    delete_pushed(pushing, *ACME, "rows")
    ingest_all(pushing)
    assert "CSV-2" not in found(pushing, "row")


def test_a_bot_has_no_more_documents_and_bytes_than_it_may_however_many_push_at_once(
    pushing: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAG_PUSH_DOCUMENTS", "5")

    def push(number: int) -> str:
        try:
            user = "ann" if number % 2 else None
            return str(push_document(pushing, *ACME, f"k{number}", f"text {number}", user=user)["outcome"])
        except PushLimitReached:
            return "refused"

    with ThreadPoolExecutor(8) as threads:
        outcomes = list(threads.map(push, range(24)))
    assert (outcomes.count("pushed"), outcomes.count("refused")) == (5, 19)
    kept = outcomes.index("pushed")
    user = "ann" if kept % 2 else None
    assert push_document(pushing, *ACME, f"k{kept}", "another", user=user)["outcome"] == "pushed"  # takes no more room
    assert push_document(pushing, "acme", "sales", "k", "theirs")["outcome"] == "pushed"
    delete_pushed(pushing, *ACME, f"k{kept}", user=user)
    assert push_document(pushing, *ACME, "one more", "text")["outcome"] == "pushed"
    monkeypatch.setenv("RAG_PUSH_DOCUMENTS", "100")
    monkeypatch.setenv("RAG_PUSH_TOTAL_MB", "0.001")
    with pytest.raises(PushLimitReached, match="RAG_PUSH_TOTAL_MB"):
        push_document(pushing, *ACME, "big", "x" * 2_000)


def test_a_forgotten_document_loses_its_bytes_and_stays_away_until_it_is_another_one(pushing: Database) -> None:
    push_document(pushing, *ACME, "a", "The code is R-1001.")
    push_document(pushing, *ACME, "b", "The code is R-7007.")
    ingest_all(pushing)
    (source,) = pushed_status(pushing, *ACME, "a")["source_ids"]
    forget(pushing, *ACME, [UUID(source)])
    with pushing.work("acme") as connection:
        rows = connection.execute("SELECT key, content FROM rag.pushed_documents ORDER BY key").fetchall()
    assert [(key, content is None) for key, content in rows] == [("a", True), ("b", False)]
    assert state(pushing, "a") == ("forgotten", None)
    for _ in range(2):
        assert push_document(pushing, *ACME, "a", "The code is R-1001.")["outcome"] == "forgotten"
        ingest_all(pushing)
        assert state(pushing, "a") == ("forgotten", None)
        assert "R-1001" not in found(pushing, "code")
    push_document(pushing, *ACME, "a", "The code is R-8008.")
    ingest_all(pushing)
    assert state(pushing, "a") == ("ingested", None)
    assert "R-8008" in found(pushing, "code")


def test_pushed_documents_are_a_root_of_their_own_that_the_sensor_looks_at(pushing: Database) -> None:
    def works() -> int:
        return len([one for one in look_at(pushing, "acme").works if one.profile is None])

    assert works() == 0
    push_document(pushing, *ACME, "a", "The code is R-1001.")
    push_document(pushing, *ACME, "a", "The code is R-2002.", user="ann O/Ü")
    assert works() == 1
    ingest_all(pushing)
    assert works() == 0
    with pushing.work("acme") as connection:
        roots = {root.uri: root for root in list_roots(connection, *ACME) if root.uri.startswith("push:")}
    assert set(roots) == {"push://documents", "push://user/ann%20O%2F%C3%9C"}
    assert roots["push://user/ann%20O%2F%C3%9C"].options.user == "ann O/Ü"
    delete_pushed(pushing, *ACME, "a")
    assert works() == 1
    ingest_all(pushing)
    for root in roots.values():
        with pytest.raises(UsageError, match="cannot be moved"):
            move_root(pushing, root, "/tmp")
    remove_root(pushing, roots["push://user/ann%20O%2F%C3%9C"])
    assert "R-2002" not in found(pushing, "code", user="ann O/Ü")
    push_document(pushing, *ACME, "a", "The code is R-2002.", user="ann O/Ü")
    ingest_all(pushing)
    assert "R-2002" in found(pushing, "code", user="ann O/Ü")


def test_pushing_what_lies_in_a_folder_too_is_no_move_of_either(pushing: Database, tmp_path: Path) -> None:
    push_document(pushing, *ACME, "a", "The same bytes.", name="a.md")
    ingest_all(pushing)
    folder = tmp_path / "copy"
    folder.mkdir()
    (folder / "a.md").write_text("The same bytes.")
    ingest(pushing, *ACME, "hash-64", roots=[str(folder)])
    assert state(pushing, "a") == ("ingested", None)


def test_a_scan_that_was_ended_goes_on_where_it_was(pushing: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(9):
        push_document(pushing, *ACME, f"k{number}", f"Word{number} stands here.")
    read: list[str] = []

    def ended(file: SourceFile, known: Any) -> Any:
        read.append(file.path_in_root)
        if len(read) == 6:
            raise KeyboardInterrupt
        return read_file(file, known)

    monkeypatch.setattr(staging, "BATCH_FILES", 2)
    with monkeypatch.context() as patch:
        patch.setattr(sources, "read_file", ended)
        with pytest.raises(KeyboardInterrupt):
            ingest_all(pushing)
    with pushing.work("acme") as connection:
        rows = connection.execute("SELECT key FROM rag.pushed_documents WHERE read_at = pushed_at").fetchall()
    assert 1 <= len(rows) < 6
    assert ingest_all(pushing).sources.changed == 9 - len(rows)
    assert [state(pushing, f"k{number}") for number in range(9)] == [("ingested", None)] * 9


def test_many_deleted_at_once_are_no_fault(pushing: Database) -> None:
    for number in range(30):
        push_document(pushing, *ACME, f"k{number}", f"Word{number} stands here.")
    ingest_all(pushing)
    for number in range(30):
        delete_pushed(pushing, *ACME, f"k{number}")
    assert ingest_all(pushing).sources.held == []
    assert "stands here" not in found(pushing, "word stands here")


def test_erasure_leaves_nothing_of_a_tenant_and_everything_of_others(pushing: Database) -> None:
    for tenant, bot, user in (("acme", "support", None), ("acme", "support", "ann"), ("other", "support", None)):
        push_document(pushing, tenant, bot, "a", "The code is R-1001.", user=user)
    assert erase(pushing, "acme", "sales").remaining["pushed_documents"] == 0
    report = erase(pushing, "acme")
    assert (report.counts["pushed_documents"], set(report.remaining.values())) == (2, {0})
    assert pushed_status(pushing, "other", "support", "a")["state"] == "received"


def test_tasks_push_ask_and_delete_as_threads_do(pushing: Database) -> None:
    async def use() -> list[Any]:
        try:
            pushed = await apush_document(pushing, *ACME, "a", "The code is R-1001.", by="token-7")
            status = await apushed_status(pushing, *ACME, "a")
            return [pushed["outcome"], status["pushed_by"], await adelete_pushed(pushing, *ACME, "a")]
        finally:
            await pushing.aclose()

    assert asyncio.run(use()) == ["pushed", "token-7", True]
