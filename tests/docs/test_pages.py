"""What the pages for people name is there: files, modules, make targets, and what their links lead to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = sorted([*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md"), REPOSITORY / "bench" / "README.md"])
PRESENT = [page for page in PAGES if page.name != "CHANGELOG.md"]  # which speaks of the past as well

_FOLDERS = r"rag_assets|evals|sql|tests|bench|docs|\.ci"
_FILES = r"Makefile|pyproject\.toml|constraints\.txt|dagster\.yaml|workspace\.yaml"
_PATH = re.compile(rf"(?<![\w./~$-])(?:(?:{_FOLDERS})/[\w./-]*\w/?|(?:{_FILES})(?![\w/]))")
_MODULE = re.compile(r"(?<![\w./-])(?:rag_assets|evals|tests|bench)(?:\.\w+)+")
_TARGET = re.compile(r"^make ([a-z][\w.-]*)", re.MULTILINE)
_STANDS_FOR_A_NEW_ONE = re.compile(r"\b(?:NAME|NNNN)\b")
_ENTRY_POINTS = {"rag_assets.ocr"}  # a group's name looks like a module's


def tokens(page: Path) -> Iterator[Token]:
    for token in MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8")):
        yield token
        yield from token.children or ()


def code(page: Path) -> list[str]:
    """What stands in code, in a line or as a block; drawings are not code."""
    return [
        token.content
        for token in tokens(page)
        if token.type == "code_inline" or (token.type == "fence" and token.info != "mermaid")
    ]


def links(page: Path) -> list[str]:
    found = (token.attrGet("href") or token.attrGet("src") for token in tokens(page))
    return [str(link) for link in found if link]


def anchors(page: Path) -> set[str]:
    """The names that a heading has on a code host."""
    every = list(tokens(page))
    headings = [after.content for token, after in pairwise(every) if token.type == "heading_open"]
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def is_there(path: str) -> bool:
    """Whether a file is there; of one that a reader is to make, the folder."""
    if _STANDS_FOR_A_NEW_ONE.search(path.replace("_", " ").replace(".", " ")):
        return (REPOSITORY / path).parent.is_dir()
    return (REPOSITORY / path).exists()


def can_be_imported(name: str) -> bool:
    """Whether it is a module, or an attribute of one."""
    module, _, attribute = name.rpartition(".")
    if not module:
        return find_spec(name) is not None
    if not can_be_imported(module):
        return False
    holds_modules = (REPOSITORY / module.replace(".", "/")).is_dir()
    return (holds_modules and find_spec(name) is not None) or hasattr(import_module(module), attribute)


@pytest.mark.parametrize("page", PRESENT, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_every_file_and_module_that_a_page_names_is_there(page: Path) -> None:
    paths = {path for text in code(page) for path in _PATH.findall(text)}
    names = {name for text in code(page) for name in _MODULE.findall(text)} - _ENTRY_POINTS
    missing = [path for path in paths if not is_there(path)]
    missing += [name for name in names if not can_be_imported(name)]
    assert sorted(missing) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    dead = []
    for link in links(page):
        path, _, anchor = link.partition("#")
        if not re.match(r"https?:|mailto:", link):
            target = page.parent / unquote(path) if path else page
            if not target.exists() or (anchor and anchor not in anchors(target)):
                dead.append(link)
    assert dead == []


def test_every_make_target_that_a_page_names_is_there() -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    rules = set(" ".join(re.findall(r"^([a-z][\w. -]*):", makefile, re.MULTILINE)).split())
    named = {(page.name, target) for page in PRESENT for text in code(page) for target in _TARGET.findall(text)}
    assert sorted((name, target) for name, target in named if target not in rules) == []
