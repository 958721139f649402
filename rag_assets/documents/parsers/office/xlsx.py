"""Workbooks (OOXML): sheets with their tables, charts, comments and drawn text."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Iterator

from rag_assets.documents.building import HeadingPath, TextBuilder, whole_file
from rag_assets.documents.model import Record
from rag_assets.documents.parsers.office.drawings import chart_blocks, diagram_lines, drawn_paragraphs, is_graphic
from rag_assets.documents.parsers.office.names import C, R
from rag_assets.documents.parsers.office.number_formats import NumberFormat, number_format
from rag_assets.documents.parsers.office.package import MAX_STREAMED, Package, transitional
from rag_assets.documents.parsers.office.properties import core_properties
from rag_assets.documents.parsers.office.sheets import SheetRow, add_sheet
from rag_assets.documents.parsers.safe_xml import Element, attribute, child, children, stream, whole_text
from rag_assets.errors import ParseError

_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
_REFERENCE = re.compile(r"\$?([A-Z]{1,3})\$?([0-9]{1,7})")
_MERGED = re.compile(rb"<(?:\w+:)?mergeCell\s[^>]*?ref=[\"']([A-Z0-9$:]+)")
_MAX_MERGED = 100_000  # ranges, a sheet
_MAX_COVERED = 100  # columns
_THREAD_COPY = "tc="  # how the author of a comment begins that stands in for a thread, for old programs


def parse_xlsx(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Parse a workbook: each sheet is a section. Formulas give their last computed value; hidden sheets count.

    A value that is merged over several rows is repeated in each of them.

    Raises:
        ParseError: damaged, or with a part that is too large.
    """
    return Workbook(Package(data)).records(name, _TYPE)


class Workbook:
    """The sheets of a workbook, and what lies over them; how its main parts are written is for a subclass to say."""

    main = "xl/workbook.xml"

    def __init__(self, package: Package) -> None:
        self.package = package
        self.builder = TextBuilder()
        self.path = package.main_part(self.main)
        self.since_1904, self.tabs = self._book()
        self.strings = list(self._strings())
        self.formats = self._formats()

    def records(self, name: str, content_type: str) -> list[Record]:
        """Return the record of the whole file.

        Raises:
            ParseError: damaged, or with a part that is too large.
        """
        relations = self.package.relations(self.path)
        for title, key in self.tabs:
            if key in relations:
                self.read(title, relations[key].target)
        facts = core_properties(self.package)
        return whole_file(self.builder.document(content_type=content_type, **facts), name, "no sheet holds anything")

    def _book(self) -> tuple[bool, list[tuple[str, str]]]:
        """Return whether days are counted from 1904, and each sheet's name and relation, in the order of the tabs."""
        root = self.package.xml(self.path)
        sheets = children(child(root, "sheets"), "sheet")
        since_1904 = attribute(child(root, "workbookPr"), "date1904") in ("1", "true")
        return since_1904, [(sheet.get("name") or "", sheet.get(f"{R}id") or "") for sheet in sheets]

    def _streamed(self, path: str, *tags: str) -> Iterator[Element]:
        data = self.package.read(path, MAX_STREAMED)
        return iter(()) if data is None else stream(transitional(data), f"the part {path}", *tags)

    def _strings(self) -> Iterator[str]:
        for path in self.package.related(self.path, "sharedStrings"):
            for item in self._streamed(path, "si"):
                yield _rich(item)

    def _formats(self) -> list[NumberFormat]:
        """Return how each cell style shows a number."""
        paths = self.package.related(self.path, "styles")
        root = self.package.xml(paths[0]) if paths else None
        codes = {
            attribute(code, "numFmtId"): attribute(code, "formatCode")
            for code in children(child(root, "numFmts"), "numFmt")
        }
        numbers = (attribute(style, "numFmtId") for style in children(child(root, "cellXfs"), "xf"))
        return [number_format(int(n) if n.isdecimal() else 0, codes.get(n, "")) for n in numbers]

    def read(self, title: str, path: str) -> None:
        self.builder.headings = HeadingPath()
        if path.lower() not in self.package.names:
            raise ParseError(f"the sheet {title!r} is missing: the file is damaged")
        add_sheet(self.builder, title, self._rows(path))
        self._attached(path)

    def _rows(self, path: str) -> Iterator[SheetRow]:
        data = self.package.read(path, MAX_STREAMED) or b""
        merged, number = Merged(_referred(_MERGED.findall(data))), -1
        for element in stream(transitional(data), f"the part {path}", "row"):
            stated = element.get("r") or ""
            number = int(stated) - 1 if stated.isdecimal() else number + 1
            cells = dict(self._cells(element))
            # Only where the row says something itself: a title merged over ten rows stays one line.
            if cells:
                yield number, merged.fill(number, cells)

    def _cells(self, row: Element) -> Iterator[tuple[int, str]]:
        column = -1
        for cell in row:
            letters = (cell.get("r") or "").rstrip("0123456789")
            column = _column(letters) if letters.isalpha() and letters.isascii() else column + 1
            text = self._value(cell)
            if text and not text.isspace():
                yield column, text

    def _value(self, cell: Element) -> str:
        kind, value = cell.get("t") or "n", child(cell, "v")
        if kind == "inlineStr":
            return self._format(cell).shown_text(_rich(child(cell, "is")))
        text = "" if value is None else value.text or ""
        if kind == "s":
            known = text.isdecimal() and int(text) < len(self.strings)
            return self._format(cell).shown_text(self.strings[int(text)]) if known else ""
        if kind == "b":
            return "TRUE" if text == "1" else "FALSE"
        return self._number(cell, text) if kind == "n" else text

    def _format(self, cell: Element) -> NumberFormat:
        style = cell.get("s") or ""
        is_known = style.isdecimal() and int(style) < len(self.formats)
        return self.formats[int(style)] if is_known else number_format(0)

    def _number(self, cell: Element, text: str) -> str:
        try:
            return self._format(cell).shown(float(text), since_1904=self.since_1904)
        except (ValueError, OverflowError):
            return text

    def _attached(self, path: str) -> None:
        """Append what lies over the cells: text boxes, charts, comments."""
        for relation in self.package.relations(path).values():
            if relation.kind == "drawing":
                self._drawing(relation.target)
            elif relation.kind == "comments":
                self._comments(relation.target)
            elif relation.kind == "threadedComment":
                self._threads(relation.target)

    def _drawing(self, path: str) -> None:
        root, relations = self.package.xml(path), self.package.relations(path)
        if root is None:
            return
        for body in root.iter("{*}txBody"):
            self.builder.add("paragraph", "\n".join(drawn_paragraphs(body)))
        for graphic in filter(is_graphic, root.iter()):
            is_chart = graphic.tag == f"{C}chart"
            relation = relations.get(graphic.get(f"{R}id" if is_chart else f"{R}dm") or "")
            if relation is None:
                continue
            for kind, text in chart_blocks(self.package, relation.target) if is_chart else ():
                self.builder.add("table" if kind == "table" else "paragraph", text)
            lines = [] if is_chart else diagram_lines(self.package, relation.target)
            self.builder.add("list", "\n".join(f"- {line}" for line in lines))

    def _comments(self, path: str) -> None:
        root = self.package.xml(path)
        authors = [whole_text(author) for author in children(child(root, "authors"), "author")]
        for comment in children(child(root, "commentList"), "comment"):
            number = comment.get("authorId") or ""
            author = authors[int(number)] if number.isdecimal() and int(number) < len(authors) else "unknown"
            self._comment(comment.get("ref") or "?", author, _rich(child(comment, "text")))

    def _comment(self, place: str, author: str, text: str) -> None:
        text = " ".join(text.split())
        if text and not author.startswith(_THREAD_COPY):
            self.builder.add("paragraph", f"[Comment by {author} on {place}]: {text}")

    def _threads(self, path: str) -> None:
        people = {}
        for target in self.package.related(self.path, "person"):
            root = self.package.xml(target)
            people.update({one.get("id") or "": one.get("displayName") or "" for one in children(root, "person")})
        for comment in children(self.package.xml(path), "threadedComment"):
            text = whole_text(child(comment, "text"))
            if text:
                self._comment(comment.get("ref") or "?", people.get(comment.get("personId") or "") or "unknown", text)


