"""Which blocks of a web page are its content.

A page that declares itself an article (Open Graph, schema.org) is read as one: its blocks are those that
trafilatura's extraction in favour of precision has found again, and what belongs to the text between them. On any
other page (documentation, support, reference) what is dropped does more harm than what is kept: everything in its
`main` element counts, or, without one, around what trafilatura has found.

The blocks are those of the page itself, so code keeps its white space and no link its text: trafilatura only votes.
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

import trafilatura
from lxml import etree  # type: ignore[import-untyped]

from rag_assets.documents.parsers.html.blocks import PageBlock

_SMALL = 600  # characters: a page this short carries too few signals to judge it by
_MAX_ELEMENTS = 20_000  # beyond that the extractor takes seconds
_FOUND = 0.8  # of a block's windows that must be in the extracted text
_LINKS = 0.8  # of an article's block: what is more of a link leads to other articles
_MENU = 0.5  # of a block outside of an article, and of the items of a list
_LOST = 0.25  # of the page's own text: an extraction of less has missed the article
_HOME = 0.9  # of the text found that an element must hold for what lies beside it to be content too
_MAIN = 0.3  # of the page's text that a `main` element must hold to be believed
_WINDOW, _STEP = 16, 4  # letters and digits
_SEPARATORS = re.compile(r"[\W_]+")
_MAINS = ("//main", "//*[@role='main']", "//article")


def content(root: etree._Element, blocks: Sequence[PageBlock], is_article: bool) -> list[PageBlock]:
    """Return the blocks of the main content, in order; none only where there are none."""
    plain = [block for block in blocks if not block.marginal] or list(blocks)
    main = _main(root, plain)
    if _length(main or plain) < _SMALL:
        return main or plain
    extractable = sum(1 for _ in root.iter()) <= _MAX_ELEMENTS
    if is_article and extractable:
        article = _article(blocks, _extracted(root, precise=True))
        if _own(article) > _LOST * _own(plain):
            return article
    if main or not extractable:
        return main or plain
    return _around(blocks, _extracted(root, precise=False)) or plain


def _extracted(root: etree._Element, precise: bool) -> str:
    # It takes the tree apart while it reads it. The second opinions that it asks for unless `fast` take time that
    # grows with the square of the page, and their vote changes little.
    tree = copy.deepcopy(root)
    return trafilatura.extract(tree, fast=True, include_comments=False, favor_precision=precise) or ""


def _main(root: etree._Element, plain: Sequence[PageBlock]) -> list[PageBlock]:
    """Return what is in the page's only `main`, or only `article`, if that holds much of the page."""
    for path in _MAINS:
        found = root.xpath(path)
        if len(found) == 1:
            within = set(found[0].iter())
            inside = [block for block in plain if block.element in within]
            if _length(inside) > _MAIN * _length(plain):
                return inside
    return []


def _article(blocks: Sequence[PageBlock], extracted: str) -> list[PageBlock]:
    found = _once(blocks, _found(blocks, extracted), extracted)
    first, last = _ends(found)
    return [
        block
        for index, block in enumerate(blocks)
        if (found[index] and (block.link_share < _LINKS or block.kind == "code"))
        or (first < index < last and not block.marginal and _is_part(block))
    ]


def _is_part(block: PageBlock) -> bool:
    """Whether a block that lies between paragraphs of an article is one that extractors tend to miss."""
    if any(element.tag == "blockquote" for element in _ancestors(block.element)):
        return True
    return block.kind in ("code", "table") and not _is_menu(block)


def _is_menu(block: PageBlock) -> bool:
    return _links(block) >= _MENU


def _links(block: PageBlock) -> float:
    return block.menu_share if block.kind == "list" else block.link_share


