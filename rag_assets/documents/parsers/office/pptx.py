"""Presentations (OOXML): slides as pages, with tables, charts, diagrams, notes and comments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rag_assets.documents.building import HeadingPath, TextBuilder, whole_file
from rag_assets.documents.model import BlockKind, Record
from rag_assets.documents.parsers.office.drawings import (
    chart_blocks,
    diagram_lines,
    drawn_paragraphs,
    drawn_text,
    is_graphic,
    merged_label,
)
from rag_assets.documents.parsers.office.names import MC, A, C, R
from rag_assets.documents.parsers.office.package import Package, Relation
from rag_assets.documents.parsers.office.pptx_places import TITLES, place_of, placeholder_places, role_of
from rag_assets.documents.parsers.office.properties import core_properties
from rag_assets.documents.parsers.safe_xml import Element, attribute, child, children, local, whole_text
from rag_assets.printing import counted

_TYPE = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
_FURNITURE = frozenset({"dt", "ftr", "sldNum", "hdr", "sldImg"})  # date, footer, slide number, header, the slide itself
_PROSE = frozenset({"body", "subTitle", "obj", ""})  # placeholders whose paragraphs are bullets by default
_GROUPS = frozenset({"spTree", "grpSp"})


def parse_pptx(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Parse a presentation; `page` of a block is the slide's number, and notes and comments follow their slide.

    Raises:
        ParseError: damaged, or with a part that is too large.
    """
    package = Package(data)
    path = package.main_part("ppt/presentation.xml")
    builder, empty = TextBuilder(), 0
    slides = _slides(package, path)
    authors = _authors(package, path)
    for number, slide in enumerate(slides, start=1):
        before = builder.length
        _Slide(package, slide, number, builder).read(authors)
        empty += builder.length == before
    facts = core_properties(package)
    facts["title"] = facts["title"] or _first_title(builder)
    facts["metadata"]["quality"] = {"pages": len(slides), "pages_without_text": empty}
    document = builder.document(content_type=_TYPE, **facts)
    return whole_file(document, name, f"no text on any of {counted(len(slides), 'slide')}")


def _first_title(builder: TextBuilder) -> str:
    first = next((block for block in builder.blocks if block.page == 1 and block.kind == "heading"), None)
    return first.heading_path[0] if first else ""


def _slides(package: Package, path: str) -> list[str]:
    """Return the paths of the slides in the order in which they are shown."""
    relations = package.relations(path)
    identifiers = child(package.xml(path), "sldIdLst")
    keys = [slide.get(f"{R}id") or "" for slide in children(identifiers, "sldId")]
    return list(dict.fromkeys(relations[key].target for key in keys if key in relations))


def _authors(package: Package, path: str) -> dict[str, str]:
    found = {}
    for kind in ("commentAuthors", "authors"):
        for target in package.related(path, kind):
            root = package.xml(target)
            for author in root if root is not None else ():
                found[author.get("id") or ""] = author.get("name") or ""
    return found


