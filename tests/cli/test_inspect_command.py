from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.command_line import Rag

GUIDE = "# Pump\n\n## Cut-in\n\n" + "The PX-4412 pump cuts in at 1.8 bar and out at 3.2 bar. " * 40


@pytest.fixture
def guide(tmp_path: Path) -> Path:
    path = tmp_path / "guide.md"
    path.write_text(GUIDE)
    return path


def test_what_the_parser_saw_and_where_chunks_begin_and_end(rag: Rag, guide: Path) -> None:
    (file,) = rag.json("inspect", str(guide), "--chunking", "recursive:300:50")["files"]
    assert {"path", "status", "error", "content_type", "language", "text", "chunks"} <= set(file)
    assert (file["path"], file["status"], file["error"]) == (str(guide), "ready", None)
    assert file["text"] == GUIDE.rstrip() or file["text"] == GUIDE
    assert len(file["chunks"]) > 3
    for chunk in file["chunks"]:
        assert file["text"][chunk["start"] : chunk["end"]] == chunk["content"]
        assert len(chunk["content"]) <= 300


def test_every_file_gets_a_status_whatever_it_is(rag: Rag, tmp_path: Path, guide: Path) -> None:
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7 not really")
    (tmp_path / "empty.txt").write_bytes(b"")
    (tmp_path / "film.mkv").write_bytes(b"\x1aE\xdf\xa3" + os.urandom(50))
    missing = str(tmp_path / "nowhere.md")
    files = rag.json("inspect", str(tmp_path), missing)["files"]
    statuses = {Path(file["path"]).name: file["status"] for file in files}
    assert statuses == {
        "guide.md": "ready", "broken.pdf": "failed", "empty.txt": "no_text", "film.mkv": "failed",
        "nowhere.md": "failed",
    }  # fmt: skip
    assert all(file["error"] for file in files if file["status"] != "ready")


def test_each_record_of_a_collection_is_a_file_of_its_own(rag: Rag, tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"_id": "a", "text": "one"}\n{"_id": "b", "text": "two"}\n')
    files = rag.json("inspect", str(path))["files"]
    assert [(file["path"], file["text"]) for file in files] == [(f"{path}#a", "one"), (f"{path}#b", "two")]


def test_no_database_is_needed(rag: Rag, guide: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://nobody@127.0.0.1:1/nowhere")
    monkeypatch.setenv("RAG_HOME", str(tmp_path / "unused"))
    assert "chunks" in rag("inspect", str(guide)).stdout
    assert not (tmp_path / "unused").exists()


@pytest.mark.parametrize(
    ("chunking", "said"),
    [
        ("recursive", "STRATEGY:SIZE:OVERLAP"),
        ("recursive:big:0", "STRATEGY:SIZE:OVERLAP"),
        ("nonsense:300:0", "strategy"),
        ("recursive:300:300", "overlap 300 must be"),
        ("recursive:300:0:colour=red", "colour"),
        ("recursive:300:0:colour", "NAME=VALUE"),
    ],
)
def test_a_chunking_that_cannot_be_is_wrong_use(rag: Rag, guide: Path, chunking: str, said: str) -> None:
    assert said in rag.error("inspect", str(guide), "--chunking", chunking)[1]


def test_the_page_shows_each_chunk_and_nothing_of_a_file_is_markup(rag: Rag, tmp_path: Path) -> None:
    path, out = tmp_path / "evil.txt", tmp_path / "out.html"
    path.write_text("<script>alert(1)</script> & more words here. " * 30)
    rag("inspect", str(path), "--html", str(out), "--chunking", "recursive:200:40")
    page = out.read_text()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    for number in range(5):
        assert f"<sup>{number}</sup>" in page
    assert 'class="c c1 o"' in page


def test_a_wrong_setting_is_told_before_anything_is_read(
    rag: Rag, guide: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAG_PARSE_SECONDS", "soon")
    refused = rag("inspect", str(guide), code=2)
    assert refused.stderr.startswith("Error: RAG_PARSE_SECONDS=soon: it has to be a number above 0")


def test_where_no_page_can_be_written_is_told_before_anything_is_read(rag: Rag, guide: Path, tmp_path: Path) -> None:
    refused = rag("inspect", str(guide), "--html", str(tmp_path), code=2)
    assert refused.stderr.startswith(f"Error: --html names a file to write, and {tmp_path} is a folder")
    rag("inspect", str(guide), "--html", str(tmp_path / "new" / "page.html"))
    assert (tmp_path / "new" / "page.html").exists()


def test_the_encoding_that_a_root_would_be_told_is_tried(rag: Rag, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("Миру мир".encode("koi8-r"))
    (file,) = rag.json("inspect", str(tmp_path / "a.txt"), "--encoding", "koi8-r")["files"]
    assert (file["text"], file["metadata"]["quality"]["encoding"]) == ("Миру мир", "koi8-r")
    assert file["poor"] == []
    (file,) = rag.json("inspect", str(tmp_path / "a.txt"))["files"]
    assert file["poor"] == ["the encoding is a guess (koi8-u) from 7 characters"]
    assert f"read poorly: {file['poor'][0]}" in rag("inspect", str(tmp_path / "a.txt")).stdout
    _, message = rag.error("inspect", str(tmp_path / "a.txt"), "--encoding", "koi8-q")
    assert "did you mean" in message
