"""Where on a page its text lies, by what its markup says: the body that it declares, its main element, its comments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile

from lxml import etree  # type: ignore[import-untyped]

from rag_assets.documents.parsers.html.blocks import PageBlock

_MAIN = 0.3  # of the page's text that a `main` element must hold to be believed
_MAINS = ("//main", "//*[@role='main']", "//article")
# schema.org, and the microformats hAtom and h-entry.
_BODIES = (
    "//*[contains(concat(' ', normalize-space(@itemprop), ' '), ' articleBody ')]",
    "//*[contains(concat(' ', normalize-space(@class), ' '), ' entry-content ')"
    " or contains(concat(' ', normalize-space(@class), ' '), ' e-content ')]",
)
_COMMENTS = re.compile(
    r"(?<![a-z])comments?(?:list|area|section|box|s?thread|wrap(?:per)?)?(?![a-z])|disqus|livefyre|(?<![a-z])respond(?![a-z])"
)


def main_of(root: etree._Element, plain: Sequence[PageBlock]) -> list[PageBlock]:
    """Return what is in the page's only `main`, or only `article`, if that holds much of the page."""
    for path in _MAINS:
        found = root.xpath(path)
        if len(found) == 1:
            inside = within(found[0], plain)
            if length(inside) > _MAIN * length(plain):
                return inside
    return []


def body_of(root: etree._Element, blocks: Sequence[PageBlock]) -> list[PageBlock]:
    """Return what is in the element that the page declares to be the body of its article; of several, in that which
    holds most text. Empty without one."""
    for path in _BODIES:
        bodies = root.xpath(path)
        if bodies:
            held: dict[etree._Element, list[PageBlock]] = {}
            outermost = _outermost(bodies)
            for block in blocks:
                if block.element in outermost:
                    held.setdefault(outermost[block.element], []).append(block)
            return max(held.values(), key=own, default=[])
    return []


def comments_of(root: etree._Element, blocks: Sequence[PageBlock]) -> set[PageBlock]:
    """Return what readers wrote below an article. What holds the page's title or its main element is more than that,
    whatever it is called (`comments-open` stands on many a page's body)."""
    named = [element for element in root.iter(etree.Element) if _COMMENTS.search(_names(element))]
    if not named:
        return set()
    whole: set[etree._Element] = set()
    for found in (found for path in (*_MAINS, *_BODIES, "//h1") for found in root.xpath(path)):
        whole.update(takewhile(lambda above: above not in whole, upwards(found)))
    inside = _outermost(element for element in named if element not in whole)
    return {block for block in blocks if block.element in inside}


def _outermost(elements: Iterable[etree._Element]) -> dict[etree._Element, etree._Element]:
    """Return for all that lies in one of the elements, which are in the page's order, the outermost of them."""
    around: dict[etree._Element, etree._Element] = {}
    for element in elements:
        if element not in around:
            around.update(dict.fromkeys(element.iter(), element))
    return around


def _names(element: etree._Element) -> str:
    return f"{element.get('class') or ''} {element.get('id') or ''}".lower()


def within(element: etree._Element, blocks: Sequence[PageBlock]) -> list[PageBlock]:
    """Return the blocks that lie in an element."""
    inside = set(element.iter())
    return [block for block in blocks if block.element in inside]


def upwards(element: etree._Element | None) -> Iterator[etree._Element]:
    """Yield the element and all that it lies in."""
    while element is not None:
        yield element
        element = element.getparent()


def length(blocks: Sequence[PageBlock]) -> int:
    """Return how many characters the blocks hold."""
    return sum(len(block.text) for block in blocks)


def own(blocks: Sequence[PageBlock]) -> int:
    """Return how many characters of the blocks lead nowhere else."""
    return sum(block.own for block in blocks)
