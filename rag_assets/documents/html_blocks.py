"""From an element tree, of HTML or of trafilatura's output, to blocks of text."""

from __future__ import annotations

from collections.abc import Iterator

from lxml import etree  # type: ignore[import-untyped]

from rag_assets.documents.building import TextBuilder

# `head`, `list`, `item`, `row`, `cell`, `lb` and `hi` are trafilatura's names.
_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6", "head"})
_LISTS = frozenset({"ul", "ol", "list", "dl", "menu"})
_ITEMS = frozenset({"li", "item", "dt", "dd"})
_CELLS = frozenset({"td", "th", "cell"})
_ROWS = frozenset({"tr", "row"})
_BREAKS = frozenset({"br", "lb"})
_UNSEEN = frozenset({"script", "style", "title", "meta", "link", "template", "noscript"})
_PHRASING = """
    a abbr b bdi bdo cite code del dfn em font graphic hi i img ins kbd label mark math q ref rp rt ruby s
    samp small span strike strong sub sup time tt u var wbr
"""
_INLINE = _BREAKS | frozenset(_PHRASING.split())
_BREAK = "\v"  # stands for <br> until white space is collapsed; normalised text has no vertical tab


def add_blocks(root: etree._Element, builder: TextBuilder) -> None:
    """Append the text under `root` to `builder`: headings, paragraphs, lists, tables and code."""
    _Walker(builder).walk(root)


class _Walker:
    def __init__(self, builder: TextBuilder) -> None:
        self.builder = builder
        self.pending: list[str] = []

    def walk(self, root: etree._Element) -> None:
        body = root.find("body")
        self._children(root if body is None else body)
        self._flush()

    def _children(self, element: etree._Element) -> None:
        self.pending.append(element.text or "")
        for child in element:
            self._element(child)
            self.pending.append(child.tail or "")

    def _element(self, element: etree._Element) -> None:
        tag = _tag(element)
        if tag in _UNSEEN:
            return
        if tag in _BREAKS:
            self.pending.append(_BREAK)
            return
        if tag in _INLINE and not _is_block(element):
            self.pending.extend(_fragments(element, _BREAK))
            return
        self._flush()
        self._block(tag, element)
        self._flush()

    def _block(self, tag: str, element: etree._Element) -> None:
        if tag in _HEADINGS:
            self.builder.add("heading", _line(element), level=_level(tag, element))
        elif tag in _LISTS:
            self.builder.add("list", "\n".join(_list_lines(element, "")))
        elif tag == "table" and _is_data(element):
            self.builder.add("table", "\n".join(_table_lines(element)))
        elif tag in ("pre", "code"):
            self.builder.add("code", "".join(_fragments(element, "\n")))
        else:
            self._children(element)

    def _flush(self) -> None:
        lines = (" ".join(line.split()) for line in "".join(self.pending).split(_BREAK))
        self.pending.clear()
        self.builder.add("paragraph", "\n".join(line for line in lines if line))


def _tag(element: etree._Element) -> str:
    """Return the tag's name; comments and processing instructions have none and count as unseen."""
    return element.tag.lower() if isinstance(element.tag, str) else "script"


def _is_block(inline: etree._Element) -> bool:
    if _tag(inline) == "code":
        return "\n" in "".join(inline.itertext()).strip()
    return any(_tag(child) not in _INLINE | _UNSEEN for child in inline.iterdescendants())


def _level(tag: str, heading: etree._Element) -> int:
    digit = (heading.get("rend") or tag)[-1:]
    return int(digit) if digit in "123456" else 2


def _fragments(element: etree._Element, line_break: str = " ", skip: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield the text under `element`, with a space around every block so that no two words are welded."""
    yield element.text or ""
    for child in element:
        tag = _tag(child)
        if tag in _BREAKS:
            yield line_break
        elif tag not in _UNSEEN and tag not in skip:
            gap = "" if tag in _INLINE else " "
            yield gap
            yield from _fragments(child, line_break, skip)
            yield gap
        yield child.tail or ""


def _line(element: etree._Element, skip: frozenset[str] = frozenset()) -> str:
    return " ".join("".join(_fragments(element, skip=skip)).split())


def _list_lines(element: etree._Element, indent: str) -> Iterator[str]:
    for child in element:
        if _tag(child) in _LISTS:
            yield from _list_lines(child, indent + "  ")
        elif _tag(child) not in _UNSEEN:
            text = _line(child, skip=_LISTS)
            if text:
                yield f"{indent}- {text}" if _tag(child) in _ITEMS else f"{indent}{text}"
            for nested in _outermost_lists(child):
                yield from _list_lines(nested, indent + "  ")


def _outermost_lists(element: etree._Element) -> Iterator[etree._Element]:
    for child in element:
        if _tag(child) in _LISTS:
            yield child
        else:
            yield from _outermost_lists(child)


def _rows(table: etree._Element) -> list[list[etree._Element]]:
    rows = (row for row in table.iter() if _tag(row) in _ROWS)
    return [[cell for cell in row if _tag(cell) in _CELLS] for row in rows]


def _is_data(table: etree._Element) -> bool:
    """Tell a table of data from one that only lays out the page."""
    nested = any(_tag(child) == "table" for child in table.iterdescendants())
    return not nested and any(len(row) > 1 for row in _rows(table))


def _table_lines(table: etree._Element) -> Iterator[str]:
    caption = table.find("caption")
    if caption is not None:
        yield _line(caption)
    for row in _rows(table):
        cells = [_line(cell) for cell in row]
        if any(cells):
            yield " | ".join(cells)