def _around(blocks: Sequence[PageBlock], extracted: str) -> list[PageBlock]:
    """Return what was found, and what lies with it in the innermost element that holds nearly all of it."""
    found = _found(blocks, extracted)
    home = _common(blocks, found)
    if home is None:
        return []
    start, within = _opening(blocks, _ends(found)[0]), set(home.iter())
    return [
        block
        for index, block in enumerate(blocks)
        if found[index] or ((index in start or block.element in within) and not block.marginal and not _is_menu(block))
    ]


def _opening(blocks: Sequence[PageBlock], first: int) -> range:
    """Return the sections between the page's title and what was found first. Without a heading of their own, what
    stands there is a date, an author, or buttons."""
    for index in range(first - 1, -1, -1):
        block = blocks[index]
        if block.kind == "heading" and block.level == 1 and not block.marginal:
            sections = any(between.kind == "heading" for between in blocks[index + 1 : first])
            return range(index, first if sections else index + 1)
    return range(0)


def _common(blocks: Sequence[PageBlock], found: Sequence[bool]) -> etree._Element | None:
    held: Counter[etree._Element] = Counter()
    total = 0
    for block, is_found in zip(blocks, found, strict=True):
        if is_found:
            total += len(block.text)
            for element in _around_block(block):
                held[element] += len(block.text)
    for block, is_found in zip(blocks, found, strict=True):
        if is_found:
            return next((element for element in _around_block(block) if held[element] >= _HOME * total), None)
    return None


def _found(blocks: Sequence[PageBlock], extracted: str) -> list[bool]:
    """Tell for each block whether it is in the extracted text: as a line of it, or most of its windows of letters,
    which works for scripts without spaces too."""
    lines = {_bare(line) for line in extracted.split("\n")} - {""}
    whole = _bare(extracted)
    windows = {whole[start : start + _WINDOW] for start in range(len(whole) - _WINDOW + 1)}
    return [_is_found(_bare(block.text), lines, windows) for block in blocks]


def _is_found(text: str, lines: set[str], windows: set[str]) -> bool:
    if text in lines or len(text) < _WINDOW:
        return text in lines
    starts = range(0, len(text) - _WINDOW + 1, _STEP)
    return sum(text[start : start + _WINDOW] in windows for start in starts) >= _FOUND * len(starts)


def _once(blocks: Sequence[PageBlock], found: Sequence[bool], extracted: str) -> list[bool]:
    """Where a page repeats a line, such as its title, more often than it was extracted, keep those nearest to the
    rest of what was found."""
    lines = Counter(_bare(line) for line in extracted.split("\n"))
    texts = [_bare(block.text) for block in blocks]
    places: dict[str, list[int]] = {}
    for index, text in enumerate(texts):
        if found[index]:
            places.setdefault(text, []).append(index)
    repeated = {text for text, indices in places.items() if len(indices) > max(1, lines[text])}
    kept = [is_found and texts[index] not in repeated for index, is_found in enumerate(found)]
    first, last = _ends(kept)
    for text in repeated:
        places[text].sort(key=lambda index: max(0, first - index, index - last))
        for index in places[text][: max(1, lines[text])]:
            kept[index] = True
    return kept


def _ends(found: Sequence[bool]) -> tuple[int, int]:
    """Return the first and last index that was found; -1, -1 without any."""
    indices = [index for index, is_found in enumerate(found) if is_found]
    return (indices[0], indices[-1]) if indices else (-1, -1)


def _ancestors(element: etree._Element | None) -> Iterator[etree._Element]:
    while element is not None:
        yield element
        element = element.getparent()


def _around_block(block: PageBlock) -> Iterator[etree._Element]:
    """Yield what the block's own element lies in."""
    return islice(_ancestors(block.element), 1, None)


def _bare(text: str) -> str:
    return _SEPARATORS.sub("", text).lower()


def _length(blocks: Sequence[PageBlock]) -> int:
    return sum(len(block.text) for block in blocks)


def _own(blocks: Sequence[PageBlock]) -> int:
    """Return how many characters are not links."""
    return sum(max(0, len(block.text) - block.linked) for block in blocks)
