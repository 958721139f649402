"""Which blocks of a page an extractor's text holds: extractors only vote, so that the text kept is the page's own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from rag_assets.documents.parsers.html.blocks import PageBlock

_FOUND = 0.8  # of a block's windows that must be in the extracted text
_WINDOW, _STEP = 16, 4  # letters and digits
_SEPARATORS = re.compile(r"[\W_]+")


def found_in(blocks: Sequence[PageBlock], extracted: str) -> list[bool]:
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


def once(blocks: Sequence[PageBlock], found: Sequence[bool], extracted: str) -> list[bool]:
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
    first, last = ends(kept)
    for text in repeated:
        places[text].sort(key=lambda index: max(0, first - index, index - last))
        for index in places[text][: max(1, lines[text])]:
            kept[index] = True
    return kept


def ends(found: Sequence[bool]) -> tuple[int, int]:
    """Return the first and last index that was found; -1, -1 without any."""
    indices = [index for index, is_found in enumerate(found) if is_found]
    return (indices[0], indices[-1]) if indices else (-1, -1)


def _bare(text: str) -> str:
    return _SEPARATORS.sub("", text).lower()
