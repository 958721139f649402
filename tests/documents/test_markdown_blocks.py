"""Markdown's blocks are those that a CommonMark parser finds, whichever way they are found."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import accumulate

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from rag_assets.documents.building import HeadingPath, heading_text
from rag_assets.documents.model import Block, BlockKind
from rag_assets.documents.normalize import normalize
from rag_assets.documents.parsers.markdown_blocks import markdown_blocks

KINDS: dict[str, BlockKind] = {
    "heading_open": "heading",
    "paragraph_open": "paragraph",
    "blockquote_open": "paragraph",
    "html_block": "paragraph",
    "fence": "code",
    "code_block": "code",
    "table_open": "table",
    "bullet_list_open": "list",
    "ordered_list_open": "list",
}
PIECES = [
    *("\n", "\n\n", " ", "   ", "    ", "\t", "word", "more text", "x|y", "\\", "é", "日本", "\x0c", "\u00a0"),
    *("# h", "## why? ##", "#", "###x", "  # h2", "#\tt", "# a #b#", "====", "----", "***", "* * *", "- - -"),
    *("- li", "* b", "+ p\n", "- a\n- b\n", "- a\n  - c\n", "  cont", "\t- t", "- | -"),
    *("1. one", "2) two", "1. a\n   b\n", "- [l]: u\n", "**bold** t", "_it_ x"),
    *("> quote", "> q\n> r\n", "```", "```py", "~~~", "````", "  ```", "- ```\n", "```a`b", "`code`", "`c` d"),
    *("<div>", "<!--", "-->", "<script>", "</script>", "<b>x</b>", "<?php", "?>", "[a]: /u\n", "[l](u) m"),
    *("|a|b|", "|-|-|", ":-:|-", "|x|y|\n|---|:-:|\n|1|2|\n", "|1|\n", "| | |", "|", "||", "|--|"),
]  # fmt: skip


def parsed(text: str) -> Iterator[Block]:
    """The blocks as the parser alone finds them."""
    parser = MarkdownIt("commonmark").enable("table")
    parser.core.ruler.enableOnly(["normalize", "block"])
    lines = list(accumulate((len(line) + 1 for line in text.split("\n")), initial=0))
    headings = HeadingPath()
    tokens = parser.parse(text)
    for position, token in enumerate(tokens):
        kind = KINDS.get(token.type)
        if kind is None or token.level or token.map is None:
            continue
        if kind == "heading":
            headings.enter(int(token.tag[1]), heading_text(tokens[position + 1].content))
        start, end = lines[token.map[0]], min(lines[token.map[1]], len(text))
        end = start + len(text[start:end].rstrip())
        if start < end:
            yield Block(kind, start, end, headings.path)


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join).map(normalize))
@example("# a|b\n|-|-|\n")
@example("para\n\n<!-- open\n\npara\n\n-->\n\npara")
@example("- ```\n\npara\n\n```\n\ncode")
@settings(max_examples=400, deadline=None)
def test_a_look_finds_what_the_parser_finds(text: str) -> None:
    assert list(markdown_blocks(text)) == list(parsed(text))


@given(st.lists(st.sampled_from(PIECES), max_size=20).map("\n".join).map(normalize))
@settings(max_examples=400, deadline=None)
def test_a_look_finds_what_the_parser_finds_line_by_line(text: str) -> None:
    assert list(markdown_blocks(text)) == list(parsed(text))


def test_a_table_is_read_to_its_end_however_many_rows_it_has() -> None:
    text = "|a|b|\n|-|-|\n" + "|1|2|\n" * 70_000
    assert [(block.kind, block.end) for block in markdown_blocks(text)] == [("table", len(text) - 1)]


@pytest.mark.parametrize(
    "text",
    [
        "word\n\n" * 60_000,
        "- item\n" * 60_000,
        "<!-- open\n\n" * 30_000,
        "  ```\n\nw\n\n" * 5_000,
        "#" * 500_000,
        "[" * 500_000,
        "- " * 100_000 + "x",
        " " * 1_000_000 + "x",
        "a" + "\n" * 600_000 + "b",
        "|" * 500_000,
    ],
    ids=["paragraphs", "items", "comments", "fences", "marks", "brackets", "markers", "spaces", "line feeds", "bars"],
)
def test_time_grows_with_the_length_of_the_text_and_not_with_its_square(text: str) -> None:
    started = time.process_time()
    assert list(markdown_blocks(text))
    assert time.process_time() - started < 8
