"""What stands in Markdown and is never shown: comments, and the bytes of pictures that are written into the text."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import accumulate

from rag_assets.documents.parsers.markdown_blocks import block_parser

_ROUGH = re.compile(r"<!--|data:[\w.+\-/]*+[;,]|\[//\]:", re.IGNORECASE)
# Bounded, since it is looked for at every place that may begin one.
_URI = r"data:[\w.+\-/]{0,100}+(?:;[^\s,;()<>\"']{0,100}+){0,8}+,"
_MARK = re.compile(
    r"(?P<escape>\\[\\`<])"
    r"|(?P<ticks>`+)"
    r"|(?P<comment><!--)"
    # `[//]: # (a remark)`, which is a link that nothing refers to.
    r"|(?P<remark>^ {0,3}\[//\]:[ \t]*(?:\#|<>)[^\n]*+)"
    # Defines what `![][image1]` shows.
    rf"|(?P<defined>^ {{0,3}}\[[^\[\]\n]*+\]:[ \t]*(?:<{_URI}[^>\n]*+>|{_URI}[^\s]*+)[^\n]*+)"
    rf"|(?P<angled>(?<=\]\(<){_URI}[^>\n]*+)"
    rf"|(?P<linked>(?<=\]\(){_URI}[^\s()]*+)"
    rf"|(?P<quoted>(?<==[\"']){_URI}[^\"']*+)"
    # In running text the first few are an example of one, and thousands of them are nothing to read.
    rf"|(?P<bare>{_URI}[A-Za-z0-9+/=%\-_]{{200,}})",
    re.IGNORECASE | re.MULTILINE,
)
_EMPTY_LINE = re.compile(r"\n[ \t>]*(?=\n)")
_LINE_START = re.compile(r"[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*")


def without_unseen(text: str) -> str:
    """Return Markdown without comments and data URIs, but for those in code, which is shown as it is written.

    A comment leaves the lines around it apart, and a picture keeps its description. A comment that nothing closes is
    text, since nobody can tell where it was to end.
    """
    if not _ROUGH.search(text):
        return text
    parts, position = [], 0
    for start, end in _unseen(text):
        parts.append(text[position:start])
        position = end
    parts.append(text[position:])
    return "".join(parts).lstrip("\n") if position else text


def _unseen(text: str) -> Iterator[tuple[int, int]]:
    code, spans = _code(text), _Spans(text)
    position = 0
    while found := _MARK.search(text, position):
        start, position = found.span()
        inside = bisect_right(code, (start, len(text))) - 1
        if inside >= 0 and start < code[inside][1]:
            position = max(position, code[inside][1])
        elif found["ticks"]:
            position = spans.end_of_code(start, position)
        elif found["comment"]:
            end = spans.end_of_comment(start)
            if end > start:
                yield start, end
                position = end
        elif not found["escape"]:
            yield start, position


def _code(text: str) -> list[tuple[int, int]]:
    """Return where blocks of code stand, at any depth of lists and quotes."""
    lines = list(accumulate((len(line) + 1 for line in text.split("\n")), initial=0))
    maps = (token.map for token in block_parser().parse(text) if token.type in ("fence", "code_block") and token.map)
    return [(lines[first], lines[min(last, len(lines) - 1)]) for first, last in maps]


class _Spans:
    """Where what begins within a paragraph ends. Each look takes little time, whatever the text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._gaps = [gap.start() for gap in _EMPTY_LINE.finditer(text)]
        self._ticks: dict[int, list[int]] = {}
        for run in re.finditer("`+", text):
            self._ticks.setdefault(len(run[0]), []).append(run.start())
        self._last_close = text.rfind("-->")

    def _paragraph_end(self, offset: int) -> int:
        gap = bisect_left(self._gaps, offset)
        return self._gaps[gap] if gap < len(self._gaps) else len(self._text)

    def end_of_code(self, start: int, end: int) -> int:
        """Return where code that begins with the marks from `start` to `end` ends; `end` if nothing closes it."""
        closing = self._ticks.get(end - start, [])
        number = bisect_left(closing, end)
        if number == len(closing) or closing[number] >= self._paragraph_end(end):
            return end
        return closing[number] + end - start

    def end_of_comment(self, start: int) -> int:
        """Return where the comment ends, or `start` if it is none."""
        if start + 2 > self._last_close:
            return start
        end = self._text.find("-->", start + 2)
        line = self._text.rfind("\n", 0, start) + 1
        # Only a comment that begins a line goes on over an empty one.
        starts_line = _LINE_START.fullmatch(self._text, line, start) is not None
        return end + 3 if starts_line or end < self._paragraph_end(start) else start
