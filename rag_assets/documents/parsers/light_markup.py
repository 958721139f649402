"""Text in a light markup: AsciiDoc, Org, reStructuredText and LaTeX, kept as written, with its headings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rag_assets.documents.building import HeadingPath, paragraphs, whole_file
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


_Headings = Callable[[str], Iterator[Heading]]

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
_LATEX_TITLE = re.compile(r"\\title(?:\[[^\]\n]*\])?\{((?:[^{}]|\{[^{}]*\})*)\}")
_ORG_TITLE = re.compile(r"^#\+title:[ \t]*(\S[^\n]*?)[ \t]*$", re.MULTILINE | re.IGNORECASE)


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
    """Parse AsciiDoc. Raises ParseError for binary content."""
    return _parse(data, name, content_type, "text/asciidoc", _asciidoc_headings)


def parse_org(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Parse Emacs Org. Raises ParseError for binary content."""
    return _parse(data, name, content_type, "text/org", _org_headings, _ORG_TITLE)


def parse_rst(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Parse reStructuredText. Raises ParseError for binary content."""
    return _parse(data, name, content_type, "text/x-rst", _underlined)


def parse_latex(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Parse LaTeX as it is written. Raises ParseError for binary content."""
    return _parse(data, name, content_type, "text/x-tex", _latex_headings, _LATEX_TITLE)


def _parse(
    data: bytes,
    name: str,
    content_type: str | None,
    kind: str,
    headings: _Headings,
    title: re.Pattern[str] | None = None,
) -> list[Record]:
    decoded = decode(data, charset(content_type))
    text = normalize(decoded)
    found = list(headings(text))
    stated = title.search(text) if title else None
    document = Document(
        text=text,
        title=" ".join(stated[1].split()) if stated else found[0].title if found else "",
        content_type=kind,
        blocks=tuple(_blocks(text, found)),
        metadata=figures(characters_in=len(decoded)),
    )
    return whole_file(document, name)


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
