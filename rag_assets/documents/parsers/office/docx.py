"""Word documents (OOXML): headings, lists, tables, text boxes, WordArt, notes, comments, equations, charts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rag_assets.documents.building import TextBuilder, whole_file
from rag_assets.documents.model import BlockKind, Document, Record
from rag_assets.documents.parsers.office.docx_styles import Numbering, Style, Styles, paragraph_style
from rag_assets.documents.parsers.office.docx_text import Inline, inline
from rag_assets.documents.parsers.office.drawings import chart_blocks, diagram_lines, is_graphic, merged_label
from rag_assets.documents.parsers.office.embedded import embedded
from rag_assets.documents.parsers.office.names import C, R, W
from rag_assets.documents.parsers.office.package import Package
from rag_assets.documents.parsers.office.properties import core_properties
from rag_assets.documents.parsers.office.running import is_page_number
from rag_assets.documents.parsers.safe_xml import Element, attribute, child, children, local
from rag_assets.documents.quality import figures

_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_PARTS = ("styles", "numbering", "footnotes", "endnotes", "comments")
_WRAPPERS = frozenset({"ins", "moveTo", "customXml", "smartTag", "sdtContent"})


def parse_docx(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Parse a Word document.

    Deleted and hidden text and tables of contents are left out; footnotes and comments follow the block they
    belong to, headers and footers that say something are added once, at the end.

    Raises:
        ParseError: damaged, or with a part that is too large.
    """
    package = Package(data)
    reader = _Reader(package)
    facts = core_properties(package)
    reader.read()
    facts["title"] = facts["title"] or reader.title
    if reader.unread:
        facts["metadata"] = figures(facts["metadata"], parts_not_read=reader.unread)
    return whole_file(reader.builder.document(content_type=_TYPE, **facts), name, "the document holds no text")


