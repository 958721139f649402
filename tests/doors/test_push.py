"""Pushed documents: sources like any other, each in its own scope."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

from rag_assets.automation.pending import look_at
from rag_assets.doors.push import (
    MAX_METADATA_CHARS,
    MAX_NAME_BYTES,
    adelete_pushed,
    apush_document,
    apushed_status,
    delete_pushed,
    push_document,
    pushed_status,
)
from rag_assets.doors.tools import make_tools
from rag_assets.errors import InvalidArgument, InvalidKey, PushLimitReached, UnknownBot, UnknownSource, UsageError
from rag_assets.ingest import sources, staging
from rag_assets.ingest.forgetting import forget
from rag_assets.ingest.roots import move_root, remove_root
from rag_assets.ingest.run import IngestReport, ingest
from rag_assets.ingest.staging import read_file
from rag_assets.sources.scan import SourceFile
from rag_assets.store.database import Database
from rag_assets.store.erase import erase
from rag_assets.store.roots import list_roots
from rag_assets.store.tenants import add_tenant
from tests.support.pdf_files import pdf, says
from tests.support.worlds import ingested

ACME = ("acme", "support")


@pytest.fixture
def world(database: Database, tmp_path: Path) -> Iterator[Database]:
    """Tenant acme with the bots support, which has a file, and sales; and tenant other."""
    folder = tmp_path / "files"
    folder.mkdir()
    ingested(database, folder, "acme", {"file.md": "The handbook lies in drawer five."})
    add_tenant(database, "acme", "sales")
    add_tenant(database, "other", "support")
    yield database
    database.close()


def ingest_all(database: Database, tenant: str = "acme", bot: str = "support") -> IngestReport:
    return ingest(database, tenant, bot, "hash-64")


def found(database: Database, words: str, user: str | None = None, **filters: Any) -> str:
    """All that a search for these words finds."""
    return json.dumps(make_tools(database, tenant="acme", bot="support", user=user).search(words, 20, filters))


def state(database: Database, key: str, **more: Any) -> tuple[str, str | None]:
    status = pushed_status(database, *ACME, key, **more)
    return status["state"], status["error"]


def test_a_pushed_document_is_ingested_found_cited_replaced_and_gone_when_it_is_deleted(world: Database) -> None:
    pushed = push_document(world, *ACME, "faq/17", "# Returns\n\nThe code is R-1001.", metadata={"team": "sales"})
    assert pushed["outcome"] == "pushed"
    assert state(world, "faq/17") == ("received", None)
    ingest_all(world)
    status = pushed_status(world, *ACME, "faq/17")
    assert (status["state"], status["sources"], status["profiles"]) == ("ingested", 1, {"hash-64": "ingested"})
    (first,) = make_tools(world, tenant="acme", bot="support").search("R-1001", 1)["results"]
    assert "R-1001" in first["content"]
    assert (first["source_id"], first["citation"]["document"]) == (status["source_ids"][0], "faq/17")
    assert first["metadata"]["team"] == "sales"
    assert "R-1001" in found(world, "returns", metadata={"team": "sales"})
    assert "R-1001" not in found(world, "returns", metadata={"team": "legal"})
    assert "R-1001" in found(world, "returns", roots=["push://documents"])

    push_document(world, *ACME, "faq/17", "# Returns\n\nThe code is R-2002.", metadata={"team": "sales"})
    assert state(world, "faq/17") == ("received", None)
    assert "R-1001" in found(world, "returns")  # served until the next one is
    ingest_all(world)
    assert "R-2002" in found(world, "returns")
    assert "R-1001" not in found(world, "returns")
    assert pushed_status(world, *ACME, "faq/17")["source_ids"] == status["source_ids"]

    assert delete_pushed(world, *ACME, "faq/17")
    assert not delete_pushed(world, *ACME, "faq/17")
    assert state(world, "faq/17") == ("deleted", None)
    ingest_all(world)
    assert "R-2002" not in found(world, "returns")
    assert "drawer five" in found(world, "handbook")
    push_document(world, *ACME, "faq/17", "# Returns\n\nThe code is R-3003.")
    ingest_all(world)
    assert "R-3003" in found(world, "returns")


def test_an_identical_push_writes_nothing_and_another_description_is_taken_without_embedding(world: Database) -> None:
    push_document(world, *ACME, "a", "The code is R-1001.", metadata={"team": "sales"})
    ingest_all(world)
    before = pushed_status(world, *ACME, "a")
    again = push_document(world, *ACME, "a", "The code is R-1001.", metadata={"team": "sales"})
    assert again["outcome"] == "unchanged"
    assert pushed_status(world, *ACME, "a") == before
    assert ingest_all(world).sources.changes == 0
    assert push_document(world, *ACME, "a", "The code is R-1001.", metadata={"team": "legal"})["outcome"] == "pushed"
    ingest_all(world)
    assert "R-1001" in found(world, "code", metadata={"team": "legal"})
    assert state(world, "a") == ("ingested", None)


def test_whatever_a_key_is_it_stays_one_document_of_its_own_scope(world: Database) -> None:
    keys = [
        "../../x", "..", ".", "/etc/passwd", "file:///etc/passwd", "push://user/ann/x", "user/ann/x", "a/b", "a%2Fb",
        "a#b", "a?b=c", "' OR 1=1 --", "%s", "{x}", "Ä ö/日本", "😀", "x" * MAX_NAME_BYTES, "https://evil.example/x",
    ]  # fmt: skip
    for number, key in enumerate(keys):
        assert push_document(world, *ACME, key, f"Word{number} stands in it.")["outcome"] == "pushed"
    report = ingest_all(world)
    assert report.sources.failures == []
    for number, key in enumerate(keys):
        status = pushed_status(world, *ACME, key)
        assert (status["state"], status["sources"], status["id"]) == ("ingested", 1, key)
        (first,) = make_tools(world, tenant="acme", bot="support").search(f"Word{number}", 1)["results"]
        assert first["citation"]["document"] == key
    for key in ("", " ", " a", "a\n", "a\x00b", "\ud800", "x" * 10_000, "ä" * 501, None, 7, b"a"):
        for use in (
            lambda: push_document(world, *ACME, key, "x"),  # type: ignore[arg-type]  # noqa: B023
            lambda: pushed_status(world, *ACME, key),  # type: ignore[arg-type]  # noqa: B023
            lambda: delete_pushed(world, *ACME, key),  # type: ignore[arg-type]  # noqa: B023
        ):
            with pytest.raises(InvalidArgument) as refused:
                use()
            assert refused.value.argument == "key"


def test_what_cannot_be_kept_is_refused_by_name(world: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    deep: dict[str, Any] = {}
    for _ in range(10_000):
        deep = {"a": deep}
    for more, argument in (
        ({"data": ""}, "data"), ({"data": b""}, "data"), ({"data": 7}, "data"), ({"data": "a\x00"}, "data"),
        ({"data": "\ud800"}, "data"), ({"name": ""}, "name"), ({"name": "a\nb"}, "name"), ({"name": 7}, "name"),
        ({"content_type": "no type"}, "content_type"), ({"content_type": "text/html\nX: y"}, "content_type"),
        ({"content_type": "a/" + "b" * 300}, "content_type"), ({"metadata": []}, "metadata"),
        ({"metadata": {1: 2}}, "metadata"), ({"metadata": {"a": float("nan")}}, "metadata"),
        ({"metadata": {"a": object()}}, "metadata"), ({"metadata": {"a": "x\x00"}}, "metadata"),
        ({"metadata": {"rag:origin": {}}}, "metadata"), ({"metadata": {"doc_id": "x"}}, "metadata"),
        ({"metadata": {"a": "x" * MAX_METADATA_CHARS}}, "metadata"), ({"metadata": deep}, "metadata"),
        ({"metadata": {"a": "\ud800"}}, "metadata"), ({"user": ""}, "user"), ({"user": "a\x00"}, "user"),
        ({"by": ""}, "by"),
    ):  # fmt: skip
        arguments: dict[str, Any] = {"data": "text", **more}
        with pytest.raises(InvalidArgument) as refused:
            push_document(world, *ACME, "a", arguments.pop("data"), **arguments)
        assert refused.value.argument == argument
    monkeypatch.setenv("RAG_PUSH_FILE_MB", "1")
    with pytest.raises(InvalidArgument, match="RAG_PUSH_FILE_MB"):
        push_document(world, *ACME, "a", b"x" * (2**20 + 1))
    for tenant, bot in (("../acme", "support"), ("acme", "a'b"), ("", "support")):
        with pytest.raises(InvalidKey):
            push_document(world, tenant, bot, "a", "x")
    with pytest.raises(UnknownBot):
        push_document(world, "acme", "nobody", "a", "x")
    with pytest.raises(UnknownSource):
        pushed_status(world, *ACME, "a")


def test_a_scope_writes_sees_and_deletes_nothing_of_another_one(world: Database) -> None:
    owners: list[tuple[str, str, str | None]] = [
        ("acme", "support", None), ("acme", "support", "ann"), ("acme", "support", "bob"), ("acme", "sales", None),
        ("other", "support", None), ("other", "support", "ann"),
    ]  # fmt: skip
    for number, (tenant, bot, user) in enumerate(owners):
        push_document(world, tenant, bot, "same", f"Secret{number} is theirs.", user=user)
    statuses = [pushed_status(world, tenant, bot, "same", user=user) for tenant, bot, user in owners]
    assert len({one["checksum"] for one in statuses}) == len(owners)
    assert [one["user"] for one in statuses] == [user for _, _, user in owners]
    for tenant, bot in {(tenant, bot) for tenant, bot, _ in owners}:
        ingest_all(world, tenant, bot)
    for number, (tenant, bot, user) in enumerate(owners):
        seen = json.dumps(make_tools(world, tenant=tenant, bot=bot, user=user).search("secret theirs", 50))
        mine = {number} | ({0} if (tenant, bot) == ACME else {4} if (tenant, bot) == ("other", "support") else set())
        assert {other for other in range(len(owners)) if f"Secret{other}" in seen} == mine
    assert delete_pushed(world, "acme", "support", "same", user="ann")
    assert [
        pushed_status(world, tenant, bot, "same", user=user)["state"] for tenant, bot, user in owners
    ] == ["ingested", "deleted", *["ingested"] * 4]  # fmt: skip


def test_the_applications_login_itself_reaches_no_row_beyond_its_scope(world: Database) -> None:
    push_document(world, "other", "support", "theirs", "x")
    push_document(world, *ACME, "anns", "x", user="ann")
    scope = {"tenant": "acme", "bot": "support"}
    insert = (
        "INSERT INTO rag.pushed_documents (tenant_id, bot_id, user_id, key, name, content, bytes, checksum, pushed_at,"
        " pushed_by) VALUES (%s, %s, %s, 'k', 'k', 'x', 1, 'c', now(), 'x')"
    )
    root = (
        "INSERT INTO rag.source_roots (knowledge_space_id, tenant_id, bot_id, uri, options) "
        "SELECT id, tenant_id, bot_id, %s, %s FROM rag.knowledge_spaces"
    )
    told = '{"max_loss_percent": 100}'
    with world.connect("app") as connection:

        def attempt(statement: str, values: tuple[Any, ...] = ()) -> int:
            with connection.transaction(force_rollback=True):
                for name, value in {"tenant": "acme", "bot": "support", "user": ""}.items():
                    connection.execute("SELECT set_config(%s, %s, true)", [f"rag.{name}", scope.get(name, value)])
                return connection.execute(statement, values).rowcount

        assert attempt("SELECT FROM rag.pushed_documents") == 0
        assert attempt("UPDATE rag.pushed_documents SET content = 'owned'") == 0
        for owner in (("other", "support", None), ("acme", "sales", None), ("acme", "support", "ann")):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                attempt(insert, owner)
        assert attempt(insert, ("acme", "support", None)) == 1
        for uri, options in (
            ("/etc", "{}"), ("file:///etc", told), ("push://user/ann", told), ("push://documents", "{}"),
            ("https://evil.example/", told), ("push://documents/x", told),
        ):  # fmt: skip
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                attempt(root, (uri, options))
        for statement in (
            "DELETE FROM rag.pushed_documents",
            "SELECT FROM rag.source_roots",
            "DELETE FROM rag.source_roots",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                attempt(statement)


def test_a_file_that_cannot_be_read_fails_alone_and_what_was_served_stays(world: Database) -> None:
    push_document(world, *ACME, "good", "The code is R-1001.")
    push_document(world, *ACME, "manual", "The old manual says M-5005.", name="manual.md")
    ingest_all(world)
    push_document(world, *ACME, "manual", pdf(says("x"))[:200], name="manual.pdf")
    push_document(world, *ACME, "program", b"\x7fELF" + bytes(500), name="program.bin")
    push_document(world, *ACME, "blank", " \n ")
    ingest_all(world)
    for key in ("manual", "program"):
        failed, reason = state(world, key)
        assert failed == "failed"
        assert reason
    assert state(world, "blank") == ("no_text", "no text was found in it")
    assert state(world, "good") == ("ingested", None)
    assert "M-5005" in found(world, "old manual")
    push_document(world, *ACME, "manual", "The new manual says M-6006.", name="manual.md")
    ingest_all(world)
    assert state(world, "manual") == ("ingested", None)
    assert "M-6006" in found(world, "manual")


def test_formats_are_told_by_name_or_by_type_and_records_of_a_file_are_one_document(world: Database) -> None:
    push_document(
        world, *ACME, "page", b"<html><body><p>The hypertext word is HTM-1.</p></body></html>", content_type="text/html"
    )
    push_document(world, *ACME, "rows", "id,text\n1,Row CSV-1\n2,Row CSV-2\n", name="rows.csv", metadata={"team": "x"})
    ingest_all(world)
    assert "HTM-1" in found(world, "hypertext")
    assert "<p>" not in found(world, "hypertext")
    assert pushed_status(world, *ACME, "rows")["state"] == "ingested"
    assert "CSV-2" in found(world, "row", metadata={"team": "x"})
    delete_pushed(world, *ACME, "rows")
    ingest_all(world)
    assert "CSV-2" not in found(world, "row")


def test_a_bot_has_no_more_documents_and_bytes_than_it_may_however_many_push_at_once(
    world: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAG_PUSH_DOCUMENTS", "5")

    def push(number: int) -> str:
        try:
            user = "ann" if number % 2 else None
            return str(push_document(world, *ACME, f"k{number}", f"text {number}", user=user)["outcome"])
        except PushLimitReached:
            return "refused"

    with ThreadPoolExecutor(8) as threads:
        outcomes = list(threads.map(push, range(24)))
    assert (outcomes.count("pushed"), outcomes.count("refused")) == (5, 19)
    kept = outcomes.index("pushed")
    user = "ann" if kept % 2 else None
    assert push_document(world, *ACME, f"k{kept}", "another", user=user)["outcome"] == "pushed"  # takes no more room
    assert push_document(world, "acme", "sales", "k", "theirs")["outcome"] == "pushed"
    delete_pushed(world, *ACME, f"k{kept}", user=user)
    assert push_document(world, *ACME, "one more", "text")["outcome"] == "pushed"
    monkeypatch.setenv("RAG_PUSH_DOCUMENTS", "100")
    monkeypatch.setenv("RAG_PUSH_TOTAL_MB", "0.001")
    with pytest.raises(PushLimitReached, match="RAG_PUSH_TOTAL_MB"):
        push_document(world, *ACME, "big", "x" * 2_000)


def test_a_forgotten_document_loses_its_bytes_and_stays_away_until_it_is_another_one(world: Database) -> None:
    push_document(world, *ACME, "a", "The code is R-1001.")
    push_document(world, *ACME, "b", "The code is R-7007.")
    ingest_all(world)
    (source,) = pushed_status(world, *ACME, "a")["source_ids"]
    forget(world, *ACME, [UUID(source)])
    with world.work("acme") as connection:
        rows = connection.execute("SELECT key, content FROM rag.pushed_documents ORDER BY key").fetchall()
    assert [(key, content is None) for key, content in rows] == [("a", True), ("b", False)]
    assert state(world, "a") == ("forgotten", None)
    for _ in range(2):
        assert push_document(world, *ACME, "a", "The code is R-1001.")["outcome"] == "forgotten"
        ingest_all(world)
        assert state(world, "a") == ("forgotten", None)
        assert "R-1001" not in found(world, "code")
    push_document(world, *ACME, "a", "The code is R-8008.")
    ingest_all(world)
    assert state(world, "a") == ("ingested", None)
    assert "R-8008" in found(world, "code")


def test_pushed_documents_are_a_root_of_their_own_that_the_sensor_looks_at(world: Database) -> None:
    def works() -> int:
        return len([one for one in look_at(world, "acme").works if one.profile is None])

    assert works() == 0
    push_document(world, *ACME, "a", "The code is R-1001.")
    push_document(world, *ACME, "a", "The code is R-2002.", user="ann O/Ü")
    assert works() == 1
    ingest_all(world)
    assert works() == 0
    with world.work("acme") as connection:
        roots = {root.uri: root for root in list_roots(connection, *ACME) if root.uri.startswith("push:")}
    assert set(roots) == {"push://documents", "push://user/ann%20O%2F%C3%9C"}
    assert roots["push://user/ann%20O%2F%C3%9C"].options.user == "ann O/Ü"
    delete_pushed(world, *ACME, "a")
    assert works() == 1
    ingest_all(world)
    for root in roots.values():
        with pytest.raises(UsageError, match="cannot be moved"):
            move_root(world, root, "/tmp")
    remove_root(world, roots["push://user/ann%20O%2F%C3%9C"])
    assert "R-2002" not in found(world, "code", user="ann O/Ü")
    push_document(world, *ACME, "a", "The code is R-2002.", user="ann O/Ü")
    ingest_all(world)
    assert "R-2002" in found(world, "code", user="ann O/Ü")


def test_pushing_what_lies_in_a_folder_too_is_no_move_of_either(world: Database, tmp_path: Path) -> None:
    push_document(world, *ACME, "a", "The same bytes.", name="a.md")
    ingest_all(world)
    folder = tmp_path / "copy"
    folder.mkdir()
    (folder / "a.md").write_text("The same bytes.")
    ingest(world, *ACME, "hash-64", roots=[str(folder)])
    assert state(world, "a") == ("ingested", None)


def test_a_scan_that_was_ended_goes_on_where_it_was(world: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(9):
        push_document(world, *ACME, f"k{number}", f"Word{number} stands here.")
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
            ingest_all(world)
    with world.work("acme") as connection:
        rows = connection.execute("SELECT key FROM rag.pushed_documents WHERE read_at = pushed_at").fetchall()
    assert 1 <= len(rows) < 6
    assert ingest_all(world).sources.changed == 9 - len(rows)
    assert [state(world, f"k{number}") for number in range(9)] == [("ingested", None)] * 9


def test_many_deleted_at_once_are_no_fault(world: Database) -> None:
    for number in range(30):
        push_document(world, *ACME, f"k{number}", f"Word{number} stands here.")
    ingest_all(world)
    for number in range(30):
        delete_pushed(world, *ACME, f"k{number}")
    assert ingest_all(world).sources.held == []
    assert "stands here" not in found(world, "word stands here")


def test_erasure_leaves_nothing_of_a_tenant_and_everything_of_others(world: Database) -> None:
    for tenant, bot, user in (("acme", "support", None), ("acme", "support", "ann"), ("other", "support", None)):
        push_document(world, tenant, bot, "a", "The code is R-1001.", user=user)
    assert erase(world, "acme", "sales").remaining["pushed_documents"] == 0
    report = erase(world, "acme")
    assert (report.counts["pushed_documents"], set(report.remaining.values())) == (2, {0})
    assert pushed_status(world, "other", "support", "a")["state"] == "received"


def test_tasks_push_ask_and_delete_as_threads_do(world: Database) -> None:
    async def use() -> list[Any]:
        try:
            pushed = await apush_document(world, *ACME, "a", "The code is R-1001.", by="token-7")
            status = await apushed_status(world, *ACME, "a")
            return [pushed["outcome"], status["pushed_by"], await adelete_pushed(world, *ACME, "a")]
        finally:
            await world.aclose()

    assert asyncio.run(use()) == ["pushed", "token-7", True]
