"""A document's blocks, arranged for look-ups by offset."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from functools import cached_property
from operator import attrgetter

from rag_assets.documents.model import Block


class Outline:
    """Where a document is best divided, and the page and headings of any offset.

    Attributes:
        divisions: sorted offsets, best first: starts of pages, of headings, of other blocks.
        sections: the offsets of headings.
        has_pages: whether any block has a page.
        has_headings: whether any block is below a heading.
    """

    def __init__(self, blocks: Iterable[Block]) -> None:
        # One pass: of a short document, this is a good part of the time that cutting it takes.
        self._ordered = sorted(blocks, key=attrgetter("start"))
        headings: list[int] = []
        others: list[int] = []
        turns: list[int] = []
        page: int | None = None
        previous: str | None = None
        below = False
        for block in self._ordered:
            if block.page is not None and block.page != page:
                if page is not None:
                    turns.append(block.start)
                page = block.page
            kind = block.kind
            # A block that follows a heading is no place to cut, nor is an answer after its question: a chunk that
            # ends with a heading or a question has lost what belongs to it.
            if kind == "heading":
                if previous != "heading":
                    headings.append(block.start)
            elif kind == "page":
                continue
            elif previous != "heading" and kind != "answer":
                others.append(block.start)
            previous = kind
            if block.heading_path:
                below = True
        self.has_headings = below
        self.has_pages = page is not None
        self.divisions = tuple(offsets for offsets in (turns, headings, others) if offsets)
        self.sections = frozenset(headings)

    @cached_property
    def blocks(self) -> list[Block]:
        """All blocks but pages, in order."""
        return [block for block in self._ordered if block.kind != "page"]

    def page(self, offset: int) -> int | None:
        """Return the 1-based page at `offset`; None where the document has no pages."""
        if not self.has_pages:
            return None
        position = bisect_right(self._page_starts, offset) - 1
        return self._pages[max(position, 0)]

    def headings(self, offset: int) -> tuple[str, ...]:
        """Return the headings above `offset`, outermost first."""
        if not self.has_headings:
            return ()
        position = bisect_right(self._starts, offset)
        return self._paths[position - 1] if position else ()

    @cached_property
    def _starts(self) -> list[int]:
        return [block.start for block in self.blocks]

    @cached_property
    def _paths(self) -> list[tuple[str, ...]]:
        return [block.heading_path for block in self.blocks]

    @cached_property
    def _page_starts(self) -> list[int]:
        return [block.start for block in self._ordered if block.page is not None]

    @cached_property
    def _pages(self) -> list[int | None]:
        return [block.page for block in self._ordered if block.page is not None]
