"""Running text of a markup: paragraphs and lists that grow line by line, and the blocks that come between them."""

from __future__ import annotations

from rag_assets.documents.building import TextBuilder
from rag_assets.documents.model import BlockKind

_MAX_INDENT = 8  # levels


class Flow:
    """Collects lines and hands whole blocks to a builder."""

    def __init__(self, builder: TextBuilder) -> None:
        self.builder = builder
        self.words: list[str] = []  # of the paragraph or item that is open
        self.items: list[str] = []  # lines of the list that is open
        self.depth = 0  # of the item that is open, 0 outside of a list

    def line(self, text: str) -> None:
        """Add a line to the paragraph or item that is open."""
        self.words += (text, " ")

    def item(self, marker: str, depth: int) -> None:
        """Begin an item of a list; `depth` is 1 for the outermost."""
        if self.depth:
            self._end_words()
        else:
            self.end()
        self.depth = depth
        self.items.append(f"{self._indent()}{marker} ")

    def end_paragraph(self) -> None:
        """End a paragraph; an item of a list may have several."""
        self._end_words()

    def end(self) -> None:
        """End a paragraph, and a list with it."""
        self._end_words()
        lines = [line.rstrip() for line in self.items if line.strip(" -*")]
        self.items, self.depth = [], 0
        self.builder.add("list", "\n".join(lines))

    def block(self, kind: BlockKind, text: str, level: int = 1) -> None:
        """End what is open and add a block."""
        self.end()
        self.builder.add(kind, text, level=level)

    def _indent(self) -> str:
        return "  " * min(max(self.depth - 1, 0), _MAX_INDENT)

    def _end_words(self) -> None:
        lines = [" ".join(part.split()) for part in "".join(self.words).split("\n")]
        self.words = []
        lines = [line for line in lines if line]
        if not lines:
            return
        if not self.depth:
            self.builder.add("paragraph", "\n".join(lines))
            return
        if self.items[-1].endswith(" "):  # the marker alone
            self.items[-1] += lines.pop(0)
        self.items += [f"{self._indent()}  {line}" for line in lines]


def table_row(cells: list[str]) -> str:
    """Return a row of a table as all parsers write it."""
    return " | ".join(" ".join(cell.split()) for cell in cells)
