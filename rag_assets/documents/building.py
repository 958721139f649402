"""What the parsers share: records of one document, and text that is put together block by block."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from rag_assets.documents.blank import is_blank
from rag_assets.documents.model import Block, BlockKind, Document, Media, Record
from rag_assets.documents.names import is_web
from rag_assets.documents.normalize import normalize
from rag_assets.documents.reasons import readable

_BLANK_LINES = re.compile(r"\A(?:[^\S\n]*\n)+")  # in front of the first line that says something
_PARAGRAPH_BREAK = re.compile(r"\n[^\S\n]*\n\s*")
# No part of it looks beyond the next mark of its own kind, so that a line of nothing but brackets takes no time.
_INLINE_MARKUP = re.compile(r"!?\[([^\[\]]*+)\]\((?:[^()]|\([^()]*+\))*+\)|[*`]+|<[^<>]*+>")
_MAX_ERROR = 500  # characters


def whole_file(
    document: Document, name: str, empty: str = "it holds no text", media: Media | None = None
) -> list[Record]:
    """Return the one record of a file that is one document; `empty` says why there may be no text."""
    source_type = "page" if is_web(name) else "file"
    if is_blank(document.text):
        return [Record("", name, "no_text", error=empty, source_type=source_type, media=media)]
    return [Record("", name, "ready", document, source_type=source_type, media=media)]


def failed(key: str, name: str, reason: str, source_type: str = "file") -> Record:
    """Return a failed record whose error is one line that any database and terminal can hold."""
    error = readable(normalize(reason))
    return Record(key=key, name=name, status="failed", error=error[:_MAX_ERROR], source_type=source_type)


def paragraphs(text: str, kind: BlockKind = "paragraph") -> tuple[Block, ...]:
    """Return one block for each run of lines between blank lines."""
    blocks, start = [], len(text) - len(text.lstrip())
    for gap in _PARAGRAPH_BREAK.finditer(text, start):
        blocks.append(Block(kind, start, gap.start()))
        start = gap.end()
    end = len(text.rstrip())
    if start < end:
        blocks.append(Block(kind, start, end))
    return tuple(blocks)


def heading_text(markdown: str) -> str:
    """Return a heading's text without inline Markdown, for a heading path or a title."""
    return " ".join(_INLINE_MARKUP.sub(lambda match: match.group(1) or "", markdown).split())


class HeadingPath:
    """The headings above the current position, outermost first."""

    def __init__(self) -> None:
        self._open: list[tuple[int, str]] = []

    def enter(self, level: int, title: str) -> None:
        """Close every heading at `level` or deeper and open this one."""
        while self._open and self._open[-1][0] >= level:
            self._open.pop()
        self._open.append((level, title))

    @property
    def path(self) -> tuple[str, ...]:
        return tuple(title for _, title in self._open)


@dataclass
class TextBuilder:
    """Text put together from blocks, with a blank line between each two of them."""

    parts: list[str] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    length: int = 0
    headings: HeadingPath = field(default_factory=HeadingPath)

    def add(self, kind: BlockKind, text: str, level: int = 1, page: int | None = None) -> None:
        """Append a block; blank text is left out. `level` is that of a heading, 1 outermost. Code keeps the
        indentation of its first line, on which its columns and its sense may depend."""
        text = normalize(text).rstrip()
        text = _BLANK_LINES.sub("", text) if kind == "code" else text.lstrip()
        if is_blank(text):
            return
        if kind == "heading":
            self.headings.enter(level, " ".join(text.split()))
        start = self.length + 2 if self.parts else 0
        self.length = start + len(text)
        self.parts.append(text)
        self.blocks.append(Block(kind, start, self.length, self.headings.path, page))

    def document(self, **fields: Any) -> Document:
        """Return the document; `fields` are those of `Document` other than text and blocks."""
        return Document(text="\n\n".join(self.parts), blocks=tuple(self.blocks), **fields)
