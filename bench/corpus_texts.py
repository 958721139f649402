"""Plain text of the files of documentation packages: HTML, manual pages, info and text.

Made for volume: some 15 MB of HTML a second, where an extraction that judges each block reads one. What it takes for
the main part of a page is what the generators of documentation mark as such.
"""

from __future__ import annotations

import gzip
import html
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from selectolax.lexbor import LexborHTMLParser

MAX_FILE_BYTES = 8_000_000
MAX_TEXT = 50_000  # characters of a document: a longer text becomes several, cut between paragraphs
MIN_TEXT = 200

_HTML = frozenset({".html", ".htm", ".xhtml"})
_MAN = re.compile(r"/man/(?:[\w.@-]+/)?man\d\w*/[^/]+\.\d\w*$")
_INFO = re.compile(r"/info/[^/]+\.info(?:-\d+)?$")
# Listings, and what repeats other pages: indexes, members of classes, sources.
_LEFT_OUT = re.compile(
    r"(?:^|/)(?:_sources|class-use|src-html|changelog|NEWS|copyright)|(?:-members|_source|_8h|-use|-tree|-frame)\.html"
    r"|(?:^|/)(?:genindex|index-|search|py-modindex|functions_|globals_|allclasses|annotated|hierarchy)[^/]*\.html"
)
_JUNK = (
    "script, style, nav, header, footer, form, svg, head, iframe, button, select, .sphinxsidebar, .headerlink, "
    ".related, .navheader, .navfooter, .toc, .tabs, .navpath, .footer, .breadcrumbs, .sidebar, .topNav, .bottomNav, "
    ".subNav, .nav-wrapper, #nav-path, #side-nav, #navrow1, #navrow2, #navrow3, #MSearchSelectWindow, "
    "#MSearchResultsWindow"
)
_MAIN = "main, article, [role=main], div.body, div.contents, #main-content, #main, #content"
_BREAKS = re.compile(r"<(?:/?(?:p|div|section|article|ul|ol|dl|dt|dd|table|blockquote|h[1-6]|pre|hr|tr|li)\b|br)[^>]*>")
_LINES = re.compile(r"<(?:br|/?(?:tr|li|dd|dt))\b[^>]*>")
_TAG = re.compile(r"<[^>]*>")
_PRE = re.compile(r"(<pre\b.*?</pre>)", re.DOTALL)
_SPACE = re.compile(r"[ \t\r\f\v\xa0]+")
_WHITE = re.compile(r"\s+")
_NODE = re.compile(r"\x1f\n(?=File:)")
_INFO_HEADING = re.compile(r"^(.{3,90})\n[*=\-.]{3,}$", re.MULTILINE)


@dataclass(frozen=True)
class Text:
    """A document: where it comes from, its title and its text."""

    key: str
    title: str
    text: str


def wanted(path: str) -> bool:
    """Whether a file of a package is one of those that are read, by its name."""
    plain = path.removesuffix(".gz")
    if _LEFT_OUT.search(plain):
        return False
    suffix = PurePosixPath(plain).suffix
    return suffix in _HTML or (suffix == ".txt" and "/doc/" in plain) or bool(_INFO.search(plain) or _MAN.search(plain))


def texts_of(path: str, data: bytes) -> Iterator[Text]:
    """The documents of one file; none where nothing can be read of it."""
    plain = path.removesuffix(".gz")
    if path.endswith(".gz"):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error):
            return
    source = data.decode("utf-8", "replace")
    if source.count("�") > len(source) // 200:
        source = data.decode("latin-1")
    key = plain.removeprefix("./").removeprefix("usr/share/")
    if PurePosixPath(plain).suffix in _HTML:
        found = [_page(key, source)]
    elif _INFO.search(plain):
        found = list(_nodes(key, source))
    elif _MAN.search(plain):
        found = [_manual_page(key, source)]
    else:
        found = [Text(key, _first_line(source), _tidy(source))] if _is_text(source[:10_000]) else []
    for text in found:
        yield from _cut(text)


def _page(key: str, source: str) -> Text:
    tree = LexborHTMLParser(source)
    title_node = tree.css_first("title")
    title = _WHITE.sub(" ", title_node.text()).strip() if title_node else ""
    for node in tree.css(_JUNK):
        if node.parent is not None:
            node.decompose()
    main = tree.css_first(_MAIN) or tree.body
    if main is None:
        return Text(key, title, "")
    heading = main.css_first("h1, h2")
    if heading is not None and (spoken := _WHITE.sub(" ", heading.text()).strip(" ¶")):
        title = spoken
        heading.decompose()
    return Text(key, title[:200], _tidy(_plain(main.html or "")))


def _plain(markup: str) -> str:
    parts = []
    for number, part in enumerate(_PRE.split(markup)):
        if number % 2 == 0:
            part = _WHITE.sub(" ", part)
        part = _LINES.sub("\n", part)
        parts.append(html.unescape(_TAG.sub("", _BREAKS.sub("\n\n", part))))
    return "".join(parts)


def _nodes(key: str, source: str) -> Iterator[Text]:
    for number, node in enumerate(_NODE.split(source)):
        head, _, body = node.partition("\n")
        if head.startswith("File:"):
            found = _INFO_HEADING.search(body)
            yield Text(f"{key}#{number}", found[1] if found else "", _tidy(body))


_FONT = re.compile(r"\\f(?:\(..|\[[^\]]*\]|.)|\\[&/,|^%:]|\\s[+-]?\d")
_NAMED = {r"\-": "-", r"\(aq": "'", r"\(dq": '"', r"\(bu": "•", r"\e": "\\", r"\(co": "©", r"\ ": " ", r"\~": " "}
_ESCAPE = re.compile("|".join(map(re.escape, _NAMED)))
_UNSEEN = re.compile(r"\.(?:\\\"|de|ds|nr|if|ie|el|so|ad|hy|na|nh|ft|ne|in|ta|tr|ig|\.|ev|am|rm|rr|do)")
_PARTS = re.compile(r"\.(?:SH|SS|Sh|Ss)\b")
_BLANKS = re.compile(r"\.(?:PP|LP|P|TP|IP|HP|sp|Pp|It|Bl|El|RS|RE|nf|fi|br)\b")


def _manual_page(key: str, source: str) -> Text:
    """The words of a manual page, without asking roff: requests and fonts go, sections and paragraphs stay."""
    lines: list[str] = []
    for line in source.splitlines():
        if line.startswith((".", "'")):
            if _UNSEEN.match(line) or line.startswith(("'", '.\\"', ".TH", ".Dd", ".Dt", ".Os")):
                continue
            name, _, rest = line.partition(" ")
            if _PARTS.match(name) or _BLANKS.match(name):
                lines.append("")
            line = rest.replace('"', "")
            if not line or (name in (".IP", ".sp", ".RS", ".in") and len(line) < 4):
                continue
        lines.append(_ESCAPE.sub(lambda found: _NAMED[found[0]], _FONT.sub("", line)))
    return Text(key, PurePosixPath(key).name, _tidy("\n".join(lines)))


def _is_text(source: str) -> bool:
    """Whether it is words, and not a table of numbers."""
    return sum(map(str.isalpha, source)) > 0.5 * len(source)


def _first_line(source: str) -> str:
    return next((line.strip()[:200] for line in source.splitlines() if any(map(str.isalpha, line))), "")


def _tidy(text: str) -> str:
    """Without runs of spaces and of blank lines."""
    lines = (_SPACE.sub(" ", line) if not line.startswith("    ") else line.rstrip() for line in text.split("\n"))
    return re.sub(r"\n\s*\n", "\n\n", "\n".join(lines)).replace("\x00", "").strip()


def _cut(text: Text) -> Iterator[Text]:
    if len(text.text) <= MAX_TEXT:
        yield text
        return
    part: list[str] = []
    size = number = 0
    for paragraph in text.text.split("\n\n"):
        if part and size + len(paragraph) > MAX_TEXT:
            yield Text(f"{text.key}~{number}" if number else text.key, text.title, "\n\n".join(part))
            part, size, number = [], 0, number + 1
        part.append(paragraph[:MAX_TEXT])
        size += len(paragraph) + 2
    yield Text(f"{text.key}~{number}", text.title, "\n\n".join(part))