class _Reader:
    def __init__(self, package: Package) -> None:
        self.package = package
        self.builder = TextBuilder()
        self.title = ""
        self.path = package.main_part("word/document.xml")
        self.relations = package.relations(self.path)
        parts = {kind: self._part(kind) for kind in _PARTS}
        self.styles = Styles(parts["styles"])
        self.numbering = Numbering(parts["numbering"])
        self.asides = {
            (kind, attribute(item, "id")): item
            for kind in ("footnote", "endnote", "comment")
            for item in children(parts[f"{kind}s"], kind)
        }
        self.drawn: set[str] = set()  # paths of charts and diagrams
        self.unread = 0  # files inside that no parser reads
        self.pending: list[str] = []
        self.pending_kind: BlockKind = "paragraph"

    def _part(self, kind: str) -> Element | None:
        found = [relation.target for relation in self.relations.values() if relation.kind == kind]
        return self.package.xml(found[0]) if found else None

    def read(self) -> None:
        body = child(self.package.xml(self.path), "body")
        self.blocks(body if body is not None else ())
        self.flush()
        self._margins()

    def blocks(self, elements: Element | tuple[()]) -> None:
        for element in elements:
            tag = local(element)
            if tag == "p":
                self.paragraph(element)
            elif tag == "tbl":
                self.table(element)
            elif tag == "sdt":
                self.blocks(child(element, "sdtContent") if child(element, "sdtContent") is not None else ())
            elif tag in _WRAPPERS:
                self.blocks(element)
            elif tag == "altChunk":
                self._chunk(element)
            elif tag == "AlternateContent":
                choice = children(element, "Choice") or children(element, "Fallback")
                self.blocks(choice[0] if choice else ())

    def _embedded(self, element: Element) -> Document | None:
        """Return a file of another kind that stands here, as programs put a web page into a document."""
        relation = self.relations.get(element.get(f"{R}id") or "")
        data = self.package.read(relation.target) if relation else None
        document = None if data is None or relation is None else embedded(data, relation.target)
        self.unread += document is None
        return document

    def _chunk(self, element: Element) -> None:
        self.flush()
        document = self._embedded(element)
        for block in document.blocks if document else ():
            text, level = document.text[block.start : block.end] if document else "", len(block.heading_path) or 1
            self.builder.add(block.kind, text, level=level)

    def style(self, paragraph: Element) -> Style:
        properties = child(paragraph, "pPr")
        key = attribute(child(properties, "pStyle"), "val") or self.styles.default
        return paragraph_style(properties, self.styles.get(key))

    def paragraph(self, element: Element) -> None:
        style, found = self.style(element), inline(element, is_graphic)
        if found.text and not style.is_contents:
            self._place(style, found)
        self._attached(found)

    def _place(self, style: Style, found: Inline) -> None:
        numbered = style.number not in (None, "0")
        label = (self.numbering.next(style.number or "", style.level) if numbered else None) or ""
        if style.heading:
            self.flush()
            if style.name == "title":
                self.title = self.title or " ".join(found.text.split())
            text = f"{label} {found.text.strip()}" if label not in ("", "-") else found.text
            self.builder.add("heading", " ".join(text.split()), level=style.heading)
        elif label or (numbered and "list" in style.name):
            indent = "  " * min(style.level, 8)
            self._pend("list", f"{indent}{label or '-'} {found.text.strip()}".replace("\n", f"\n{indent}  "))
        elif style.is_code or (style.monospaced if found.monospaced is None else found.monospaced):
            self._pend("code", found.text)
        else:
            self.flush()
            self.builder.add("paragraph", found.text)

    def _pend(self, kind: BlockKind, text: str) -> None:
        if kind != self.pending_kind:
            self.flush()
        self.pending_kind = kind
        self.pending.append(text)

    def flush(self) -> None:
        """Write the list items or code lines that belong together."""
        self.builder.add(self.pending_kind, "\n".join(self.pending))
        self.pending.clear()

    def _attached(self, found: Inline) -> None:
        if not (found.boxes or found.word_art or found.graphics or found.notes or found.comments):
            return
        self.flush()
        for box in found.boxes:
            self.blocks(box)
        for text in found.word_art:
            self.builder.add("paragraph", text)
        for graphic in found.graphics:
            self._graphic(graphic)
        for kind, key in found.notes:
            self._aside(self.asides.pop((kind, key), None), f"[^{key}]:")
        for key in found.comments:
            comment = self.asides.pop(("comment", key), None)
            author = attribute(comment, "author") or "unknown"
            self._aside(comment, f"[Comment by {author}]:")
        self.flush()

    def _graphic(self, graphic: Element) -> None:
        key = graphic.get(f"{R}id") if graphic.tag == f"{C}chart" else graphic.get(f"{R}dm")
        relation = self.relations.get(key or "")
        if relation is None or relation.target in self.drawn:
            return
        self.drawn.add(relation.target)
        if graphic.tag == f"{C}chart":
            for kind, text in chart_blocks(self.package, relation.target):
                self.builder.add("table" if kind == "table" else "paragraph", text)
        else:
            self.builder.add("list", "\n".join(f"- {line}" for line in diagram_lines(self.package, relation.target)))

    def _aside(self, element: Element | None, label: str) -> None:
        text = "" if element is None else self._flat(element)
        if text:
            self.builder.add("paragraph", f"{label} {text}")

    def _flat(self, element: Element) -> str:
        """Return all text of a cell, note or header as one line."""
        lines = (inline(paragraph, is_graphic).line for paragraph in element.iter(f"{W}p"))
        chunks = (self._embedded(chunk) for chunk in element.iter(f"{W}altChunk"))
        texts = (" ".join(document.text.split()) for document in chunks if document)
        return " ".join(line for line in (*lines, *texts) if line)

    def table(self, element: Element) -> None:
        self.flush()
        rows = list(self._rows(element))
        if max((len(row) for row in rows), default=0) <= 1:
            # A table of one column only frames what is in it.
            for cell in (cell for row in _within(element, "tr") for cell in _within(row, "tc")):
                self.blocks(cell)
            self.flush()
            return
        lines = (" | ".join(row).rstrip(" |") for row in rows)
        self.builder.add("table", "\n".join(line for line in lines if line.strip()))

    def _rows(self, table: Element) -> Iterator[list[str]]:
        above: list[str] = []
        for row in _within(table, "tr"):
            cells: list[str] = [""] * _number(child(row, "trPr", "gridBefore"), 0)
            for cell in _within(row, "tc"):
                properties, column = child(cell, "tcPr"), len(cells)
                merged = child(properties, "vMerge")
                if merged is not None and attribute(merged, "val", "continue") == "continue":
                    text = merged_label(above, column)
                else:
                    text = self._flat(cell)
                cells += [text, *[""] * (_number(child(properties, "gridSpan"), 1) - 1)]
            above = cells
            yield cells

    def _margins(self) -> None:
        self.builder.headings = type(self.builder.headings)()
        seen: set[str] = set()
        for kind in ("header", "footer"):
            for relation in self.relations.values():
                root = self.package.xml(relation.target) if relation.kind == kind else None
                for paragraph in root.iter(f"{W}p") if root is not None else ():
                    text = inline(paragraph, is_graphic).line
                    if text not in seen and not is_page_number(text):
                        seen.add(text)
                        self.builder.add("paragraph", text)


def _within(element: Element, name: str) -> Iterator[Any]:
    """Yield the children of a name, also those inside content controls and tracked insertions."""
    for inner in element:
        tag = local(inner)
        if tag == name:
            yield inner
        elif tag in _WRAPPERS or tag == "sdt":
            yield from _within(inner, name)


def _number(element: Element | None, default: int) -> int:
    value = attribute(element, "val")
    return min(int(value), 1000) if value.isdecimal() else default
