"""Which blocks of a web page are its content.

A page that declares itself an article (Open Graph, schema.org) is read as one: its blocks are those that
trafilatura's extraction in favour of precision has found again, or that the page's own JSON-LD names, and what
belongs with them: their siblings, and quotes, code and tables between them. Where that is little of the body that the
page declares (`articleBody`, `entry-content`), the body itself is the article. On any other page (documentation,
support, reference) what is dropped does more harm than what is kept: everything in its `main` element counts, or,
without one, around what trafilatura has found.

The blocks are those of the page itself, so code keeps its white space and no link its text: trafilatura only votes.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import islice

import trafilatura
from lxml import etree  # type: ignore[import-untyped]

from rag_assets.documents.parsers.html.blocks import LISTS, PageBlock
from rag_assets.documents.parsers.html.declared import Declared
from rag_assets.documents.parsers.html.regions import body_of, comments_of, length, main_of, own, upwards
from rag_assets.documents.parsers.html.text import HEADINGS
from rag_assets.documents.parsers.html.votes import ends, found_in, once

_SMALL = 600  # characters: a page this short carries too few signals to judge it by
_MAX_ELEMENTS = 20_000  # beyond that the extractor takes seconds
_LINKS = 0.8  # of an article's block: what is more of a link leads to other articles
_MENU = 0.5  # of a block outside of an article, and of the items of a list
_LOST = 0.25  # of the page's own text: an extraction of less has missed the article
_HALF = 0.5  # of the body that a page declares, and of what a second extraction finds
_SIBLINGS = 0.1  # of an article's text that an element must hold directly for what stands beside it to be of it too
_UNSEEN = frozenset({"table", "list", "code"})
_PARTS = HEADINGS | {"p", "pre", "code", "table"}
_FIGURES = frozenset({"figure", "figcaption"})
_HOME = 0.9  # of the text found that an element must hold for what lies beside it to be content too


@dataclass(frozen=True)
class Content:
    """What is kept of a page, in its order, and how much of its running text that is, from 0 to 1: of what is no
    link, no menu or footer, and no reader's comment."""

    blocks: list[PageBlock]
    share_kept: float


def content(root: etree._Element, blocks: Sequence[PageBlock], says: Declared) -> Content:
    """Return the main content; nothing only where a page has nothing."""
    comments = comments_of(root, blocks)
    kept = _kept(root, blocks, says, comments)
    dropped = comments.difference(kept)
    whole = own([block for block in blocks if not block.marginal and block not in dropped])
    share = own([block for block in kept if not block.marginal]) / whole if whole else 1.0
    return Content(kept, round(share, 3))


def _kept(
    root: etree._Element, blocks: Sequence[PageBlock], says: Declared, comments: Set[PageBlock]
) -> list[PageBlock]:
    plain = [block for block in blocks if not block.marginal] or list(blocks)
    main = main_of(root, plain)
    if length(main or plain) < _SMALL:
        return main or plain
    extractable = sum(1 for _ in root.iter()) <= _MAX_ELEMENTS
    if says.is_article and extractable:
        article = _article(root, [block for block in blocks if block not in comments], says.body)
        if article:
            return article
    if main or not extractable:
        return _without_comments(root, main or plain, comments)
    return _around(blocks, _extracted(root, precise=False)) or plain


def _without_comments(root: etree._Element, blocks: Sequence[PageBlock], comments: Set[PageBlock]) -> list[PageBlock]:
    """Leave comments out where the markup names a text that they are about: of a forum's page, they are the text."""
    body = set(body_of(root, blocks))
    return [block for block in blocks if block not in comments or block in body or not body]


def _extracted(root: etree._Element, precise: bool) -> str:
    # It takes the tree apart while it reads it. The second opinions that it asks for unless `fast` take time that
    # grows with the square of the page, and their vote changes little.
    tree = copy.deepcopy(root)
    return trafilatura.extract(tree, fast=True, include_comments=False, favor_precision=precise) or ""


