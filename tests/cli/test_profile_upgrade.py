"""`rag profile upgrade`: a profile with the newest terms beside the one that serves, and nothing is paid again."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from tests.support.command_line import Rag

_NUMBERS = count(1)
WORDS = "--provider hash --model hash --dimensions 128 --index-storage bit --terms 1"


@pytest.fixture
def where(rag: Rag, tmp_path: Path) -> tuple[str, ...]:
    """A bot that the profile `old` serves, which has the first terms."""
    (tmp_path / "a.md").write_text("Part ＫＸ－７７２ is a valve.", encoding="utf-8")
    assert rag.json("profile", "add", "old", *WORDS.split())["terms"] == 1
    where = ("--tenant", f"upgrade-{next(_NUMBERS)}", "--bot", "support")
    rag("ingest", str(tmp_path), *where, "--profile", "old")
    return where


def found(rag: Rag, where: tuple[str, ...], profile: str) -> list[str]:
    words = ("search", "KX-772", *where, "--profile", profile, "--mode", "lexical")
    return [one["source_name"] for one in rag.json(*words)["results"]]


def test_the_successor_is_built_with_vectors_from_the_cache_and_finds_more(rag: Rag, where: tuple[str, ...]) -> None:
    told = rag.json("profile", "upgrade", "old", *where)
    assert (told["profile"], told["terms"], told["successor"], told["successor_terms"]) == ("old", 1, "old-t2", 2)
    assert set(rag.json("profile", "diff", "old", "old-t2")["differences"]) == {"terms"}
    report = rag.json("ingest", *where, "--profile", "old-t2")
    assert (report["embedded"], report["cache_hits"]) == (0, 1)
    assert (found(rag, where, "old"), found(rag, where, "old-t2")) == ([], ["a.md"])
    assert rag.json("profile", "upgrade", "old", *where)["successor"] == "old-t2", "it may be said twice"
    assert rag.json("search", "valve", *where)["profile"] == "old", "until it is promoted"


def test_a_dry_run_makes_nothing(rag: Rag, where: tuple[str, ...]) -> None:
    told = rag.json("profile", "upgrade", "old", *where, "--as", "better", "--dry-run")
    assert (told["successor"], told["dry_run"]) == ("better", True)
    assert rag.error("profile", "show", "better")[0] == "UnknownProfile"
    assert "would become" in rag("profile", "upgrade", "old", *where, "--dry-run").stdout


def test_what_cannot_be_upgraded_is_said(rag: Rag, where: tuple[str, ...]) -> None:
    rag("profile", "upgrade", "old", *where)
    assert "newest terms already" in rag.error("profile", "upgrade", "old-t2", *where)[1]
    assert rag.error("profile", "upgrade", "nope", *where)[0] == "UnknownProfile"
    kind, message = rag.error("profile", "upgrade", "old", *where, "--as", "static-256")
    assert (kind, "another name" in message) == ("InvalidProfile", True)
