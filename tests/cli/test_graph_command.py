from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.command_line import Rag

LINES = (
    {"subject": "PX-4412 pump", "predicate": "cuts in at", "object": "1.8 bar", "source": "pump.md", "confidence": 0.9},
    {"subject": "Goods", "predicate": "may be returned within", "object": "thirty days", "source": "returns.txt"},
)


def test_triples_are_imported_listed_shown_and_cleared(rag: Rag, filled: str, tmp_path: Path) -> None:
    scope = ("--tenant", filled, "--bot", "b")
    file = tmp_path / "triples.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in (LINES[0], {"subject": "x"}, LINES[1])))

    told = rag.json("graph", "import", str(file), *scope, "--dry-run", code=1)
    assert (told["dry_run"], told["written"], told["lines"]) == (True, 2, 3)
    assert rag.json("graph", "list", *scope)["triples"] == []
    told = rag.json("graph", "import", str(file), *scope, code=1)
    assert told["errors"] == [{"line": 2, "error": "predicate is missing"}]
    assert (told["written"], told["unchanged"]) == (2, 0)
    assert "line 2: predicate is missing" in rag("graph", "import", str(file), *scope, code=1).stdout

    listed = rag.json("graph", "list", *scope)
    assert listed["matching"] == 2
    assert [(one["subject"], one["source"], one["confidence"]) for one in listed["triples"]] == [
        ("PX-4412 pump", "pump.md", 0.9), ("Goods", "returns.txt", 1.0),
    ]  # fmt: skip
    assert listed["triples"][0]["quote"] == "PX-4412 pump cuts in at 1.8 bar"
    assert [one["subject"] for one in rag.json("graph", "list", *scope, "--like", "THIRTY")["triples"]] == ["Goods"]
    assert rag.json("graph", "list", *scope, "--source", "pump.md")["matching"] == 1
    assert "1 of 2 triples" in rag("graph", "list", *scope, "--limit", "1").stdout

    assert rag.json("graph", "show", "the px-4412 PUMPS", *scope)["triples"][0]["object"] == "1.8 bar"
    assert "did you mean 'Goods'?" in rag("graph", "show", "Gooods", *scope, code=2).stderr

    hit = rag.json("search", "at which pressure cuts the pump in", *scope)
    assert hit["results"], "the chunks that triples stand in are found as ever"

    assert rag.json("graph", "clear", *scope, code=2)["error"]["type"] == "UsageError"
    assert rag.json("graph", "clear", *scope, "--dry-run")["triples"] == 2
    assert "nothing was deleted" in rag("graph", "clear", *scope, answer="n\n").stdout
    assert rag.json("graph", "clear", *scope, "--source", "pump.md", "--yes")["triples"] == 1
    assert [one["subject"] for one in rag.json("graph", "list", *scope)["triples"]] == ["Goods"]
    assert "1 triple deleted" in rag("graph", "clear", *scope, answer="y\n").stdout


def test_what_is_misspelt_is_told_before_anything_is_read(rag: Rag, filled: str, tmp_path: Path) -> None:
    scope = ("--tenant", filled, "--bot", "b")
    assert "triples.jsonl" in rag("graph", "import", str(tmp_path / "triples.jsonl"), *scope, code=2).stderr
    file = tmp_path / "t.csv"
    file.write_text("a,b\n")
    assert "must name the columns" in rag("graph", "import", str(file), *scope, code=2).stderr
    assert "did you mean 'pump.md'" in rag("graph", "list", *scope, "--source", "pumb.md", code=2).stderr
