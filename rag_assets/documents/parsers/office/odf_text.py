"""The text of OpenDocument elements: headings, lists, tables, frames, notes."""

from __future__ import annotations

from collections.abc import Iterator

from rag_assets.documents.building import TextBuilder
from rag_assets.documents.model import BlockKind
from rag_assets.documents.parsers.office.odf_sheets import repeated, table_rows
from rag_assets.documents.parsers.safe_xml import Element, attribute, child, children, local, whole_text

_MAX_SPACES = 100
_MAX_COLUMNS = 1000
# Change history, indexes that repeat the headings, declarations, and what only programs read.
_UNSEEN_NAMES = """
    tracked-changes table-of-content alphabetical-index illustration-index table-index object-index user-index
    sequence-decls variable-decls user-field-decls forms dde-connection-decls event-listeners binary-data
    date-time-decl footer-decl header-decl animation-sequence par title desc bookmark
"""
_UNSEEN = frozenset(_UNSEEN_NAMES.split())
_FURNITURE = frozenset({"date-time", "footer", "header", "page-number"})
_WIDE = frozenset({"annotation", "note", "frame", "custom-shape", "g", "rect", "text-box"})


class Reader:
    """Appends elements to a builder; `page` is the slide they stand on."""

    def __init__(self, builder: TextBuilder, content: Element, page: int | None = None) -> None:
        self.builder = builder
        self.page = page
        self.titles = {
            attribute(style, "name")
            for style in content.iter("{*}style")
            if attribute(style, "parent-style-name") == "Title"
        } | {"Title"}
        self.numbered = dict(_numbered(content))
        self.asides: list[Element] = []

    def _add(self, kind: BlockKind, text: str, level: int = 1) -> None:
        self.builder.add(kind, text, level=level, page=self.page)

    def read(self, element: Element) -> None:
        """Append everything below `element`."""
        for inner in element:
            self.block(inner)

    def block(self, element: Element) -> None:
        tag = local(element)
        if tag == "h":
            level = attribute(element, "outline-level")
            self._add("heading", self._line(element), level=int(level) if level.isdecimal() else 1)
        elif tag == "p":
            self._paragraph(element)
        elif tag in ("list", "numbered-paragraph") and next(element.iter("{*}h"), None) is None:
            self._add("list", "\n".join(self._items(element, attribute(element, "style-name"), 1)))
        elif tag == "table":
            self._table(element)
        elif tag and tag not in _UNSEEN:
            self.read(element)
        self._attached()

    def _paragraph(self, element: Element) -> None:
        if attribute(element, "style-name") in self.titles:
            self._add("heading", self._line(element))
        else:
            self._add("paragraph", "".join(self._fragments(element)))

    def slide_shape(self, shape: Element) -> None:
        """Append a shape of a slide; repeated furniture such as the footer is left out."""
        role = attribute(shape, "class")
        if role in _FURNITURE or local(shape) in _UNSEEN:
            return
        if role == "title":
            self._add("heading", " ".join(self._line(paragraph) for paragraph in shape.iter("{*}p", "{*}h")))
            self._attached()
        elif local(shape) == "notes":
            for inner in shape:
                if attribute(inner, "class") == "notes":
                    self.block(inner)
        else:
            self.block(shape)

    def _attached(self) -> None:
        asides, self.asides = self.asides, []
        for element in asides:
            if local(element) == "annotation":
                author = whole_text(child(element, "creator")) or "unknown"
                paragraphs = (self._line(paragraph) for paragraph in element.iter("{*}p"))
                self._add("paragraph", f"[Comment by {author}]: {' '.join(paragraphs)}")
            elif local(element) == "note":
                body = child(element, "note-body")
                text = " ".join(self._line(paragraph) for paragraph in body.iter("{*}p")) if body is not None else ""
                self._add("paragraph", f"[^{_citation(element)}]: {text}")
            else:
                self.block(element)

    def _line(self, element: Element) -> str:
        return " ".join("".join(self._fragments(element)).split())

    def _fragments(self, element: Element) -> Iterator[str]:
        yield " ".join((element.text or "").split("\n"))
        for inner in element:
            tag = local(inner)
            if tag in _WIDE:
                self.asides.append(inner)
                if tag == "note":
                    yield f"[^{_citation(inner)}]"
            elif tag == "s":
                count = attribute(inner, "c", "1")
                yield " " * min(int(count) if count.isdecimal() else 1, _MAX_SPACES)
            elif tag == "tab":
                yield "\t"
            elif tag == "line-break":
                yield "\n"
            elif tag and tag not in _UNSEEN:
                yield from self._fragments(inner)
            yield " ".join((inner.tail or "").split("\n"))

    def _items(self, element: Element, style: str, level: int) -> Iterator[str]:
        indent, count = "  " * (level - 1), self.numbered.get((style, level), 0)
        for item in element:
            if local(item) not in ("list-item", "list-header"):
                continue
            mark = f"{count}. " if count else "- "
            for inner in item:
                if local(inner) == "list":
                    yield from self._items(inner, attribute(inner, "style-name") or style, level + 1)
                elif text := self._line(inner):
                    yield f"{indent}{mark}{text}"
                    count += bool(count and mark.strip())
                    mark = " " * len(mark)

    def _table(self, table: Element) -> None:
        rows = [self._cells(row) for row in table_rows(table)]
        if max((len(children(row, "table-cell")) for row in table_rows(table)), default=0) <= 1:
            # A table of one column only frames what is in it.
            for row in table_rows(table):
                for cell in children(row, "table-cell"):
                    self.read(cell)
            return
        lines = (" | ".join(cells).rstrip(" |") for cells in rows)
        self._add("table", "\n".join(line for line in lines if line.strip()))

    def _cells(self, row: Element) -> list[str]:
        cells: list[str] = []
        for cell in row:
            if local(cell) in ("table-cell", "covered-table-cell") and len(cells) < _MAX_COLUMNS:
                text = " ".join(self._line(paragraph) for paragraph in cell.iter("{*}p", "{*}h"))
                cells += [text, *[""] * (min(repeated(cell, "columns"), _MAX_COLUMNS) - 1)]
        return cells


def _citation(note: Element) -> str:
    return whole_text(child(note, "note-citation")) or attribute(note, "id")


def _numbered(content: Element) -> Iterator[tuple[tuple[str, int], int]]:
    """Yield (list style, level) and the first number, of the levels that are numbered."""
    for style in content.iter("{*}list-style"):
        for level in children(style, "list-level-style-number"):
            number, start = attribute(level, "level"), attribute(level, "start-value", "1")
            if attribute(level, "num-format") and number.isdecimal() and start.isdecimal():
                yield (attribute(style, "name"), int(number)), int(start)
