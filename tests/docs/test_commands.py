"""Every command that a page shows is one that can be run from a clone: it exists, and so does each of its options."""

from __future__ import annotations

import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.core import TyperCommand

from tests.support.command_lines import commands

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "bench/README.md")]
PAGES = [page for page in (*PAGES, *sorted((ROOT / "docs").rglob("*.md"))) if page.exists()]
SHOWN = dict(commands())
_BLOCK = re.compile(r"^```(?:sh|shell|bash|console)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`\n]+)`")
_TARGET = re.compile(r"^([\w.-]+):", re.MULTILINE)
_ANYWHERE = {"--help", "--version"}


def lines_of(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    blocks = [line.strip() for block in _BLOCK.findall(text) for line in block.replace("\\\n", " ").splitlines()]
    return [*blocks, *_SPAN.findall(re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))]


def words_of(line: str) -> list[str]:
    """The words of a command line without its prompt, variables and comment; [] where it is none."""
    try:
        words = shlex.split(line.removeprefix("$ "), comments=True)
    except ValueError:
        return []
    while words and re.fullmatch(r"\w+=\S*", words[0]):
        words = words[1:]
    return [words[0].removeprefix(".venv/bin/"), *words[1:]] if words else []


def command_of(words: list[str]) -> tuple[str, TyperCommand] | None:
    for length in (2, 1):
        name = " ".join(words[:length])
        if name in SHOWN:
            return name, SHOWN[name]
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_command_of_rag_exists_with_its_options(page: Path) -> None:
    groups = {name.split()[0] for name in SHOWN if " " in name}
    for line in lines_of(page):
        program, *words = words_of(line) or [""]
        if program != "rag" or not words or words[0] in _ANYWHERE or words in ([group] for group in groups):
            continue
        found = command_of(words)
        assert found is not None, f"{page.name}: no such command: {line}"
        known = {option for parameter in found[1].params for option in (*parameter.opts, *parameter.secondary_opts)}
        for word in words:
            if re.match(r"--?[a-z]", word):
                assert word.partition("=")[0] in known | _ANYWHERE, f"{page.name}: {word} in: {line}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_target_and_module_exists_and_nothing_is_installed_from_an_index_that_has_it_not(page: Path) -> None:
    targets = set(_TARGET.findall((ROOT / "Makefile").read_text()))
    for line in lines_of(page):
        program, *words = words_of(line) or [""]
        if program == "make":
            named = {word for word in words if re.fullmatch(r"[a-z][\w.-]*", word)}
            assert named <= targets, f"{page.name}: {line}"
        elif program in ("python", "python3") and words[:1] == ["-m"]:
            assert find_spec(words[1]) is not None, f"{page.name}: {line}"
        assert not re.search(r"pip install\s+['\"]?rag-assets", line), f"{page.name}: {line}"


def test_the_walk_over_pages_finds_what_they_show() -> None:
    found = {
        name for page in PAGES for line in lines_of(page) if (one := command_of(words_of(line)[1:])) for name in one[:1]
    }
    assert {"ingest", "search", "eval gate", "promote", "up", "completion"} <= found


def test_no_message_advises_to_install_what_is_not_on_an_index() -> None:
    for path in (*(ROOT / "rag_assets").rglob("*.py"), *(ROOT / "evals").rglob("*.py")):
        assert not re.search(r"pip install\s+\\?['\"]?rag-assets", path.read_text(encoding="utf-8")), path