def _article(root: etree._Element, text: Sequence[PageBlock], declared: str) -> list[PageBlock]:
    """Return the article; nothing where the page says that it is one, and no text looks like it."""
    article = _voted(text, _extracted(root, precise=True), declared)
    body = [block for block in body_of(root, text) if not block.marginal]
    if not body:
        return article if _is_whole(article, text, root) else []
    inside = set(body)
    found = [block for block in article if block in inside]
    if own(found) < _HALF * own(body):
        found = body
    before = set(text[: text.index(body[0])])
    return [block for block in article if block in before and _is_title(block)][-1:] + found


def _is_whole(article: Sequence[PageBlock], text: Sequence[PageBlock], root: etree._Element) -> bool:
    """Whether the extraction is the page's article, and not some notice beside what the extractor does not see."""
    plain = [block for block in text if not block.marginal]
    if own(article) > _LOST * own(plain):
        return True
    # Little of the page: what readers wrote may be much longer than what they wrote about, and two extractions agree
    # on that. Both are blind to tables, lists and code.
    unseen = own([block for block in plain if block.kind in _UNSEEN])
    second = _voted(text, _extracted(root, precise=False), "")
    return own(article) > _LOST * unseen and own(article) > _HALF * own(second)


def _voted(blocks: Sequence[PageBlock], extracted: str, declared: str) -> list[PageBlock]:
    """Return what the extraction or the page's own data hold, and what belongs with it."""
    votes = once(blocks, found_in(blocks, extracted), extracted)
    if declared:
        votes = [vote or also for vote, also in zip(votes, found_in(blocks, declared), strict=True)]
    first, last = ends(votes)
    kept = [
        (vote and (block.link_share < _LINKS or block.kind == "code"))
        or (first < index < last and not block.marginal and _is_part(block))
        for index, (block, vote) in enumerate(zip(blocks, votes, strict=True))
    ]
    homes = _homes([block for block, is_kept in zip(blocks, kept, strict=True) if is_kept])
    return [
        block
        for index, block in enumerate(blocks)
        if kept[index]
        or (not block.marginal and not _is_menu(block) and _is_beside(block, homes, first < index < last))
    ]


def _homes(article: Sequence[PageBlock]) -> set[etree._Element]:
    """Return the elements in which paragraphs of the article stand side by side."""
    held: Counter[etree._Element] = Counter()
    for block in article:
        is_part = block.element.tag in _PARTS or block.element.tag in LISTS
        held[block.element.getparent() if is_part else block.element] += block.own
    return {element for element, count in held.items() if count >= _SIBLINGS * held.total()}


def _is_beside(block: PageBlock, homes: Set[etree._Element], between: bool) -> bool:
    """Whether the block stands beside paragraphs of the article, which an extractor may leave out for its links, its
    length or its first word. Only `between` them is that enough for what is no paragraph or heading."""
    if block.marginal or _is_menu(block):
        return False
    if block.element.tag in _PARTS:
        return block.element.getparent() in homes
    # The caption of a picture is not running text: the extractor alone says whether it belongs.
    beside = block.element in homes or (block.element.getparent() in homes and block.element.tag not in _FIGURES)
    return between and beside


def _is_part(block: PageBlock) -> bool:
    """Whether a block that lies between paragraphs of an article is one that extractors tend to miss."""
    if any(element.tag == "blockquote" for element in upwards(block.element)):
        return True
    return block.kind in ("code", "table") and not _is_menu(block)


def _is_menu(block: PageBlock) -> bool:
    return _links(block) >= _MENU


def _links(block: PageBlock) -> float:
    return block.menu_share if block.kind == "list" else block.link_share


def _around(blocks: Sequence[PageBlock], extracted: str) -> list[PageBlock]:
    """Return what was found, and what lies with it in the innermost element that holds nearly all of it."""
    found = found_in(blocks, extracted)
    home = _common(blocks, found)
    if home is None:
        return []
    start, within = _opening(blocks, ends(found)[0]), set(home.iter())
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
        if _is_title(block) and not block.marginal:
            sections = any(between.kind == "heading" for between in blocks[index + 1 : first])
            return range(index, first if sections else index + 1)
    return range(0)


def _is_title(block: PageBlock) -> bool:
    return block.kind == "heading" and block.level == 1


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


def _around_block(block: PageBlock) -> Iterator[etree._Element]:
    """Yield what the block's own element lies in."""
    return islice(upwards(block.element), 1, None)