class _Slide:
    def __init__(self, package: Package, path: str, number: int, builder: TextBuilder) -> None:
        self.package, self.path, self.number, self.builder = package, path, number, builder
        self.relations: dict[str, Relation] = package.relations(path)

    def read(self, authors: dict[str, str]) -> None:
        # A slide without a title does not belong to the one before it.
        self.builder.headings = HeadingPath()
        root = self.package.xml(self.path)
        layout = next(self._related("slideLayout"), None)
        places = placeholder_places(layout)
        tree = child(root, "cSld", "spTree")
        # From top to bottom: the stored order is that in which the shapes were drawn, and often says nothing.
        for top in sorted(tree if tree is not None else (), key=lambda shape: place_of(shape, places)):
            for shape in _shapes([top]):
                self._shape(shape, self.relations)
        self._notes()
        self._comments(authors)

    def _add(self, kind: BlockKind, text: str) -> None:
        self.builder.add(kind, text, page=self.number)

    def _shape(self, shape: Element, relations: dict[str, Relation]) -> None:
        role, tag = role_of(shape), local(shape)
        if role in _FURNITURE:
            return
        if tag == "graphicFrame":
            self._frame(shape, relations)
        elif role in TITLES:
            self._add("heading", " ".join(" ".join(drawn_paragraphs(shape)).split()))
        else:
            body = child(shape, "txBody")
            for kind, text in _paragraphs(body, bullets=role in _PROSE):
                self._add(kind, text)

    def _frame(self, frame: Element, relations: dict[str, Relation]) -> None:
        for table in frame.iter(f"{A}tbl"):
            self._add("table", "\n".join(_table_lines(table)))
        for graphic in filter(is_graphic, frame.iter()):
            key = graphic.get(f"{R}id") if graphic.tag == f"{C}chart" else graphic.get(f"{R}dm")
            relation = relations.get(key or "")
            if relation is None:
                continue
            if graphic.tag == f"{C}chart":
                for kind, text in chart_blocks(self.package, relation.target):
                    self._add("table" if kind == "table" else "paragraph", text)
            else:
                self._add("list", "\n".join(f"- {line}" for line in diagram_lines(self.package, relation.target)))

    def _related(self, kind: str) -> Iterator[Element]:
        for relation in self.relations.values():
            root = self.package.xml(relation.target) if relation.kind == kind else None
            if root is not None:
                yield root

    def _notes(self) -> None:
        """Append the speaker's notes, and what is drawn beside them."""
        for path in (relation.target for relation in self.relations.values() if relation.kind == "notesSlide"):
            relations = self.package.relations(path)
            for shape in _shapes(child(self.package.xml(path), "cSld", "spTree")):
                if role_of(shape) == "body":
                    self._add("paragraph", "\n".join(drawn_paragraphs(shape)))
                else:
                    self._shape(shape, relations)

    def _comments(self, authors: dict[str, str]) -> None:
        for root in self._related("comments"):
            for comment in root.iter("{*}cm", "{*}reply"):
                author = authors.get(comment.get("authorId") or "") or "unknown"
                body = child(comment, "txBody")
                text = whole_text(child(comment, "text")) if body is None else " ".join(drawn_paragraphs(body))
                if text:
                    self._add("paragraph", f"[Comment by {author}]: {text}")


def _shapes(tree: Iterable[Element] | None) -> Iterator[Element]:
    """Yield the shapes of a slide, also those in groups, in drawing order."""
    for element in tree if tree is not None else ():
        tag = local(element)
        if tag in _GROUPS:
            yield from _shapes(element)
        elif element.tag == f"{MC}AlternateContent":
            choices = children(element, "Choice") or children(element, "Fallback")
            yield from _shapes(choices[0] if choices else None)
        elif tag in ("sp", "graphicFrame", "cxnSp"):
            yield element


def _paragraphs(body: Element | None, bullets: bool) -> Iterator[tuple[BlockKind, str]]:
    """Yield the paragraphs of a shape; neighbours that are bullets become one list."""
    items: list[str] = []
    counts: dict[int, int] = {}
    paragraphs = children(body, "p")
    bullets = bullets and sum(1 for paragraph in paragraphs if drawn_text(paragraph).strip()) > 1
    for paragraph in paragraphs:
        text, properties = drawn_text(paragraph).strip(), child(paragraph, "pPr")
        if not text:
            continue
        if _is_bullet(properties, bullets):
            level = attribute(properties, "lvl")
            depth = min(int(level), 8) if level.isdecimal() else 0
            mark = _mark(properties, depth, counts)
            indent = "  " * depth
            items.append(f"{indent}{mark} {text}".replace("\n", f"\n{indent}  "))
            continue
        counts.clear()
        if items:
            yield "list", "\n".join(items)
            items = []
        yield "paragraph", text
    if items:
        yield "list", "\n".join(items)


def _mark(properties: Element | None, depth: int, counts: dict[int, int]) -> str:
    """Return a list item's mark, and count it where the list is numbered."""
    for deeper in [level for level in counts if level > depth]:
        del counts[deeper]
    numbered = child(properties, "buAutoNum")
    if numbered is None:
        counts.pop(depth, None)
        return "-"
    start = attribute(numbered, "startAt", "1")
    counts[depth] = counts.get(depth, (int(start) if start.isdecimal() else 1) - 1) + 1
    return f"{counts[depth]}."


def _is_bullet(properties: Element | None, default: bool) -> bool:
    if child(properties, "buNone") is not None:
        return False
    marked = child(properties, "buChar") is not None or child(properties, "buAutoNum") is not None
    return marked or default


def _table_lines(table: Element) -> Iterator[str]:
    above: list[str] = []
    for row in children(table, "tr"):
        cells = []
        for column, cell in enumerate(children(row, "tc")):
            # Merged cells are there, marked and empty; a value that spans rows is repeated in each of them.
            below = attribute(cell, "vMerge") in ("1", "true")
            cells.append(merged_label(above, column) if below else " ".join(" ".join(drawn_paragraphs(cell)).split()))
        above = cells
        if any(cells):
            yield " | ".join(cells).rstrip(" |")
