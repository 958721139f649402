"""A document's blocks, arranged for look-ups by offset."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise
from operator import attrgetter

from rag_assets.documents.model import Block


class Outline:
    """Where a document is best divided, and the page and headings of any offset.

    Attributes:
        divisions: sorted offsets, best first: starts of pages, of headings, of other blocks.
        sections: the offsets of headings.
        blocks: all blocks but pages, in order.
        flat: whether there is neither a page nor a heading.
    """

    def __init__(self, blocks: Iterable[Block]) -> None:
        ordered = sorted(blocks, key=attrgetter("start"))
        paged = [block for block in ordered if block.page is not None]
        inner = [block for block in ordered if block.kind != "page"]
        self.blocks = inner
        self._page_starts = [block.start for block in paged]
        self._pages = [block.page for block in paged]
        self._path_starts = [block.start for block in inner]
        self._paths = [block.heading_path for block in inner]
        headings, others = _starts(inner)
        turns = [new.start for old, new in pairwise(paged) if old.page != new.page]
        self.divisions = tuple(offsets for offsets in (turns, headings, others) if offsets)
        self.sections = frozenset(headings)
        self.flat = not paged and not any(self._paths)

    def page(self, offset: int) -> int | None:
        """Return the 1-based page at `offset`; None where the document has no pages."""
        position = bisect_right(self._page_starts, offset) - 1
        return self._pages[max(position, 0)] if self._pages else None

    def headings(self, offset: int) -> tuple[str, ...]:
        """Return the headings above `offset`, outermost first."""
        position = bisect_right(self._path_starts, offset) - 1
        return self._paths[position] if position >= 0 else ()


def _starts(blocks: list[Block]) -> tuple[list[int], list[int]]:
    """Return the starts of headings and of other blocks.

    A block that follows a heading is no place to cut, nor is an answer after its question: a chunk that
    ends with a heading or a question has lost what belongs to it.
    """
    headings: list[int] = []
    others: list[int] = []
    previous = ""
    for block in blocks:
        if previous != "heading" and block.kind != "answer":
            (headings if block.kind == "heading" else others).append(block.start)
        previous = block.kind
    return headings, others
