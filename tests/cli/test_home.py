"""Asking makes no database: without a home, a command says where it looked; and a home is found from folders below."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.core import TyperCommand

from tests.support.command_line import Rag
from tests.support.command_lines import commands, words_of

# What writes, and may make a home; and what needs none.
MAKING = {"up", "ingest", "tenant add", "profile add", "eval import", "dev"}
WITHOUT = {"down", "config", "inspect", "completion"}
ASKING = [pytest.param(name, command, id=name) for name, command in commands() if name not in MAKING | WITHOUT]
NAMES = {"tenant": "acme", "bot": "support", "profile": "static-256"}


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder that belongs to no project, of a user without a home."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.delenv("RAG_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize(("name", "command"), ASKING)
def test_what_only_asks_makes_no_database(rag: Rag, empty: Path, name: str, command: TyperCommand) -> None:
    kind, message = rag.error(*words_of(name, command, NAMES))
    assert kind == "UsageError"
    assert message == (
        f"no home found (looked in {empty / '.rag'}, the folders above it, {empty.parent / 'data' / 'rag-assets'}). "
        "Run `rag up` where it is to be, or set RAG_HOME to the one that is meant"
    )
    assert list(empty.iterdir()) == []
    assert not (empty.parent / "data").exists()


@pytest.mark.parametrize("line", [("ingest", "--dry-run"), ("ingest",)])
def test_an_ingest_that_writes_nothing_makes_no_database_either(rag: Rag, empty: Path, line: tuple[str, ...]) -> None:
    assert "no home found" in rag.error(*line, "--tenant", "acme", "--bot", "support")[1]
    assert list(empty.iterdir()) == []


def test_a_home_that_was_named_and_is_not_there_is_named_again(
    rag: Rag, empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAG_HOME", str(empty / "mistyped"))
    message = rag.error("tenant", "list")[1]
    assert message == f"no database in RAG_HOME={empty / 'mistyped'}. Make one with: rag up"
    assert list(empty.iterdir()) == []


def test_a_home_is_found_from_the_folders_below_it_and_an_error_names_the_database(
    rag: Rag, home: Path, empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (empty / ".rag").symlink_to(home)
    (empty / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(empty / "a" / "b")
    assert "profiles" in rag.json("profile", "list")
    kind, message = rag.error("search", "x", "--tenant", "nobody-at-all", "--bot", "b")
    assert kind == "UnknownTenant"
    assert "(looked in database rag at " in message


@pytest.mark.parametrize("place", ["/dev/null", "/dev/null/rag"])
@pytest.mark.parametrize("line", [("up",), ("tenant", "list"), ("ingest", ".", "--tenant", "t", "--bot", "b")])
def test_a_home_that_cannot_be_is_wrong_use(
    rag: Rag, empty: Path, monkeypatch: pytest.MonkeyPatch, place: str, line: tuple[str, ...]
) -> None:
    monkeypatch.setenv("RAG_HOME", place)
    assert "RAG_HOME" in rag.error(*line)[1]
