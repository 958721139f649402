"""Object stores, by the one that fsspec keeps in memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import fsspec
import pytest

from rag_assets.errors import ParseError, RootUnreadable
from rag_assets.sources import addresses
from rag_assets.sources.ignore import HIDDEN, LOCK, PROGRAMS
from rag_assets.sources.listing import NO_PARSER, Skipped
from rag_assets.sources.options import RootOptions
from rag_assets.sources.scan import SourceFile, read_content, scan_root


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A store in this process, as if it were among those that are read."""
    monkeypatch.setattr(addresses, "STORES", addresses.STORES | {"memory"})
    store = fsspec.filesystem("memory")
    yield store
    store.rm("/bucket", recursive=True)


def test_a_store_is_listed_and_read(memory: Any) -> None:
    memory.pipe(
        {
            "/bucket/docs/a.md": b"A",
            "/bucket/docs/sub/b.txt": b"BB",
            "/bucket/docs/.h/c.md": b"C",
            "/bucket/docs/x.bin": b"",
        }
    )
    listing = scan_root("memory://bucket/docs")
    assert [(f.uri, f.path_in_root, f.size) for f in listing.files] == [
        ("memory:///bucket/docs/a.md", "a.md", 1),
        ("memory:///bucket/docs/sub/b.txt", "sub/b.txt", 2),
    ]
    assert listing.skipped == (Skipped(".h/", HIDDEN), Skipped("x.bin", NO_PARSER))
    assert listing.files[0].mtime_ns > 1_500_000_000 * 10**9
    assert read_content(listing.files[1]).data == b"BB"
    assert [f.path_in_root for f in scan_root("memory://bucket/docs/a.md").files] == ["a.md"]


def test_what_is_left_out_of_a_folder_is_left_out_of_a_store(memory: Any) -> None:
    memory.pipe(
        {
            "/bucket/.ragignore": b"private/\n*.log\n",
            "/bucket/a.md": b"A",
            "/bucket/a.log": b"A",
            "/bucket/~$a.docx": b"A",
            "/bucket/private/b.md": b"B",
            "/bucket/node_modules/x/c.md": b"C",
            "/bucket/env/pyvenv.cfg": b"",
            "/bucket/env/lib/d.md": b"D",
            "/bucket/docs/e.md": b"E",
            "/bucket/old/f.md": b"F",
        }
    )
    listing = scan_root("memory://bucket", options=RootOptions(exclude=("old",)))
    assert [file.path_in_root for file in listing.files] == ["a.md", "docs/e.md"]
    reasons = {one.path: one.reason for one in listing.skipped}
    assert reasons["private/"] == reasons["a.log"] == "listed in .ragignore"
    assert reasons["node_modules/"] == reasons["env/"] == PROGRAMS
    assert reasons["~$a.docx"] == LOCK
    assert reasons["old/"] == "excluded by the root's options"


def test_the_name_of_a_file_in_a_store_leads_nowhere_else(memory: Any) -> None:
    """fsspec itself takes what stands behind `::` for an address of its own."""
    memory.pipe({"/bucket/a::b.md": b"harmless"})
    (file,) = scan_root("memory://bucket").files
    assert read_content(file).data == b"harmless"


def test_a_store_that_does_not_answer_costs_no_more_than_the_deadline(
    memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.pipe({"/bucket/a.md": b"A", "/bucket/sub/b.md": b"B"})
    hung, listed = threading.Event(), type(memory).ls
    monkeypatch.setattr(
        type(memory),
        "ls",
        lambda self, path, **more: hung.wait(30) if path.endswith("sub") else listed(self, path, **more),
    )
    monkeypatch.setenv("RAG_SCAN_SECONDS", "0.3")
    began = time.monotonic()
    listing = scan_root("memory://bucket")
    assert [file.path_in_root for file in listing.files] == ["a.md"]
    assert [error.uri for error in listing.errors] == ["memory:///bucket/sub/"]
    assert "RAG_SCAN_SECONDS" in listing.errors[0].message
    monkeypatch.setattr(type(memory), "open", lambda self, path, mode: hung.wait(30))
    monkeypatch.setenv("RAG_FETCH_SECONDS", "0.3")
    with pytest.raises(RootUnreadable, match="RAG_FETCH_SECONDS"):
        read_content(SourceFile("memory:///bucket/a.md", "a.md", 1, 1))
    assert time.monotonic() - began < 20
    hung.set()


def test_a_file_that_is_gone_from_a_store_is_an_error_in_words(memory: Any) -> None:
    memory.pipe({"/bucket/a.md": b"A"})
    with pytest.raises(ParseError, match="No such file") as caught:
        read_content(SourceFile("memory:///bucket/gone.md", "gone.md", 1, 1))
    assert "FileNotFoundError" not in str(caught.value)
