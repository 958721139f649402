"""What the lines of a PDF's pages are: running headers and footers, headings, or text."""

from __future__ import annotations

import itertools
import re
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rag_assets.documents.normalize import normalize

_EDGE_LINES = 2  # how many lines at the top and the bottom of a page may be a running header or footer
_MIN_REPEATS = 4  # pages
_MIN_REPEAT_SHARE = 0.45  # of the pages: headers of left and right pages alternate
_MAX_NUMBERS = 2  # in a running line: the page, and how many there are
_LARGER = 1.18  # times the size of most text: what headings have at least
_LARGER_APART = 1.1  # the same for a line with more space above it than usual
_MAX_HEADING = 150  # code points
_MAX_HEADING_LINES = 3
_MAX_HEADING_SHARE = 0.25  # of all text; above it large print is the text itself, as on slides
_NUMBER = re.compile(r"\d+")
_PARAGRAPH_SPACE = 0.35  # line heights beyond the usual space between lines
_WRAPPED = 25  # code points: a heading goes on in the next line only where the first one is this long
_SENTENCE_END = re.compile(r"[.,;:…\-]$")
_LETTERS = re.compile(r"[^\W\d_]{2}")


@dataclass(frozen=True)
class Line:
    """A line of a page.

    `size` is the height of its characters in points, and `above` the distance to the line before it, where these are
    known; `apart` tells that a blank line stands before it.
    """

    text: str
    size: float = 0.0
    above: float = 0.0
    apart: bool = False


Page = list[Line]


@dataclass(frozen=True)
class Part:
    """Text of one page that belongs together; `level` is that of a heading, 1 outermost, or 0."""

    text: str
    level: int = 0


def with_paragraphs(page: Page) -> Page:
    """Set the lines apart that have clearly more space above them than is usual on their page."""
    spaces = [line.above for line in page if line.above > 0]
    usual = statistics.median_low(spaces) if spaces else 0.0
    return [
        replace(line, apart=True) if line.size and line.above > usual + _PARAGRAPH_SPACE * line.size > 0 else line
        for line in page
    ]


def drop_repeated(pages: Sequence[Page]) -> tuple[list[Page], int]:
    """Return the pages without the running headers and footers that earlier pages had, and how many lines these were.

    Only lines at the edge of a page count, and only where nearly half of all pages have the same there: page
    numbers may differ as the pages do. The first of its kind is kept, so that nothing is lost.
    """
    counts: Counter[str] = Counter()
    for number, page in enumerate(pages):
        counts.update({key for line in _edges(page) for key in _keys(line.text, number)})
    least = max(_MIN_REPEATS, _MIN_REPEAT_SHARE * sum(bool(page) for page in pages))
    running = {key for key, count in counts.items() if count >= least}
    if not running:
        return list(pages), 0
    seen: set[str] = set()
    kept = [_without_running(page, number, running, seen) for number, page in enumerate(pages)]
    return kept, sum(map(len, pages)) - sum(map(len, kept))


def _edges(page: Page) -> Page:
    return page if len(page) <= 2 * _EDGE_LINES else page[:_EDGE_LINES] + page[-_EDGE_LINES:]


def _without_running(page: Page, number: int, running: set[str], seen: set[str]) -> Page:
    kept = []
    for position, line in enumerate(page):
        at_edge = position < _EDGE_LINES or position >= len(page) - _EDGE_LINES
        keys = running.intersection(_keys(line.text, number)) if at_edge else set()
        if not keys or not keys <= seen:
            kept.append(line)
        seen |= keys
    return kept


def _keys(text: str, page: int) -> Iterator[str]:
    """Yield the line with each number as it is, and as its distance from the page's number."""
    words = " ".join(text.split())
    parts, numbers = _NUMBER.split(words), _NUMBER.findall(words)
    if len(numbers) > _MAX_NUMBERS or any(len(number) > 6 for number in numbers):
        yield words
        return
    for forms in itertools.product(*((f"={number}", f"+{int(number) - page}") for number in numbers)):
        yield "".join(itertools.chain.from_iterable(zip(parts, (*forms, ""), strict=True)))


def parts_of(pages: Sequence[Page], contents: Sequence[tuple[int, int, str]]) -> list[list[Part]]:
    """Return the parts of each page.

    `contents` are the document's own bookmarks: level from 1, page from 0, and title. Where they name lines of the
    text, these are the headings; otherwise lines in larger print are, unless too many are.
    """
    levels = _bookmarked(pages, contents) or _larger(pages)
    return [_parts(page, number, levels) for number, page in enumerate(pages)]


Levels = dict[tuple[int, int], int]  # by page and line, both from 0


def _bookmarked(pages: Sequence[Page], contents: Sequence[tuple[int, int, str]]) -> Levels:
    titles = {(page, _plain(title)): level for level, page, title in contents if _plain(title)}
    lines = ((number, place, line) for number, page in enumerate(pages) for place, line in enumerate(page))
    found = ((number, place, titles.get((number, _plain(line.text)))) for number, place, line in lines)
    return {(number, place): level for number, place, level in found if level is not None}


def _plain(text: str) -> str:
    """Return a title without its number, and without what a viewer would not see."""
    return " ".join(normalize(text).lstrip("0123456789.§ \t\u00a0").split()).casefold()


def _larger(pages: Sequence[Page]) -> Levels:
    weights: Counter[float] = Counter()
    for line in itertools.chain.from_iterable(pages):
        weights[line.size] += len(line.text)
    weights.pop(0.0, None)
    if not weights:
        return {}
    body = max(weights, key=lambda size: (weights[size], -size))
    found = {
        (number, place): line
        for number, page in enumerate(pages)
        for place, line in enumerate(page)
        if line.size >= (_LARGER_APART if line.apart else _LARGER) * body
        and len(line.text) <= _MAX_HEADING
        and _LETTERS.search(line.text)
    }
    if sum(len(line.text) for line in found.values()) > _MAX_HEADING_SHARE * weights.total():
        return {}
    sizes = sorted({line.size for line in found.values()}, reverse=True)
    return {place: min(sizes.index(line.size) + 1, 6) for place, line in found.items()}


def _parts(page: Page, number: int, levels: Levels) -> list[Part]:
    parts: list[Part] = []
    text: Page = []
    for level, run in itertools.groupby(enumerate(page), key=lambda item: levels.get((number, item[0]), 0)):
        lines = [line for _, line in run]
        headings = _headings(lines) if level else []
        if not headings:
            text += lines
            continue
        parts += _text_part(text)
        parts += [Part(heading, level) for heading in headings]
        text = []
    return parts + _text_part(text)


def _text_part(lines: Page) -> list[Part]:
    joined = "".join(("\n\n" if line.apart else "\n") + line.text for line in lines)
    return [Part(joined)] if lines else []


def _headings(lines: Page) -> list[str]:
    """Return the headings in lines of one level; [] where they are text that somebody printed large."""
    if len(lines) > _MAX_HEADING_LINES or _SENTENCE_END.search(lines[-1].text.rstrip()):
        return []
    headings = [lines[0].text]
    for before, line in itertools.pairwise(lines):
        if line.apart or len(before.text) < _WRAPPED:
            headings.append(line.text)
        else:
            headings[-1] += " " + line.text
    return headings
