"""What a model reads in front of a chunk: where it stands, and what its first lines would mean nothing without."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import takewhile
from typing import TYPE_CHECKING

from rag_assets.chunking.outline import Outline
from rag_assets.chunking.questions import QuestionAnswer
from rag_assets.documents.model import Block, Document

if TYPE_CHECKING:
    from rag_assets.chunking.syntax import CodeOutline, Definition

MAX_CONTEXT = 300  # characters, line feeds included
_MAX_PART = 100  # characters of one heading, symbol or path
_MOST_SYMBOLS = 5
_MOST_HEADINGS = 20
_CAPTION_LINES = 3  # in front of a table's header row, and itself


class Context:
    """Makes the context of any chunk: at most two lines, `MAX_CONTEXT` characters in all.

    The first, only with `header`: title and headings, or for code `path • symbol • kind • summary • documentation`.
    The second: the header row of a table, or the question, that the chunk continues.
    """

    def __init__(
        self,
        document: Document,
        outline: Outline,
        header: bool,
        questions: list[QuestionAnswer],
        code: CodeOutline | None,
    ) -> None:
        self._text = document.text
        self._title = _squeezed(document.title)
        self._path = _squeezed(str(document.metadata.get("path") or document.title or "")) if code else ""
        # Of a text without headings all chunks stand in the same place.
        self._place = _path_line([self._title]) if code is None and not outline.has_headings else None
        self._outline = outline
        self._header = header
        self._code = code
        self._tables = [block for block in outline.blocks if block.kind == "table"]
        self._table_starts = [block.start for block in self._tables]
        self._questions = questions
        self._question_starts = [question.start for question in questions]

    def of(self, start: int, end: int) -> str:
        """Return the context of the chunk from `start` to `end`; "" where there is nothing to say."""
        lead = self._table_header(start) or self._question(start)
        headline = self._headline(start, end) if self._header else ""
        if headline and lead:
            headline = _clipped(headline, MAX_CONTEXT // 2)
            lead = "" if lead == headline else lead
        if headline and lead:
            return f"{headline}\n{_clipped(lead, MAX_CONTEXT - len(headline) - 1)}"
        return _clipped(headline or lead, MAX_CONTEXT)

    def _headline(self, start: int, end: int) -> str:
        if self._place is not None:
            return self._place
        if self._code is not None:
            return _code_line(self._path, self._code.described(start, end))
        first, last = self._outline.headings(start), self._outline.headings(end - 1)
        shared = takewhile(lambda both: both[0] == both[1], zip(first, last, strict=False))
        parts = [self._title, *(_squeezed(heading) for heading, _ in shared)]
        return _path_line(dict.fromkeys(parts))

    def _table_header(self, start: int) -> str:
        position = bisect_right(self._table_starts, start) - 1
        if position < 0 or self._tables[position].end <= start:
            return ""
        return _header_row(self._text, self._tables[position], start)

    def _question(self, start: int) -> str:
        position = bisect_right(self._question_starts, start) - 1
        if position < 0 or not self._questions[position].question_end <= start < self._questions[position].end:
            return ""
        question = self._questions[position]
        return _squeezed(self._text[question.start : question.question_end].lstrip("# "))


def _header_row(text: str, table: Block, start: int) -> str:
    """Return the first row of cells of a table, where that is in front of `start`; a caption may precede it."""
    begin = table.start
    for _ in range(_CAPTION_LINES):
        end = text.find("\n", begin, table.end)
        if end < 0 or end >= start:
            return ""
        line = text[begin : min(end, begin + 2 * MAX_CONTEXT)]
        if "|" in line or "\t" in line or "," in line:
            return _squeezed(line)
        begin = end + 1
    return ""


def _code_line(path: str, definitions: list[Definition]) -> str:
    if not definitions:
        return path
    symbols = ", ".join(definition.symbol for definition in definitions[:_MOST_SYMBOLS])
    summary, _, rest = definitions[0].documentation.partition("\n")
    named = [_clipped(part, _MAX_PART) for part in (path, symbols) if part]
    return _clipped(
        " • ".join([*named, definitions[0].kind, *filter(None, map(_squeezed, (summary, rest)))]), MAX_CONTEXT
    )


def _path_line(parts: Iterable[str]) -> str:
    """Join what is not empty; of more than fits, the middle gives way: the title and the last headings matter."""
    kept = [_clipped(part, _MAX_PART) for part in parts if part]
    del kept[1:-_MOST_HEADINGS]
    while len(kept) > 2 and len(" › ".join(kept)) > MAX_CONTEXT:
        del kept[1]
    return " › ".join(kept)


def _squeezed(text: str) -> str:
    return " ".join(text[: 4 * MAX_CONTEXT].split())


def _clipped(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"
