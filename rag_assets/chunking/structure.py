"""Chunks along a document's structure: sections first, then blocks, then what the text itself is divided by."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from rag_assets.chunking.outline import Outline
from rag_assets.chunking.recursive import Marks, best_cut, next_nonspace, step_back
from rag_assets.chunking.walk import Ruler
from rag_assets.documents.model import Block

_LINE_KINDS = ("table", "code")  # kept whole where they fit, else cut between lines


@dataclass(frozen=True)
class Sections:
    """The starts of a text's parts, and how deep each is nested, 1 outermost.

    `inner[i]` is the depth that the part's text has: more than `depths[i]` where a heading follows a heading.
    """

    starts: Sequence[int]
    depths: Sequence[int]
    inner: Sequence[int]


class Interior:
    """Cuts within one part of a document. Tables and code stay whole where they fit, and their lines where not."""

    def __init__(self, text: str, outline: Outline, ruler: Ruler) -> None:
        self.text = text
        self.ruler = ruler
        self.limit = len(text.rstrip())
        self._divisions = outline.divisions
        self._sections = outline.sections
        self._marks = Marks.of(text)
        self._blocks = [block for block in outline.blocks if block.kind in _LINE_KINDS]
        self._starts = [block.start for block in self._blocks]

    def cut(self, start: int, fresh: int, high: int) -> int:
        cut = best_cut(self.text, self._divisions, self._marks, start, fresh, high)
        block = self._block_at(cut)
        if block is None or block.start == cut:
            return cut
        if block.start > fresh and self.ruler.reach(block.start) >= block.end:
            return block.start
        line = self.text.rfind("\n", max(fresh, block.start) + 1, high + 1)
        return line if line >= 0 else cut

    def restart(self, start: int, end: int, fresh: int, whole: int | None = None) -> int:
        """Step back from `fresh`, but not so far that what ends at `whole` would no longer fit."""
        if fresh in self._sections:
            return fresh
        block = self._block_at(fresh)
        if whole is None and block is not None and next_nonspace(self.text, block.start) == fresh:
            whole = block.end
        low = max(self.ruler.back(fresh), start + 1)
        if whole is not None and self.ruler.reach(fresh) >= whole:
            low = max(low, self.ruler.earliest(whole))
        if low >= end:
            return fresh
        repeated = self._block_at(low)
        if repeated is None:
            return step_back(self.text, start, end, fresh, low)
        if repeated.kind == "code" and repeated.start < low and repeated.end <= fresh:
            return fresh  # the end of another block of code says nothing, its closing fence least of all
        line = self.text.find("\n", low - 1, end)
        return min(next_nonspace(self.text, line), fresh) if line >= 0 else fresh

    def _block_at(self, offset: int) -> Block | None:
        position = bisect_right(self._starts, offset) - 1
        if position < 0 or self._blocks[position].end <= offset:
            return None
        return self._blocks[position]


class BoundaryCutter:
    """Fills each chunk with as many whole parts as fit: sentences, or paragraphs.

    With `whole_overlap` a chunk repeats whole parts only.
    """

    def __init__(self, interior: Interior, boundaries: Sequence[int], whole_overlap: bool) -> None:
        self._interior = interior
        self._boundaries = boundaries
        self._whole_overlap = whole_overlap

    def cut(self, start: int, fresh: int, high: int) -> int:
        if high >= self._interior.limit:
            return high
        position = bisect_right(self._boundaries, high) - 1
        if position >= 0 and self._boundaries[position] > fresh:
            return self._boundaries[position]
        return self._interior.cut(start, fresh, high)

    def restart(self, start: int, end: int, fresh: int) -> int:
        following = bisect_right(self._boundaries, fresh)
        whole = self._boundaries[following] if following < len(self._boundaries) else self._interior.limit
        begin = self._interior.restart(start, end, fresh, whole)
        if not self._whole_overlap or begin == fresh:
            return begin
        position = bisect_right(self._boundaries, begin - 1)
        return min(self._boundaries[position], fresh) if position < len(self._boundaries) else fresh


class StructureCutter:
    """Keeps a section together with what is nested in it where that fits, and sections apart where it does not.

    Small sections share a chunk with their siblings if `merge`, and none does otherwise. A piece smaller than
    `least` goes on into what follows, unless that is a section that is whole without it. Where nothing but the
    size ends a chunk, `interior` cuts.
    """

    def __init__(self, interior: Interior, sections: Sections, merge: bool = True, least: int = 0) -> None:
        self._interior = interior
        self._sections = sections
        self._merge = merge
        self._least = least
        self._begins = frozenset(sections.starts)

    def cut(self, start: int, fresh: int, high: int) -> int:
        cut = self._section_cut(start, fresh, high)
        if cut >= 0:
            return cut
        return high if high >= self._interior.limit else self._interior.cut(start, fresh, high)

    def _section_cut(self, start: int, fresh: int, high: int) -> int:
        """Return the best start of a section after `fresh` and up to `high`, or a negative number."""
        starts, depths, inner = self._sections.starts, self._sections.depths, self._sections.inner
        position = bisect_right(starts, fresh) - 1
        within = not self._merge or (position >= 0 and starts[position] < fresh)
        outer = depths[position] if position >= 0 else 1
        own = inner[position] if position >= 0 else 1
        # What is left fits: it is a section's end as good as any.
        best, shallowest = (high, 0) if high >= self._interior.limit else (-1, len(starts) + 1)
        skipped = -1
        for candidate in range(position + 1, len(starts)):
            offset, depth = starts[candidate], depths[candidate]
            if offset > high:
                break
            inside = skipped >= 0 and depth > depths[skipped]
            if self._least and self._interior.ruler.measure(start, offset) < self._least:
                skipped = skipped if inside else candidate
                continue
            if not inside:
                skipped = -1
                if depth < outer or (within and depth <= own):
                    return offset
            if depth <= shallowest:
                best, shallowest = offset, depth
        # A small piece does not go on into a section that is whole without it.
        return starts[skipped] if skipped >= 0 and shallowest and self._fits(skipped) else best

    def _fits(self, section: int) -> bool:
        starts, depths = self._sections.starts, self._sections.depths
        reach = self._interior.ruler.reach(starts[section])
        for following in range(section + 1, len(starts)):
            if starts[following] > reach:
                return False
            if depths[following] <= depths[section]:
                return True
        return self._interior.limit <= reach

    def restart(self, start: int, end: int, fresh: int) -> int:
        return fresh if fresh in self._begins else self._interior.restart(start, end, fresh)


def heading_sections(outline: Outline) -> Sections:
    """Return a document's sections by its headings; one that follows a heading belongs to it."""
    starts: list[int] = []
    depths: list[int] = []
    inner: list[int] = []
    previous = ""
    for block in outline.blocks:
        if block.kind == "heading":
            depth = max(len(block.heading_path), 1)
            if previous == "heading":
                inner[-1] = max(depth, inner[-1])
            else:
                starts.append(block.start)
                depths.append(depth)
                inner.append(depth)
        previous = block.kind
    return Sections(starts, depths, inner)