def _rich(item: Element | None) -> str:
    """Return the text of a string item, without the phonetic hints of Japanese text."""
    if item is None:
        return ""
    own = "".join(text.text or "" for text in children(item, "t"))
    return own + "".join(text.text or "" for run in children(item, "r") for text in children(run, "t"))


@functools.lru_cache(maxsize=1024)
def _column(letters: str) -> int:
    number = 0
    for letter in letters[:3].upper():
        number = number * 26 + ord(letter) - ord("A") + 1
    return number - 1


def _referred(references: list[bytes]) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    for reference in references:
        ends = [_REFERENCE.fullmatch(part) for part in reference.decode("ascii", "replace").split(":")]
        if len(ends) == 2 and ends[0] and ends[1]:
            first, last = ((int(end.group(2)) - 1, _column(end.group(1))) for end in ends if end)
            yield first, last


class Merged:
    """The merged ranges of a sheet, while its rows go by."""

    def __init__(self, ranges: Iterable[tuple[tuple[int, int], tuple[int, int]]]) -> None:
        self.ranges: dict[tuple[int, int], tuple[int, int]] = {}  # first (row, column) to last
        for first, last in itertools.islice(ranges, _MAX_MERGED):
            self.ranges[first] = (last[0], min(last[1], first[1] + _MAX_COVERED))
        self.open: dict[int, tuple[int, int, str]] = {}  # column to (last row, last column, value)

    def fill(self, number: int, cells: dict[int, str]) -> dict[int, str]:
        """Return the cells of a row with the values that reach down into it, and with those covered sideways empty."""
        if not self.ranges:
            return cells
        for column, (bottom, right, value) in list(self.open.items()):
            if number > bottom:
                del self.open[column]
            else:
                cells.setdefault(column, value)
                _cover(cells, column, right)
        for column, value in list(cells.items()):
            bottom, right = self.ranges.get((number, column), (number, column))
            _cover(cells, column, right)
            if bottom > number:
                self.open[column] = (bottom, right, value)
        return cells


def _cover(cells: dict[int, str], column: int, right: int) -> None:
    for covered in range(column + 1, right + 1):
        cells.setdefault(covered, "")
