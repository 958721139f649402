"""AsciiDoc as it is read when it is rendered: headings, lists, tables and code, without attributes and macros."""

from __future__ import annotations

import re

from rag_assets.documents.building import TextBuilder
from rag_assets.documents.parsers.markup.asciidoc_inline import Attributes, inline
from rag_assets.documents.parsers.markup.flow import Flow, table_row

_HEADING = re.compile(r"(={1,6}|#{1,6})[ \t]+(\S.*?)(?:[ \t]+\1)?[ \t]*")
_UNDERLINE = re.compile(r"=+|-+|~+|\^+|\++")
_UNDERLINES = "=-~^+"  # by level
_UNDERLINE_SLACK = 3  # characters that it may be longer or shorter than the heading
_ATTRIBUTE = re.compile(r":(!?[\w][\w-]*!?):(?:[ \t]+(.*))?")
_ABOUT = re.compile(r"\[([^\[\]]*|\[[^\[\]]*\])\][ \t]*")
_TITLE = re.compile(r"\.(?![. \t])(.+)")
_FENCE = re.compile(r"(-{4,}|\.{4,}|={4,}|\*{4,}|_{4,}|\+{4,}|/{4,}|--|`{3,}(?=\w*[ \t]*\Z)\w*)[ \t]*")
_TABLE = re.compile(r"[|,:!]={3,}[ \t]*")
_ITEM = re.compile(r"[ \t]*(\*{1,5}|-|\.{1,5}|\d+\.|[a-z]\.|<(?:\d+|\.)>)[ \t]+(.*)")
_TERM = re.compile(r"[ \t]*(\S.{0,300}?)(:{2,4}|;;)(?:[ \t]+(.*))?")
_CHECKED = re.compile(r"\[([ xX*])\][ \t]+")
_DIRECTIVE = re.compile(r"(?:include|ifdef|ifndef|ifeval|endif|toc)::\S*\[.*\][ \t]*")
_PICTURE = re.compile(r"(?:image|video|audio)::\S*\[([^\]]*)\][ \t]*")
_RULE = re.compile(r"'{3,}|-{3}|\*{3}|<{3,}")
_ADMONITION = re.compile(r"(NOTE|TIP|IMPORTANT|WARNING|CAUTION)\b")
_CELL = re.compile(r"(?:(?:\d+(?:\.\d+)?|\.\d+)[+*])?[<^>.]{0,4}[aehlmsvd]?(?<!\\)\|")
_COLUMNS = re.compile(r"cols\s*=\s*[\"']?([^\"'\]]+)")
_MANY = re.compile(r"(\d+)\*")
_TRANSPARENT = "=*_"  # what they delimit is text like any other
_MAX_COLUMNS = 1000


def add_asciidoc(text: str, builder: TextBuilder) -> str:
    """Append what a document in AsciiDoc says; the answer is its title."""
    reader = _Reader(text.split("\n"), builder)
    reader.read()
    return reader.title


