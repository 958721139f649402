"""`rag push`: a document is kept as it was given, told of, served after the next ingest, and deleted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import Rag

TENANT = "pushes"
TO = ("--tenant", TENANT, "--bot", "b")


@pytest.fixture(autouse=True)
def _tenant(rag: Rag) -> None:
    rag.json("tenant", "add", TENANT, "--bot", "b")


@pytest.fixture
def note(tmp_path: Path) -> Path:
    file = tmp_path / "hose.md"
    file.write_text("# Hoses\n\nThe zanzibar hose has 7 mm.")
    return file


def test_a_file_is_pushed_once_served_after_an_ingest_and_deleted(rag: Rag, note: Path) -> None:
    words = ("push", str(note), *TO, "--id", "hoses/7", "--meta", "year=2024", "--meta", "team=sales")
    first = rag.json(*words)
    assert {"id", "outcome", "checksum", "bytes"} <= set(first)
    assert (first["id"], first["outcome"], first["bytes"]) == ("hoses/7", "pushed", note.stat().st_size)
    assert rag.json(*words)["outcome"] == "unchanged"
    kept = rag.json("push", *TO, "--id", "hoses/7", "--status")
    assert (kept["state"], kept["name"], kept["metadata"]) == ("received", "hose.md", {"year": 2024, "team": "sales"})
    assert "received" in rag("push", *TO, "--id", "hoses/7", "--status").stdout
    rag.json("ingest", *TO, "--profile", "static-64")
    assert rag.json("push", *TO, "--id", "hoses/7", "--status")["state"] == "ingested"
    asked = ("search", "zanzibar", *TO, "--mode", "lexical", "--filter", "year=2024")
    assert ["zanzibar" in one["content"] for one in rag.json(*asked)["results"]] == [True]
    assert rag.json("push", *TO, "--id", "hoses/7", "--delete") == {"id": "hoses/7", "deleted": True}
    assert rag.json("push", *TO, "--id", "hoses/7", "--delete") == {"id": "hoses/7", "deleted": False}
    rag.json("ingest", *TO, "--profile", "static-64")
    assert rag.json("search", "zanzibar", *TO, "--mode", "lexical")["results"] == []


def test_stdin_is_a_document_and_what_is_pushed_for_a_user_is_that_users(rag: Rag) -> None:
    said = rag("push", "-", *TO, "--id", "mine", "--name", "mine.txt", "--user", "ann", answer="a private text").stdout
    assert "the next ingest" in said
    kept = rag.json("push", *TO, "--id", "mine", "--status", "--user", "ann")
    assert (kept["bytes"], kept["user"], kept["name"]) == (len("a private text"), "ann", "mine.txt")
    for others in ((), ("--user", "bob")):
        kind, message = rag.error("push", *TO, "--id", "mine", "--status", *others)
        assert kind == "UnknownSource"
        assert "mine" in message


def test_metadata_that_only_looks_like_a_number_is_text(rag: Rag, note: Path) -> None:
    given = {"a": "NaN", "b": "-Infinity", "c": "1e999", "d": "[" * 10_000, "e": "007", "f": "a=b"}
    words = [word for key, value in given.items() for word in ("--meta", f"{key}={value}")]
    rag.json("push", str(note), *TO, "--id", "numbers", *words, "--meta", "n=-1.5")
    assert rag.json("push", *TO, "--id", "numbers", "--status")["metadata"] == {**given, "n": -1.5}


def test_what_cannot_be_pushed_is_said_and_nothing_is_kept(
    rag: Rag, note: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = {
        (str(note), "--meta", "year"): "key=value",
        (str(note), "--type", "no type"): "type",
        (str(note), "--meta", "team=a", "--meta", "team=b"): "twice",
        (str(note), "--name", ""): "name",
        ("--delete", "--meta", "team=a"): "--meta",
        (str(note), "--status"): "FILE",
        (): "FILE",
        (str(note.with_name("nothing.md")),): "nothing.md",
        (str(note.parent),): note.parent.name,
    }
    for words, said in wrong.items():
        _, message = rag.error("push", *words, *TO, "--id", "wrong")
        assert said in message, message
    _, message = rag.error("push", str(note), "--tenant", TENANT, "--bot", "nobody", "--id", "wrong")
    assert "nobody" in message
    monkeypatch.setenv("RAG_PUSH_FILE_MB", "0.00001")
    _, message = rag.error("push", str(note), *TO, "--id", "wrong")
    assert "RAG_PUSH_FILE_MB" in message
    assert rag.error("push", *TO, "--id", "wrong", "--status")[0] == "UnknownSource"
