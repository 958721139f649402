"""`rag eval tune --floor`: found, stored where it is asked for and proven, shown, and taken back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rag_assets.retrieval import open_scope
from rag_assets.store.database import Database
from tests.support.command_line import Rag
from tests.support.labelled_world import COARSE, labelled_bot, write_collection

ODD = ["qualm", "zephyr", "ochre", "lynx", "fjord", "gnome", "sphinx", "myrrh", "vortex", "waltz", "nymph", "quartz"]
QUESTIONS = [f"why {one} {other}" for one in ODD for other in ODD if one != other]


@pytest.fixture
def labelled(environment: None, tmp_path: Path) -> Iterator[Database]:
    from rag_assets.commands.session import ready_database

    with ready_database() as database:
        labelled_bot(database, "floored", write_collection(tmp_path / "labelled"))
        yield database


def test_a_floor_is_found_stored_shown_and_taken_back(rag: Rag, labelled: Database, tmp_path: Path) -> None:
    file = tmp_path / "questions.txt"
    file.write_text("\n".join(QUESTIONS))
    words = ("eval", "tune", "--tenant", "floored", "--bot", "b", "--profile", COARSE, "--floor")
    asked = (*words, "--unanswerable", str(file))
    found = rag.json(*asked)
    assert (found["questions"], found["keep"]) == (len(QUESTIONS), 0.95)
    assert {one["mode"] for one in found["floors"]} == {"dense", "lexical", "hybrid"}
    assert not any(one["applied"] for one in found["floors"])
    assert open_scope(labelled, "floored", "b").floors == {}
    (lexical,) = (one for one in found["floors"] if one["mode"] == "lexical")
    assert lexical["is_proven"], lexical
    assert lexical["held_out"]["refused"] > 0.9

    applied = rag.json(*asked, "--apply", "--keep", "0.9")
    stored = {one["mode"]: one["floor"] for one in applied["floors"] if one["applied"]}
    assert stored == {one["mode"]: one["floor"] for one in applied["floors"] if one["is_proven"]}
    assert open_scope(labelled, "floored", "b").floors == stored
    shown = rag.json("profile", "show", COARSE)["floors"]
    assert {one["mode"]: one["floor"] for one in shown if one["tenant"] == "floored"} == stored
    assert "floor of lexical search" in rag("profile", "show", COARSE).stdout
    assert "lexical" in rag(*asked).stdout

    assert rag.json(*words, "--reset")["reset"] is True
    assert rag.json(*words, "--reset")["reset"] is False
    assert open_scope(labelled, "floored", "b").floors == {}


def test_wrong_use_of_the_floor_ends_with_a_usage_error(rag: Rag, labelled: Database, tmp_path: Path) -> None:
    file = tmp_path / "questions.txt"
    file.write_text("only one\n")
    words = ("eval", "tune", "--tenant", "floored", "--bot", "b", "--profile", COARSE)
    for wrong in (
        ("--unanswerable", str(file)),
        ("--keep", "0.9"),
        ("--floor",),
        ("--floor", "--unanswerable", str(file)),
        ("--floor", "--force"),
    ):
        assert rag.error(*words, *wrong)[0] == "UsageError", wrong
