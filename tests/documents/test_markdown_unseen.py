"""What Markdown never shows is no text: comments, and pictures that are written into it as data."""

from __future__ import annotations

import json
import time

import pytest

from rag_assets.documents.model import Document
from rag_assets.documents.parsers.markdown_unseen import without_unseen
from rag_assets.documents.registry import parse

PICTURE = "data:image/png;base64," + "iVBORw0KGgo" * 3000


def markdown(text: str) -> Document:
    (record,) = parse(text.encode(), "a.md")
    assert record.document is not None, record.error
    return record.document


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("before <!-- not this --> after", "before  after"),
        ("<!-- a licence\n\nof many lines -->\n\n# Title", "# Title"),
        ("one\n<!-- between -->\ntwo", "one\n\ntwo"),
        ("- item\n  <!-- in\n\n  an item -->\n- next", "- item\n  \n- next"),
        ("- <!-- first\n\n  in an item -->\n  text", "- \n  text"),
        ("> quote <!-- x -->", "> quote "),
        ("# Title <!-- omit in toc -->\n\ntext", "# Title \n\ntext"),
        ("<!-->shown<!---->", "shown"),
        ("a <!-- `code` --> b `c`", "a  b `c`"),
        ("<!--\n```\nfence\n```\n-->\nshown", "shown"),
        ("[//]: # (a remark)\ntext\n\n[//]: <> (another)", "\ntext\n\n"),
        (f"![A plan]({PICTURE}) of it", "![A plan]() of it"),
        (f'![A plan]({PICTURE} "Plan") of it', '![A plan]( "Plan") of it'),
        (f"![A plan](<{PICTURE}>)", "![A plan](<>)"),
        (f'<img alt="A plan" src="{PICTURE}">', '<img alt="A plan" src="">'),
        (f"see ![][image1]\n\n[image1]: <{PICTURE}>\n\nend", "see ![][image1]\n\n\n\nend"),
        (f"[Image1]: {PICTURE}\n", ""),
        (f"pasted {PICTURE} so", "pasted  so"),
        ("![x](DATA:image/svg+xml;charset=utf-8;base64,PHN2Zz48L3N2Zz4=)", "![x]()"),
    ],
)
def test_comments_and_data_uris_go_and_what_is_around_them_stays(written: str, shown: str) -> None:
    assert without_unseen(written) == shown.lstrip("\n")


@pytest.mark.parametrize(
    "text",
    [
        "`<!-- shown -->` and ``a ` <!-- b -->``",
        "```html\n<!-- shown -->\n\n<img src='data:image/gif;base64,R0lGOD'>\n```",
        "- item\n\n  ~~~\n  <!-- shown -->\n  ~~~",
        "text\n\n    <!-- shown as code -->\n\ntext",
        "\\<!-- shown -->",
        "an open <!-- comment\n\nand more",
        "a <!-- b\n\nc --> d",
        "Use `![x](data:image/png;base64,iVBORw0KGgo=)` for a picture",
        "A URI such as data:text/plain,hello is short",
        "the data: it is here; data:, too",
        "1 <!- 2 -> 3",
    ],
)
def test_what_is_shown_stays_as_it_is_written(text: str) -> None:
    assert without_unseen(text) == text


def test_a_comment_makes_no_heading_and_a_file_of_comments_holds_no_text() -> None:
    document = markdown("# One\n\n<!--\n# Draft\n\nsecret\n-->\n\ntext\n")
    assert "secret" not in document.text
    assert [document.text[block.start : block.end] for block in document.blocks] == ["# One", "text"]
    (record,) = parse(b"<!-- nothing\n\nof it -->\n", "a.md")
    assert record.status == "no_text"


def test_cells_of_a_notebook_are_markdown_too() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# T\n", "<!-- secret -->\n", f"![plan]({PICTURE})"]},
        {"cell_type": "code", "source": "x = '<!-- kept -->'", "outputs": []},
    ]
    (record,) = parse(json.dumps({"nbformat": 4, "cells": cells}).encode(), "a.ipynb")
    assert record.document is not None
    text = record.document.text
    assert "secret" not in text
    assert "iVBOR" not in text
    assert "plan" in text
    assert "<!-- kept -->" in text


@pytest.mark.parametrize(
    "piece", ["<!--", "`<!--", "data:;", "](data:a", "[//]: # ", "`" * 7 + "``", '="data:,', "<!-- -->\n"]
)
def test_marks_without_end_take_no_time(piece: str) -> None:
    text = piece * (400_000 // len(piece))
    began = time.process_time()
    without_unseen(text)
    without_unseen(f"{text}-->")
    assert time.process_time() - began < 20
