"""From the element tree of a web page to blocks of visible text, each with what tells content from navigation."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lxml import etree  # type: ignore[import-untyped]

from rag_assets.documents.building import TextBuilder
from rag_assets.documents.model import BlockKind
from rag_assets.documents.parsers.html.tables import is_data_table, table_lines
from rag_assets.documents.parsers.html.text import BREAKS, HEADINGS, INLINE, UNSEEN, Phrase, line, preformatted, tag_of

LISTS = frozenset({"ul", "ol", "dl", "menu"})
_ITEMS = frozenset({"li", "dt", "dd"})
_MARGINAL = frozenset({"nav", "footer", "form", "dialog"})
_MARGINAL_ROLES = frozenset({"navigation", "banner", "contentinfo", "search", "dialog", "alertdialog"})
_NOTE = re.compile(
    r"(?<![a-z])(?:(?:foot|end|side|margin)?notes?|admonition|callout|tip|hint|warning|caution|important|danger)(?![a-z])"
)
_APART = re.compile(
    r"related|recommend|promo|newsletter|subscri|shar(?:e|ing)|social|advert|(?<![a-z])(?:ads?|toc)(?![a-z])"
)
_LINKED = 0.5  # of an aside's text, or more: it leads elsewhere
_MAX_INDENT = 8  # levels
_LONG_HEADING = 500  # characters
_LINK_ITEM = 0.8  # of an item's text, or more: it is one of a menu
_BREAK = "\v"  # stands for <br> until white space is collapsed; normalised text has no vertical tab


@dataclass(frozen=True)
class PageBlock:
    """A block of a page: `linked` is how many characters of its text are links, `marginal` whether it lies in a
    menu, footer, form or the like; `element` is the one that holds it, and `menu_share` the share of a list's items
    that are links and little else. A heading's links to places of its own page are none."""

    kind: BlockKind
    text: str
    level: int
    linked: int
    marginal: bool
    element: etree._Element
    menu_share: float = 0.0

    @property
    def link_share(self) -> float:
        return min(1.0, self.linked / max(1, len(self.text)))

    @property
    def own(self) -> int:
        """How many characters lead nowhere else: those that are not in links, nor in items of a menu."""
        if self.kind == "list":
            return round(len(self.text) * (1 - self.menu_share))
        return max(0, len(self.text) - self.linked)


def add_blocks(root: etree._Element, builder: TextBuilder) -> None:
    """Append the text under `root` to `builder`: headings, paragraphs, lists, tables and code."""
    for block in page_blocks(root):
        builder.add(block.kind, block.text, level=block.level)


def page_blocks(root: etree._Element) -> list[PageBlock]:
    """Return the blocks under `root` in reading order; the time grows with the number of elements alone."""
    body = root.find("body")
    return _Walker(root if body is None else body).run()


