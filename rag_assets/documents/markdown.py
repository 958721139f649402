"""Markdown: the raw text, with blocks found by CommonMark's rules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import accumulate
from typing import Any

import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token

from rag_assets.documents.building import HeadingPath, heading_text, whole_file
from rag_assets.documents.model import Block, BlockKind, Document, Record
from rag_assets.documents.names import charset
from rag_assets.documents.normalize import clean_json, decode, normalize

_FRONT_MATTER = re.compile(r"---[^\S\n]*\n(.*?\n)?(?:---|\.\.\.)[^\S\n]*(?:\n|\Z)", re.DOTALL)
_MAX_FRONT_MATTER = 64 * 1024  # characters
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


def parse_markdown(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Parse Markdown; front matter goes to metadata. Raises ParseError for binary content."""
    front, text = split_front_matter(normalize(decode(data, charset(content_type))))
    blocks = tuple(markdown_blocks(text))
    first = next((block.heading_path[-1] for block in blocks if block.kind == "heading"), "")
    language = _text(front.pop("lang", None)) or _text(front.pop("language", None))
    if _text(front.get("id")):
        front["doc_id"] = _text(front.pop("id"))
    document = Document(
        text=text,
        title=_text(front.pop("title", None)) or first,
        content_type="text/markdown",
        language=language or None,
        canonical_url=_text(front.get("canonical_url")) or None,
        blocks=blocks,
        metadata=front,
    )
    return whole_file(document, name)


def split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """Return YAML front matter as plain JSON, and the text after it.

    What is no YAML mapping, or uses aliases (which can expand without bound), is no front matter and stays
    in the text.
    """
    match = _FRONT_MATTER.match(text)
    if not match or match.end() > _MAX_FRONT_MATTER:
        return {}, text
    source = match.group(1) or ""
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(source, Loader=yaml.SafeLoader)):
            return {}, text
        front = yaml.safe_load(source)
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}, text
    if not isinstance(front, dict):
        return {}, text
    return clean_json(front), text[match.end() :].lstrip("\n")


def markdown_blocks(text: str) -> Iterator[Block]:
    """Yield the outermost blocks of Markdown in order, each with the headings above it."""
    lines = list(accumulate((len(line) + 1 for line in text.split("\n")), initial=0))
    headings = HeadingPath()
    tokens = _block_parser().parse(text)
    for position, token in enumerate(tokens):
        kind = _KINDS.get(token.type)
        if kind is None or token.level or token.map is None:
            continue
        if kind == "heading":
            headings.enter(int(token.tag[1]), heading_text(tokens[position + 1].content))
        start, end = _span(text, lines, token)
        if start < end:
            yield Block(kind, start, end, headings.path)


def _span(text: str, lines: list[int], token: Token) -> tuple[int, int]:
    first, last = token.map or (0, 0)
    start, end = lines[first], min(lines[last], len(text))
    return start, start + len(text[start:end].rstrip())


@cache
def _block_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark").enable("table")
    # Only line ranges are needed: inline parsing is most of the run time and changes none of them.
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser


def _text(value: Any) -> str:
    return str(value).strip() if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