class _Reader:
    def __init__(self, lines: list[str], builder: TextBuilder) -> None:
        self.lines, self.place = lines, 0
        self.flow = Flow(builder)
        self.title = ""
        self.attributes = Attributes()
        self.about = ""  # what stands in brackets above the next block
        self.markers: list[str] = []  # of the lists that are open
        self.fences: list[str] = []  # that are open and delimit text
        self.in_header = False

    def read(self) -> None:
        while self.place < len(self.lines):
            line = self.lines[self.place].rstrip()
            self.place += 1
            if not line:
                self.in_header = False
                self.flow.end_paragraph()
            elif not self._ignored(line) and not self._block(line):
                self._text(line)
        self.flow.end()

    def _ignored(self, line: str) -> bool:
        attribute = _ATTRIBUTE.fullmatch(line)
        if attribute:
            value = attribute[2] or ""
            while value.endswith(" \\") and self.place < len(self.lines):
                value = f"{value[:-2]} {self.lines[self.place].strip()}"
                self.place += 1
            self.attributes.put(attribute[1], inline(value, self.attributes))
            return True
        if line.startswith("//") and not line.startswith("///"):
            return True
        if line == "+" and self.flow.depth:
            self.flow.end_paragraph()
            return True
        return bool(_DIRECTIVE.fullmatch(line))

    def _block(self, line: str) -> bool:
        """Take in a line that begins, ends or is a block; False for any other."""
        about = _ABOUT.fullmatch(line)
        heading = _HEADING.fullmatch(line)
        if about:
            self.flow.end_paragraph()
            self.about = about[1]
        elif heading and not self.flow.words:
            self._heading(len(heading[1]), heading[2])
        elif not self.flow.words and (level := self._underlined(line)):
            self.place += 1
            self._heading(level, line.strip())
        elif _FENCE.fullmatch(line):
            self._fence(line.rstrip())
        elif _TABLE.fullmatch(line):
            self._table(line.rstrip())
        elif _RULE.fullmatch(line):
            self._end_lists()
        elif picture := _PICTURE.fullmatch(line):
            self.flow.block("paragraph", picture[1].split(",")[0].strip('" '))
        elif (title := _TITLE.fullmatch(line)) and not self.flow.words:
            self.flow.block("paragraph", inline(title[1], self.attributes))
        elif line.startswith((" ", "\t")) and not self.flow.words and not _ITEM.fullmatch(line) and not self.flow.depth:
            self._literal(line)
        else:
            return False
        return True

    def _underlined(self, line: str) -> int:
        """Return the level of a heading whose next line underlines it, 0 for any other line."""
        below = self.lines[self.place].rstrip() if self.place < len(self.lines) else ""
        if not line[:1].isalnum() or len(below) < 2 or not _UNDERLINE.fullmatch(below):
            return 0
        return 1 + _UNDERLINES.index(below[0]) if abs(len(below) - len(line)) <= _UNDERLINE_SLACK else 0

    def _heading(self, level: int, text: str) -> None:
        self._end_lists()
        said = inline(text, self.attributes)
        first = level == 1 and not self.title
        if self.about.strip() != "discrete":
            self.title = said if first else self.title
        self.in_header = first
        self.about = ""
        self.flow.block("heading", said, level=level)

    def _fence(self, fence: str) -> None:
        if fence in self.fences:
            while self.fences.pop() != fence:
                pass
            self.flow.end_paragraph()
            self.about = ""
            return
        style = self.about.split(",")[0].strip().lower()
        if fence[0] in _TRANSPARENT or (fence == "--" and style not in ("source", "listing", "literal")):
            self._begin_said()
            if style != "comment":
                self.fences.append(fence)
                return
        lines = self._until("```" if fence.startswith("```") else fence)
        if fence[0] in "/" or style == "comment" or (fence[0] == "+" and "math" not in style and style != "stem"):
            return
        self.about = ""
        self._end_lists()
        self.flow.block("paragraph" if fence[0] == "+" else "code", "\n".join(lines))

    def _until(self, fence: str) -> list[str]:
        """Return the lines before the next one that is a fence, and go on behind it."""
        found = []
        while self.place < len(self.lines):
            line = self.lines[self.place].rstrip()
            self.place += 1
            if line == fence:
                break
            found.append(line)
        return found

    def _begin_said(self) -> None:
        """End what is open, and say what kind of a paragraph or block comes."""
        self.flow.end_paragraph()
        admonition = _ADMONITION.match(self.about)
        quoted = self.about.split(",")
        self.about = ""
        if admonition:
            self.flow.line(f"{admonition[1].capitalize()}:")
        elif quoted[0].strip() in ("quote", "verse") and len(quoted) > 1:
            self.flow.block("paragraph", inline(", ".join(part.strip() for part in quoted[1:]), self.attributes))

    def _literal(self, line: str) -> None:
        lines = [line]
        while self.place < len(self.lines) and self.lines[self.place].strip():
            lines.append(self.lines[self.place].rstrip())
            self.place += 1
        self.flow.block("code", "\n".join(lines))

    def _text(self, line: str) -> None:
        if self.about:
            style = self.about.split(",")[0].strip().lower()
            if style in ("source", "listing", "literal", "stem", "latexmath") and not self.flow.words:
                self.about = ""
                self._literal(line)
                return
            self._begin_said()
        item = _ITEM.fullmatch(line)
        term = None if item else _TERM.fullmatch(line)
        if item:
            self._item(item[1], item[2])
        elif term and (self.flow.depth or not self.flow.words):
            self._item(term[2], f"{term[1]}: {term[3] or ''}")
        else:
            if self.flow.depth and not self.flow.words and not self._goes_on():
                self._end_lists()
            broken = line.endswith(" +")
            said = inline(line.removesuffix(" +") if broken else line, self.attributes)
            self.flow.line(said + ("\n" if broken or self.in_header else ""))

    def _goes_on(self) -> bool:
        """Whether a paragraph in a list belongs to the item above: a term's text, or one that a plus attaches."""
        above = self.lines[self.place - 2].strip() if self.place >= 2 else ""
        return above == "+" or (bool(self.markers) and self.markers[-1][0] in ":;") or bool(above)

    def _item(self, marker: str, said: str) -> None:
        kind = "1." if marker[0].isdigit() else "<" if marker[0] == "<" else marker
        if kind in self.markers:
            del self.markers[self.markers.index(kind) + 1 :]
        else:
            self.markers.append(kind)
        shown = marker if marker[0].isdigit() else "1." if marker[0] == "." else "-"
        self.flow.item(marker.strip("<>") + "." if marker[0] == "<" else shown, len(self.markers))
        said = _CHECKED.sub(lambda box: "☐ " if box[1] == " " else "☒ ", said, count=1)
        self.flow.line(inline(said, self.attributes))

    def _end_lists(self) -> None:
        self.flow.end()
        self.markers = []

    def _table(self, fence: str) -> None:
        self._end_lists()
        columns, about = _columns(self.about), self.about
        self.about = ""
        lines = self._until(fence)
        if fence[0] in ",:" or "format" in about:
            separator = ":" if fence[0] == ":" else ","
            rows = [line.split(separator) for line in lines if line.strip()]
        else:
            rows = _rows([line for line in lines if not line.startswith("//")], columns)
        shown = (table_row([inline(cell, self.attributes) for cell in row]) for row in rows)
        self.flow.block("table", "\n".join(row for row in shown if row.strip(" |")))


def _columns(about: str) -> int:
    found = _COLUMNS.search(about)
    if not found:
        return 0
    many = _MANY.match(found[1])
    return min(int(many[1]), _MAX_COLUMNS) if many else found[1].count(",") + 1


def _rows(lines: list[str], columns: int) -> list[list[str]]:
    """Return the cells of a table row by row; the first line that has cells tells how many, where nothing else does."""
    cells: list[list[str]] = []  # the lines of each
    for line in lines:
        parts = _CELL.split(line)
        if cells:
            cells[-1].append(parts[0])
        cells += [[part] for part in parts[1:]]
        if cells and not columns:
            columns = len(cells)
    columns = max(columns, 1)
    joined = [" ".join(cell) for cell in cells]
    return [joined[start : start + columns] for start in range(0, len(joined), columns)]
