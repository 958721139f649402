"""The blocks of Markdown, as CommonMark has them, at the speed of a regular expression where that can tell.

Most of a text is paragraphs, headings and fenced code that one look recognises. Only what lies between, such as
lists, quotes, tables and HTML, goes to the parser, one stretch at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import accumulate

from markdown_it import MarkdownIt
from markdown_it.rules_block.table import MAX_AUTOCOMPLETED_CELLS
from markdown_it.token import Token

from rag_assets.documents.building import HeadingPath, heading_text
from rag_assets.documents.model import Block, BlockKind

_KINDS: dict[str, BlockKind] = {
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
# Every pattern below is possessive: what does not match at once does not match at all, and takes no time.
_BLANK_LINES = r"(?:[ \t]*+\n)*+"
# A line that can be nothing but a paragraph's: it begins with no mark, or with one that is part of the text.
_LINE = r"(?:(?!\d{1,9}[.)])[^\s#>\-+*_=~`<|:\[]|\*{1,2}+[^\s*]|_{1,2}+[^\s_]|`{1,2}+[^`\s]|\[[^\[\]\n]*+\]\()"
_HEADING = r"\#{1,6}+(?=[ \t\n]|\Z)"
_FENCE = r"(?:`{3,}+(?=[^`\n]*+(?:\n|\Z))|~{3,}+)"
_END = r"(?=\n[ \t]*+(?:\n|\Z)|\Z)"  # an empty line, or nothing more
_CLOSE = rf"(?=\s*+\Z|\n[ \t]*+\n{_BLANK_LINES}(?:{_LINE}|{_HEADING}|{_FENCE}))"  # and then nothing of a list's
# The first row of a table may look like anything else; the line below it tells.
_NO_TABLE = r"(?!\n[ \t]*+[|:\-])"
# `- - -` is a rule. What an item holds does not matter here, as long as its lines are indented enough to be in it.
_ITEM = r"(?![-* \t]*+(?:\n|\Z))\S[^\n]*+"
_INDENTED = r"(?: {2}|\t)[^\n]*+"
_BLOCK = re.compile(
    rf"(?P<blank>(?:[ \t]*+\n)++)"
    rf"|(?P<paragraph>{_LINE}[^\n|]*+(?:\n{_LINE}[^\n|]*+)*+){_END}"
    rf"|(?P<heading>{_HEADING}[^\n]*+){_NO_TABLE}"
    rf"|(?P<fence>{_FENCE})[^\n]*+{_NO_TABLE}"
    rf"|(?P<list>(?P<mark>[-*+]) {_ITEM}(?:\n{_BLANK_LINES}(?:(?P=mark) {_ITEM}|{_INDENTED}))*+){_CLOSE}"
    rf"|(?P<table>\|[^\n\\]*+\n\|[ \t|:\-]++(?:\n\|[^\n\\]*+)*+){_END}"
    rf"|(?P<quote>>[^\n]*+(?:\n>[^\n]*+)*+){_END}"
)
_RESUME = re.compile(rf"\n[ \t]*+\n(?={_LINE}|{_HEADING}|{_FENCE})")
_CLOSING_MARKS = re.compile(r"(?:\A|[ \t])#+[ \t]*\Z")
_DELIMITER = re.compile(r":?-+:?")
_SENTINEL = "\n\n."
_STRETCH = 4096  # characters; the first that is added where a stretch turns out to be open at its end
_LOOKS: dict[str, BlockKind] = {
    "paragraph": "paragraph",
    "heading": "heading",
    "fence": "code",
    "list": "list",
    "table": "table",
    "quote": "paragraph",
}


def markdown_blocks(text: str) -> Iterator[Block]:
    """Yield the outermost blocks of Markdown in order, each with the headings above it."""
    headings = HeadingPath()
    path = headings.path
    position, length = 0, len(text)
    while position < length:
        match = _BLOCK.match(text, position)
        look = match.lastgroup if match else None
        if match is None or look is None or (look == "table" and not _is_table(match.group())):
            position, blocks = _parsed(text, position, headings)
            path = headings.path
            yield from blocks
            continue
        end = match.end()
        if look == "heading":
            title = match.group().lstrip("#")
            level = end - position - len(title)
            headings.enter(level, heading_text(_CLOSING_MARKS.sub("", title) if "#" in title else title))
            path = headings.path
        elif look == "fence":
            end = _fence_end(text, match.group("fence"), end)
        if look != "blank":
            yield Block(_LOOKS[look], position, _stripped(text, position, end), path)
            end += 1
        position = end


def _is_table(rows: str) -> bool:
    """Tell whether lines that begin with a bar are a table, and one that the parser reads to its end."""
    header, delimiters, *body = rows.split("\n")
    columns, marks = len(_cells(header)), _cells(delimiters)
    if header.strip() == "|" or columns != len(marks) or not all(_DELIMITER.fullmatch(mark.strip()) for mark in marks):
        return False
    # It ends a table that leaves out too many cells: a few bytes could stand for endless rows.
    return sum(max(0, columns + 1 - row.count("|")) for row in body) <= MAX_AUTOCOMPLETED_CELLS


def _cells(row: str) -> list[str]:
    return row.strip(" \t").removeprefix("|").removesuffix("|").split("|")


def _stripped(text: str, start: int, end: int) -> int:
    while text[end - 1].isspace():
        end -= 1
    return end


def _fence_end(text: str, mark: str, opened: int) -> int:
    """Return where the line that closes a fence ends; the end of the text if none does."""
    found = _closing(mark[0], len(mark)).search(text, opened)
    return found.end() if found else len(text)


@cache
def _closing(mark: str, count: int) -> re.Pattern[str]:
    return re.compile(rf"\n {{0,3}}{mark}{{{count},}}[ \t]*+(?=\n|\Z)")


def _parsed(text: str, position: int, headings: HeadingPath) -> tuple[int, list[Block]]:
    """Return the blocks from `position` to the next place where a look is enough, and that place."""
    least = 0
    while True:
        found = _RESUME.search(text, min(position + least, len(text)))
        end = found.end() if found else len(text)
        stretch = text[position:end]
        tokens = block_parser().parse(stretch + _SENTINEL)
        if found is None or _is_closed(stretch, tokens):
            return end, list(_blocks(text, position, end, tokens, headings))
        # A comment or an indented fence is open: it does not end at an empty line. Doubling keeps this linear.
        least = max(2 * (end - position), _STRETCH)


def _is_closed(stretch: str, tokens: list[Token]) -> bool:
    """Tell whether the sentinel behind a stretch became a paragraph of its own."""
    opening = tokens[-3] if len(tokens) >= 3 else None
    if opening is None or opening.type != "paragraph_open" or opening.level or opening.map is None:
        return False
    return opening.map[0] == stretch.count("\n") + _SENTINEL.count("\n")


def _blocks(text: str, base: int, limit: int, tokens: list[Token], headings: HeadingPath) -> Iterator[Block]:
    lines = list(accumulate((len(line) + 1 for line in text[base:limit].split("\n")), initial=base))
    for number, token in enumerate(tokens):
        kind = _KINDS.get(token.type)
        if kind is None or token.level or token.map is None:
            continue
        if token.map[0] >= len(lines) - 1:  # the sentinel
            break
        if kind == "heading":
            headings.enter(int(token.tag[1]), heading_text(tokens[number + 1].content))
        start, end = lines[token.map[0]], min(lines[min(token.map[1], len(lines) - 1)], limit)
        end = start + len(text[start:end].rstrip())
        if start < end:
            yield Block(kind, start, end, headings.path)


@cache
def block_parser() -> MarkdownIt:
    """Return a parser that finds blocks and their lines, and leaves what is in them alone."""
    parser = MarkdownIt("commonmark").enable("table")
    # Only line ranges are needed: inline parsing is most of the run time and changes none of them.
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser
