"""Emacs Org as it is read when it is exported: headings, lists, tables and code, without keywords and drawers."""

from __future__ import annotations

import re

from rag_assets.documents.building import TextBuilder
from rag_assets.documents.parsers.markup.flow import Flow, table_row

_HEADING = re.compile(r"(\*+)[ \t]+(?:(TODO|DONE|NEXT|WAITING|CANCELLED|CANCELED)\b[ \t]*)?(?:\[#\w\][ \t]*)?(.*)")
_TAGS = re.compile(r"(?:\A|[ \t]+):([\w@#%:]+):[ \t]*\Z")
_BLOCK = re.compile(r"\s*#\+begin_(\w+)", re.IGNORECASE)
_KEYWORD = re.compile(r"\s*#\+(\w+)(?:\[[^\]]*\])?:[ \t]*(.*)", re.IGNORECASE)
_ITEM = re.compile(r"([ \t]*)(?:([-+]|(?<=[ \t])\*)|(\d+|[A-Za-z])[.)])(?:[ \t]+(.*)|\Z)")
_CHECKED = re.compile(r"\[([ xX-])\][ \t]+")
_DRAWER = re.compile(r"[ \t]*:[\w-]+:[ \t]*")
_RULE = re.compile(r"[ \t]*-{5,}[ \t]*")
_ROW = re.compile(r"[ \t]*\|")
_LINE = re.compile(r"[ \t]*:(?: (.*)|[ \t]*)\Z")
_LINK = re.compile(r"\[\[([^\[\]\n]+)\](?:\[([^\[\]\n]+)\])?\]")
_EMPHASIS = re.compile(r"(?<![\w*/_=~+])([*/_=~+])(?=\S)([^\n]{0,400}?\S)\1(?![\w*/_=~+])")
_FOOTNOTE = re.compile(r"\[fn:([\w-]*)(?::([^\[\]]*))?\]")
_TARGET = re.compile(r"<<<?([^<>\n]+)>>>?")
_VERBATIM = frozenset({"src", "example"})
_UNSEEN = frozenset({"comment", "export"})
_SHOWN = frozenset({"title", "subtitle", "author", "date", "caption", "description"})
_BULLET_WIDTH = 2  # columns that a nested item is indented at least


def add_org(text: str, builder: TextBuilder) -> str:
    """Append what an Org file says; the answer is its title."""
    reader = _Reader(builder)
    lines = iter(text.split("\n"))
    for line in lines:
        opened = _BLOCK.match(line)
        if opened:
            inner = []
            end = re.compile(rf"\s*#\+end_{opened[1]}\b", re.IGNORECASE)
            for inside in lines:
                if end.match(inside):
                    break
                inner.append(inside)
            reader.block(opened[1].lower(), inner)
        else:
            reader.line(line)
    reader.end()
    return reader.title


class _Reader:
    def __init__(self, builder: TextBuilder) -> None:
        self.flow = Flow(builder)
        self.title = ""
        self.rows: list[str] = []
        self.code: list[str] = []
        self.indents: list[int] = []  # of the items that are open
        self.in_drawer = False

    def block(self, kind: str, lines: list[str]) -> None:
        """Take in what stands between a begin and its end."""
        if kind in _UNSEEN:
            return
        if kind in _VERBATIM:
            self._end_rows()
            # A comma keeps the line from being a heading.
            self.flow.block("code", "\n".join(re.sub(r"^(\s*),(?=[*#,])", r"\1", line) for line in lines))
            return
        self.line("")
        for line in lines:
            self.line(f"{line}\n" if kind == "verse" else line)
        self.line("")

    def line(self, line: str) -> None:
        """Take in a line outside of blocks."""
        if self.in_drawer:
            self.in_drawer = line.strip().lower() != ":end:" and not line.startswith("*")
            if not line.startswith("*"):
                return
        if _ROW.match(line):
            self._row(line)
            return
        said = _LINE.match(line)
        if said:
            self.code.append(said[1] or "")
            return
        self._end_rows()
        heading = _HEADING.match(line)
        if heading:
            self._heading(heading)
        elif _DRAWER.fullmatch(line):
            self.in_drawer = True
        elif line.lstrip().startswith("#"):
            self._remark(line)
        elif not line.strip():
            self.flow.end_paragraph()
        elif _RULE.fullmatch(line):
            self.flow.end()
        else:
            self._text(line)

    def end(self) -> None:
        self._end_rows()
        self.flow.end()

    def _heading(self, heading: re.Match[str]) -> None:
        said = heading[3].strip()
        tags = _TAGS.search(said)
        said = said[: tags.start()] if tags else said
        self.indents = []
        self.flow.block("heading", inline(said), level=1 + len(heading[1]))  # below the title
        about = [heading[2] or "", *(tags[1].split(":") if tags else [])]
        self.flow.block("paragraph", " ".join(filter(None, about)))

    def _remark(self, line: str) -> None:
        """Take in a keyword, of which a few are shown; a comment is not."""
        keyword = _KEYWORD.match(line)
        if keyword is None:
            if line.lstrip().startswith(("# ", "#+")) or line.strip() == "#":
                return
            self._text(line)
            return
        name, value = keyword[1].lower(), inline(keyword[2])
        if name == "title":
            self.title = f"{self.title} {value}".strip()
        if name in _SHOWN:
            self.flow.block("heading" if name == "title" else "paragraph", value)

    def _text(self, line: str) -> None:
        item = _ITEM.match(line)
        indent = len(line) - len(line.lstrip())
        if item:
            while self.indents and indent < self.indents[-1]:
                self.indents.pop()
            if not self.indents or indent >= self.indents[-1] + _BULLET_WIDTH:
                self.indents.append(indent)
            self.flow.item(f"{item[3]}." if item[3] else "-", len(self.indents))
            line = (item[4] or "").replace(" :: ", ": ", 1)
            line = _CHECKED.sub(lambda box: {" ": "☐ ", "-": "☐ "}.get(box[1], "☒ "), line, count=1)
        elif self.indents and indent <= self.indents[0]:
            self.indents = []
            self.flow.end()
        self.flow.line(inline(line.removesuffix("\\\\")) + ("\n" if line.endswith(("\\\\", "\n")) else ""))

    def _row(self, line: str) -> None:
        cells = line.strip().removeprefix("|").removesuffix("|")
        if not cells.startswith("-"):
            self.rows.append(table_row([inline(cell) for cell in cells.split("|")]))

    def _end_rows(self) -> None:
        if self.rows:
            self.flow.block("table", "\n".join(self.rows))
        if self.code:
            self.flow.block("code", "\n".join(self.code))
        self.rows, self.code = [], []


def inline(text: str) -> str:
    """Return text without the marks of links, emphasis, targets and footnotes."""
    text = _LINK.sub(lambda link: link[2] or link[1].removeprefix("file:"), text)
    text = _FOOTNOTE.sub(lambda note: f"({note[2]})" if note[2] else f"[{note[1]}]", text)
    text = _TARGET.sub(r"\1", text)
    for _ in range(2):  # such as bold italics
        text = _EMPHASIS.sub(r"\2", text)
    return text