class _Walker:
    def __init__(self, root: etree._Element) -> None:
        self.root = root
        self.blocks: list[PageBlock] = []
        self.phrase = Phrase()
        self.margins = 0  # open elements that are marginal
        self.mains = 0  # open elements that hold the content of the page
        self.asides = 0
        self.numbers: list[int | None] = []  # of the next item of each open list; None: not an ordered one
        self.lines: list[str] = []
        self.list_linked = 0
        self.items: list[bool] = []  # of the list: whether all of the item's lines are links and little else
        self.begins = False  # whether the next line is the first of an item
        self.marker = ""  # of the item that has begun and has no text yet
        self.open: list[etree._Element] = [root]

    def run(self) -> list[PageBlock]:
        self.phrase.add(self.root.text)
        walk = etree.iterwalk(self.root, events=("start", "end"))
        for event, element in walk:
            if element is self.root:
                continue
            if event == "end":
                self._end(element)
                self.phrase.add(element.tail)
            elif not self._start(element):
                walk.skip_subtree()
        self._flush()
        self._end_list()
        return self.blocks

    def _start(self, element: etree._Element) -> bool:
        """Take in the element's own text; False where that is already the text of all that is in it."""
        tag = tag_of(element)
        if tag in UNSEEN:
            return False
        if tag in BREAKS:
            self.phrase.add(_BREAK)
            return False
        if tag in INLINE and not (tag == "code" and self.phrase.is_empty and _is_fenced(element)):
            self.phrase.enter(element)
            return True
        self._flush()
        if (tag in HEADINGS or tag in ("pre", "code", "table")) and self._whole(tag, element):
            return False
        self._enter(tag, element)
        self.phrase.add(element.text)
        return True

    def _enter(self, tag: str, element: etree._Element) -> None:
        self.open.append(element)
        self.mains += _is_main(tag, element)
        self.margins += self.margins > 0 or _is_marginal(tag, element) or self._is_apart(tag, element)
        self.asides += _is_aside(tag, element)
        if tag in LISTS:
            self.numbers.append(_whole_number(element.get("start"), 1) if tag == "ol" else None)
        elif tag in _ITEMS:
            self.marker = self._next_marker(element)
            self.begins = tag != "dd"  # what is said of a term belongs to it

    def _is_apart(self, tag: str, element: etree._Element) -> bool:
        """Whether this is an aside to the page and not, as footnotes, warnings and boxes are, to its text."""
        # What is in an aside is not asked again: each answer takes a look at all that is in it.
        if self.asides or not _is_aside(tag, element):
            return False
        names = " ".join(element.get(name) or "" for name in ("class", "id", "role")).lower()
        if _APART.search(names) or not (self.mains or _NOTE.search(names)):
            return True
        linked = sum(len(line(link)) for link in element.iter("a") if link.get("href"))
        return not _NOTE.search(names) and linked >= _LINKED * len(line(element))

    def _next_marker(self, item: etree._Element) -> str:
        number = self.numbers[-1] if self.numbers else None
        if number is None:
            return "- "
        number = _whole_number(item.get("value"), number)
        self.numbers[-1] = number + 1
        return f"{number}. "

    def _end(self, element: etree._Element) -> None:
        tag = tag_of(element)
        if self.phrase.leave(element):
            return
        if self.open[-1] is not element:
            return
        self._flush()
        self.open.pop()
        if tag in _ITEMS:
            self.marker = ""
        elif tag in LISTS:
            self.numbers.pop()
            if not self.numbers:
                self._end_list(element)
        self.mains -= _is_main(tag, element)
        self.asides -= _is_aside(tag, element)
        self.margins -= self.margins > 0

    def _whole(self, tag: str, element: etree._Element) -> bool:
        """Add an element that is one block; False for a table that only lays out the page, and for a heading that
        was left open and so holds all that follows."""
        if tag == "table":
            if not is_data_table(element):
                return False
            self._add("table", "\n".join(table_lines(element)), element)
        elif tag in HEADINGS:
            text = line(element, heading=True)
            if len(text) > _LONG_HEADING:
                return False
            self._add("heading", text, element, level=int(tag[1]))
        else:
            self._add("code", preformatted(element), element)
        return True

    def _flush(self) -> None:
        text, linked = self.phrase.take()
        lines = [part for part in (" ".join(line.split()) for line in text.split(_BREAK)) if part]
        if not lines:
            return
        if not self.numbers:
            self._append("paragraph", "\n".join(lines), 1, linked, self.open[-1])
            return
        indent = "  " * min(len(self.numbers) - 1, _MAX_INDENT)
        self.lines.append(f"{indent}{self.marker or '  '}{lines[0]}")
        self.lines += [f"{indent}  {part}" for part in lines[1:]]
        self.list_linked += linked
        if self.begins or not self.items:
            self.items.append(True)
        self.begins = False
        self.items[-1] &= linked >= _LINK_ITEM * sum(map(len, lines))
        self.marker = ""

    def _end_list(self, element: etree._Element | None = None) -> None:
        if self.lines:
            menu_share = sum(self.items) / len(self.items)
            holder = self.open[-1] if element is None else element
            self._append("list", "\n".join(self.lines), 1, self.list_linked, holder, menu_share)
        self.lines, self.list_linked, self.items = [], 0, []

    def _add(self, kind: BlockKind, text: str, element: etree._Element, level: int = 1) -> None:
        if text.strip():
            self._end_list()
            self._append(kind, text, level, self._linked(kind, text, element), element)

    def _linked(self, kind: BlockKind, text: str, element: etree._Element) -> int:
        links = (link for link in element.iter("a") if link.get("href"))
        if kind == "heading":
            if self.phrase.in_link:
                return len(text)
            links = (link for link in links if not link.get("href").startswith("#"))
        return sum(len(line(link)) for link in links)

    def _append(
        self, kind: BlockKind, text: str, level: int, linked: int, element: etree._Element, menu_share: float = 0.0
    ) -> None:
        self.blocks.append(PageBlock(kind, text, level, linked, self.margins > 0, element, menu_share))


def _whole_number(text: str | None, otherwise: int) -> int:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 10 else otherwise


def _is_fenced(code: etree._Element) -> bool:
    return "\n" in "".join(code.itertext()).strip()


def _is_main(tag: str, element: etree._Element) -> bool:
    return tag in ("main", "article") or (element.get("role") or "").lower() == "main"


def _is_aside(tag: str, element: etree._Element) -> bool:
    return tag == "aside" or (element.get("role") or "").lower() == "complementary"


def _is_marginal(tag: str, element: etree._Element) -> bool:
    if tag == "header":
        return bool(element.getparent().tag == "body")
    return tag in _MARGINAL or (element.get("role") or "").lower() in _MARGINAL_ROLES
