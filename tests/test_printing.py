"""Text from elsewhere is seen where it is shown, and acts nowhere."""

from __future__ import annotations

import ast
import io
import json
import logging
import re
import unicodedata
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text

from rag_assets.assets.metadata import records_table
from rag_assets.commands import shell
from rag_assets.commands.shell import CommandResult, guarded
from rag_assets.errors import RootUnreadable
from rag_assets.printing import counted, printable, printable_json, printable_lines
from tests.support.command_line import Rag

HOUSE = Path(__file__).resolve().parents[1]
CODE = [*(HOUSE / "rag_assets").rglob("*.py"), *(HOUSE / "evals").rglob("*.py")]
# What is told only of two or more.
_MORE_THAN_ONE = ("self.attempts", "len(others)", "info.max_input_tokens", "characters", "self._unanswered")
HOSTILE = "a\x1b[2J\x9b1m\u202eexe.txt\u2028x\x00\x07\u2066\U000e0041[/b][bold red]:warning:\r"


def acting(text: str) -> list[str]:
    """The characters of a text that a terminal or a reader does not see but obeys."""
    return [
        char for char in text if unicodedata.category(char) in ("Cc", "Zl", "Zp") or char in "\u202e\u2066\U000e0041"
    ]


@given(st.text())
def test_a_line_stays_a_line_and_what_is_visible_stays_as_it_is(text: str) -> None:
    assert acting(printable(text)) == []
    assert set(acting(printable_lines(text))) <= {"\n", "\t"}
    if not acting(text) and text.isprintable():
        assert printable(text) == text


@given(st.dictionaries(st.text(), st.text()))
def test_json_means_the_same_and_acts_nowhere(value: dict[str, str]) -> None:
    for ascii_only in (False, True):
        written = printable_json(value, ascii_only=ascii_only)
        assert json.loads(written) == value
        assert acting(written) == []


def test_two_different_names_are_shown_differently() -> None:
    assert printable("a\nb") == "a\\nb"
    assert printable("a\u202eb") == "a\\u{202e}b"
    assert printable("a\x9bb") == "a\\x9bb"


@pytest.mark.parametrize("place", ["line", "text", "cell", "title"])
def test_whatever_a_command_shows_is_neither_markup_nor_a_control(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(shell.sys, "stdout", out)
    console = shell.stdout_console()
    table = Table(HOSTILE if place == "title" else "name", title=HOSTILE if place == "title" else None)
    table.add_row(HOSTILE)
    {
        "line": lambda: console.print(f"{HOSTILE} is the name"),
        "text": lambda: console.print(Text(HOSTILE, style="bold")),
        "cell": lambda: console.print(table),
        "title": lambda: console.print(table),
    }[place]()
    assert set(acting(out.getvalue())) <= {"\n"}
    assert "[/b]" in out.getvalue().replace("\n", "")


def test_an_error_and_an_answer_are_no_exception(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise RootUnreadable(f"{HOSTILE} cannot be read")

    def answer() -> CommandResult:
        return CommandResult({"name": HOSTILE}, lambda console: console.print(HOSTILE))

    for run, as_json in ((fail, False), (fail, True), (answer, True), (answer, False)):
        guarded(run, as_json)
        found = capsys.readouterr()
        assert set(acting(found.out + found.err)) <= {"\n"}
        if as_json and run is answer:
            assert json.loads(found.out) == {"name": HOSTILE}


def test_logs_and_tables_in_dagster_are_no_exception(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        logging.getLogger("rag").warning("%s", RootUnreadable(HOSTILE))
    assert acting(caplog.records[0].getMessage()) == []
    (row,) = records_table([{"source": HOSTILE, "count": 3}]).records
    assert acting(str(row.data["source"])) == []
    assert row.data["count"] == 3


def test_the_instruction_of_a_profile_is_no_markup(rag_home: Rag) -> None:
    words = ("profile", "add", "odd", "--provider", "hash", "--model", "hash", "--dimensions", "16")
    rag_home(*words, "--query-instruction", HOSTILE.replace("\x00", ""))
    assert "odd" in rag_home("profile", "list").stdout
    assert "[/b]" in json.dumps(rag_home.json("profile", "list"))


@pytest.fixture
def rag_home(server_url: str, monkeypatch: pytest.MonkeyPatch, database: object) -> Rag:
    monkeypatch.setenv("DATABASE_URL", database.url)  # type: ignore[attr-defined]
    return Rag()


def test_a_number_agrees_with_what_it_counts() -> None:
    assert [counted(n, "chunk") for n in (0, 1, 2, 1200)] == ["0 chunks", "1 chunk", "2 chunks", "1,200 chunks"]
    assert [counted(n, "query") for n in (1, 2)] == ["1 query", "2 queries"]
    assert [counted(n, "source is", "sources are") for n in (1, 2)] == ["1 source is", "2 sources are"]


_THINGS = (
    "batch job|byte|character|chunk|column|document|field|file|label|migration|minute|page|querie|root|row|score"
    "|slide|source|tenant|text|time|token|trie|vector"
)
_COUNTED = re.compile(rf" (?:(?:judged|ready|cached|staged|labelled|critical) )?(?:{_THINGS})(?:s|\(s\))\b")


def test_no_text_counts_one_thing_as_several() -> None:
    """Where a number stands in front of a plural, `counted` says both; a constant is more than one."""
    wrong = []
    for path in CODE:
        for node in ast.walk(ast.parse(path.read_text())):
            for value, text in pairwise(node.values if isinstance(node, ast.JoinedStr) else ()):
                if not isinstance(value, ast.FormattedValue) or not isinstance(text, ast.Constant):
                    continue
                number = ast.unparse(value.value)
                may = number.isupper() or number.startswith("counted(") or number in _MORE_THAN_ONE
                if _COUNTED.match(str(text.value)) and not may:
                    wrong.append(f"{path.name}:{node.lineno}: {number}{text.value}")
    assert wrong == []
