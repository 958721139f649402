"""Text in a light markup, as its readers see it: AsciiDoc, Org, reStructuredText, LaTeX and manual pages.

What cannot be rendered is kept as it is written, with its headings.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from rag_assets.documents.building import HeadingPath, TextBuilder, paragraphs, whole_file
from rag_assets.documents.decoding import decode
from rag_assets.documents.model import Block, Document, Record
from rag_assets.documents.names import charset
from rag_assets.documents.normalize import normalize
from rag_assets.documents.quality import figures


@dataclass(frozen=True)
class Heading:
    """A heading: `text[start:end]`; `level` is 1 for the outermost."""

    start: int
    end: int
    level: int
    title: str


_PACKAGE = "rag_assets.documents.parsers.markup"
_MAX_RST = 1_500_000  # characters: docutils reads some 200 thousand in a second


@dataclass(frozen=True)
class _Markup:
    """A markup: what adds the text that its readers see to a builder, as `module:function`, and what finds its headings
    where that cannot be told. Longer texts than `largest` characters are not rendered."""

    content_type: str
    reader: str
    headings: Callable[[str], Iterator[Heading]]
    largest: int = 100_000_000

    def load(self) -> Callable[[str, TextBuilder], str]:
        module, _, function = self.reader.partition(":")
        reader: Callable[[str, TextBuilder], str] = getattr(importlib.import_module(f"{_PACKAGE}.{module}"), function)
        return reader


_ASCIIDOC = re.compile(r"^(={1,6})[ \t]+(\S[^\n]*)$", re.MULTILINE)
_ORG = re.compile(r"^(\*+)[ \t]+(?:(?:TODO|DONE)[ \t]+)?(\S[^\n]*)$", re.MULTILINE)
_ORG_TAGS = re.compile(r":[\w@#%:]+:")
_LATEX = re.compile(
    r"^[ \t]*\\(part|chapter|section|subsection|subsubsection|paragraph)\*?(?:\[[^\]\n]*\])?"
    r"\{((?:[^{}\n]|\{[^{}\n]*\})*)\}[^\n]*$",
    re.MULTILINE,
)
_LATEX_LEVELS = ("part", "chapter", "section", "subsection", "subsubsection", "paragraph")
# A line of one punctuation mark under a line that is no longer than it.
_UNDERLINED = re.compile(
    r"^(?P<title>\S[^\n]*)\n(?P<line>(?P<mark>[=\-~^\"'#*+.:`])(?P=mark){2,})[ \t]*$", re.MULTILINE
)


def _asciidoc_headings(text: str) -> Iterator[Heading]:
    for match in _ASCIIDOC.finditer(text):
        yield Heading(match.start(), match.end(), len(match[1]), match[2].rstrip(" \t="))


def _org_headings(text: str) -> Iterator[Heading]:
    for match in _ORG.finditer(text):
        words = match[2].split()
        if len(words) > 1 and _ORG_TAGS.fullmatch(words[-1]):
            words.pop()
        yield Heading(match.start(), match.end(), len(match[1]), " ".join(words))


def _latex_headings(text: str) -> Iterator[Heading]:
    for match in _LATEX.finditer(text):
        yield Heading(match.start(), match.end(), 1 + _LATEX_LEVELS.index(match[1]), " ".join(match[2].split()))


def _underlined(text: str) -> Iterator[Heading]:
    levels: dict[str, int] = {}  # by the order in which the marks are first used, as reStructuredText has it
    for match in _UNDERLINED.finditer(text):
        title = match["title"].rstrip()
        if len(match["line"]) >= len(title):
            level = levels.setdefault(match["mark"], len(levels) + 1)
            yield Heading(match.start(), match.end(), level, title)


def parse_asciidoc(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Parse AsciiDoc as it is rendered. Raises ParseError for binary content."""
    return _parse(data, name, content_type, _Markup("text/asciidoc", "asciidoc:add_asciidoc", _asciidoc_headings))


def parse_org(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Parse Emacs Org as it is exported. Raises ParseError for binary content."""
    return _parse(data, name, content_type, _Markup("text/org", "org:add_org", _org_headings))


def parse_rst(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Parse reStructuredText as it is rendered. Raises ParseError for binary content."""
    return _parse(data, name, content_type, _Markup("text/x-rst", "rst:add_rst", _underlined, _MAX_RST))


def parse_latex(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Parse LaTeX as it is printed. Raises ParseError for binary content."""
    return _parse(data, name, content_type, _Markup("text/x-tex", "latex:add_latex", _latex_headings))


def parse_man(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Parse a manual page as `man` shows it. Raises ParseError for binary content."""
    return _parse(data, name, content_type, _Markup("text/troff", "man:add_man", lambda text: iter(())))


def _parse(data: bytes, name: str, content_type: str | None, markup: _Markup) -> list[Record]:
    decoded = decode(data, charset(content_type))
    text = normalize(decoded)
    document = _rendered(text, markup) or _as_written(text, markup)
    document = replace(document, metadata=figures(document.metadata, characters_in=len(decoded)))
    return whole_file(document, name)


def _rendered(text: str, markup: _Markup) -> Document | None:
    """Return what a reader sees, or None where it cannot be told."""
    if len(text) > markup.largest:
        return None
    builder = TextBuilder()
    try:
        title = markup.load()(text, builder)
    # docutils stumbles over some texts, which are no less worth to be found.
    except Exception:
        return None
    first = next((block for block in builder.blocks if block.kind == "heading"), None)
    document = builder.document(content_type=markup.content_type)
    stated = title or (document.text[first.start : first.end] if first else "")
    return replace(document, title=" ".join(stated.split()))


def _as_written(text: str, markup: _Markup) -> Document:
    found = list(markup.headings(text))
    title = found[0].title if found else ""
    return Document(
        text, title, markup.content_type, blocks=tuple(_blocks(text, found)), metadata=figures(as_written=True)
    )


def _blocks(text: str, headings: list[Heading]) -> Iterator[Block]:
    path, end = HeadingPath(), 0
    for heading in headings:
        yield from _between(text, end, heading.start, path.path)
        path.enter(heading.level, heading.title)
        yield Block("heading", heading.start, heading.end, path.path)
        end = heading.end
    yield from _between(text, end, len(text), path.path)


def _between(text: str, start: int, end: int, path: tuple[str, ...]) -> Iterator[Block]:
    for block in paragraphs(text[start:end]):
        yield Block(block.kind, start + block.start, start + block.end, path)
