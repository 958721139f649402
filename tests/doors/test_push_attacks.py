"""Whoever pushes writes one document of one scope, whatever the key, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from rag_assets.doors.push import (
    MAX_METADATA_CHARS,
    MAX_NAME_BYTES,
    delete_pushed,
    push_document,
    pushed_status,
)
from rag_assets.doors.tools import make_tools
from rag_assets.errors import InvalidArgument, InvalidKey, UnknownBot, UnknownSource
from rag_assets.store.database import Database
from tests.support.push_world import ACME, ingest_all


def test_whatever_a_key_is_it_stays_one_document_of_its_own_scope(pushing: Database) -> None:
    keys = [
        "../../x", "..", ".", "/etc/passwd", "file:///etc/passwd", "push://user/ann/x", "user/ann/x", "a/b", "a%2Fb",
        "a#b", "a?b=c", "' OR 1=1 --", "%s", "{x}", "Ä ö/日本", "😀", "x" * MAX_NAME_BYTES, "https://evil.example/x",
    ]  # fmt: skip
    for number, key in enumerate(keys):
        assert push_document(pushing, *ACME, key, f"Word{number} stands in it.")["outcome"] == "pushed"
    report = ingest_all(pushing)
    assert report.sources.failures == []
    for number, key in enumerate(keys):
        status = pushed_status(pushing, *ACME, key)
        assert (status["state"], status["sources"], status["id"]) == ("ingested", 1, key)
        (first,) = make_tools(pushing, tenant="acme", bot="support").search(f"Word{number}", 1)["results"]
        assert first["citation"]["document"] == key
    for key in ("", " ", " a", "a\n", "a\x00b", "\ud800", "x" * 10_000, "ä" * 501, None, 7, b"a"):
        for use in (
            lambda: push_document(pushing, *ACME, key, "x"),  # type: ignore[arg-type]  # noqa: B023
            lambda: pushed_status(pushing, *ACME, key),  # type: ignore[arg-type]  # noqa: B023
            lambda: delete_pushed(pushing, *ACME, key),  # type: ignore[arg-type]  # noqa: B023
        ):
            with pytest.raises(InvalidArgument) as refused:
                use()
            assert refused.value.argument == "key"


def test_what_cannot_be_kept_is_refused_by_name(pushing: Database, monkeypatch: pytest.MonkeyPatch) -> None:
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
            push_document(pushing, *ACME, "a", arguments.pop("data"), **arguments)
        assert refused.value.argument == argument
    monkeypatch.setenv("RAG_PUSH_FILE_MB", "1")
    with pytest.raises(InvalidArgument, match="RAG_PUSH_FILE_MB"):
        push_document(pushing, *ACME, "a", b"x" * (2**20 + 1))
    for tenant, bot in (("../acme", "support"), ("acme", "a'b"), ("", "support")):
        with pytest.raises(InvalidKey):
            push_document(pushing, tenant, bot, "a", "x")
    with pytest.raises(UnknownBot):
        push_document(pushing, "acme", "nobody", "a", "x")
    with pytest.raises(UnknownSource):
        pushed_status(pushing, *ACME, "a")


def test_a_scope_writes_sees_and_deletes_nothing_of_another_one(pushing: Database) -> None:
    owners: list[tuple[str, str, str | None]] = [
        ("acme", "support", None), ("acme", "support", "ann"), ("acme", "support", "bob"), ("acme", "sales", None),
        ("other", "support", None), ("other", "support", "ann"),
    ]  # fmt: skip
    for number, (tenant, bot, user) in enumerate(owners):
        push_document(pushing, tenant, bot, "same", f"Secret{number} is theirs.", user=user)
    statuses = [pushed_status(pushing, tenant, bot, "same", user=user) for tenant, bot, user in owners]
    assert len({one["checksum"] for one in statuses}) == len(owners)
    assert [one["user"] for one in statuses] == [user for _, _, user in owners]
    for tenant, bot in {(tenant, bot) for tenant, bot, _ in owners}:
        ingest_all(pushing, tenant, bot)
    for number, (tenant, bot, user) in enumerate(owners):
        seen = json.dumps(make_tools(pushing, tenant=tenant, bot=bot, user=user).search("secret theirs", 50))
        mine = {number} | ({0} if (tenant, bot) == ACME else {4} if (tenant, bot) == ("other", "support") else set())
        assert {other for other in range(len(owners)) if f"Secret{other}" in seen} == mine
    assert delete_pushed(pushing, "acme", "support", "same", user="ann")
    assert [
        pushed_status(pushing, tenant, bot, "same", user=user)["state"] for tenant, bot, user in owners
    ] == ["ingested", "deleted", *["ingested"] * 4]  # fmt: skip


def test_the_applications_login_itself_reaches_no_row_beyond_its_scope(pushing: Database) -> None:
    push_document(pushing, "other", "support", "theirs", "x")
    push_document(pushing, *ACME, "anns", "x", user="ann")
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
    with pushing.connect("app") as connection:

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
