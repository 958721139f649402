"""Passages with what stands around them: small chunks are found best, and whole sections answer best."""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any
from uuid import UUID

from rag_assets.documents.words import count_tokens, token_places
from rag_assets.errors import InvalidArgument, RagError
from rag_assets.retrieval.arguments import MAX_TOP_K, check_whole
from rag_assets.retrieval.protocol import Retriever, SteppedRetriever, checked, database_of, require_retriever, steps_of
from rag_assets.retrieval.results import Retrieval, RetrievalResult, joined
from rag_assets.retrieval.scope import RetrievalScope
from rag_assets.retrieval.steps import Steps, ask
from rag_assets.store.surroundings import Parts, Span, Text, blocks_of, chunks_of, texts_of

MAX_NEIGHBOURS = 20
MAX_EXPANDED_TOKENS = 20_000
_MOST_PARTS, _MOST_CHARS = 400_000, 10_000_000  # that are looked at, and read to each side, for all passages together
_CHARS = 32  # of a token, at most: what lies further away than so many for each is not read


class ExpandedRetriever(SteppedRetriever):
    """Shows more of the source around each result of another retriever, and nothing twice.

    `content`, `token_count` and the citation's `start`, `end` and pages are those of what is shown. A result that lies
    in what a better one shows is left out, and what two would show is shown by the better one.
    """

    def __init__(
        self, retriever: Retriever, *, neighbours: int | None = None, section: bool = False, max_tokens: int = 800
    ) -> None:
        """Either `section`: the section in which a passage begins, from its heading to the next; or `neighbours`: so
        many chunks before and after (1 to 20). Of more than `max_tokens` words and marks the nearest parts are shown. A
        passage that is longer itself stays as it is.

        Raises:
            InvalidArgument: names the argument that is missing, out of bounds or of the wrong kind.
        """
        super().__init__(database_of(require_retriever(retriever, "retriever")))
        if self.database is None:
            raise InvalidArgument("retriever must have a database, where the texts of its sources are", "retriever")
        if not isinstance(section, bool) or section == (neighbours is not None):
            raise InvalidArgument("either section is True, or neighbours is given", "neighbours")
        self._retriever = retriever
        self._neighbours = None if neighbours is None else check_whole(neighbours, "neighbours", MAX_NEIGHBOURS)
        self._max_tokens = check_whole(max_tokens, "max_tokens", MAX_EXPANDED_TOKENS)

    def steps(
        self, query: str, scope: RetrievalScope, top_k: int = 8, filters: Mapping[str, Any] | None = None
    ) -> Steps[Retrieval]:
        """See `Retriever.steps`. The inner retriever is asked for twice as many, since some become one. Where the
        texts cannot be read the passages stay as they are."""
        query, top_k, filters = checked(query, scope, top_k, filters)
        found = yield from steps_of(self._retriever, query, scope, min(MAX_TOP_K, 2 * top_k), filters)
        started = time.perf_counter()
        spans = {place: span for place, one in enumerate(found) if (span := _span(one)) is not None}
        reason = None
        around: dict[int, Surroundings] = {}
        if spans:
            try:
                around = yield from self._around(spans, scope)
            except RagError as error:
                reason = f"not expanded ({error}); passages are as they were found"
        shown = _shown(found.results, spans, around, self._max_tokens)
        took = 1000 * (time.perf_counter() - started)
        told = {
            "stage": "expanded",
            "by": "section" if self._neighbours is None else "neighbours",
            "expanded": sum(one.content != result.content for result, one in shown),
            "merged": len(found) - len(shown),
        }
        return replace(
            found,
            results=tuple(one for _, one in shown[:top_k]),
            timings_ms={**found.timings_ms, "expand": took, "total": found.timings_ms.get("total", 0.0) + took},
            degraded=joined(found.degraded, reason),
            trace=(*found.trace, told),
        )

    def _around(self, spans: Mapping[int, Span], scope: RetrievalScope) -> Steps[dict[int, Surroundings]]:
        """What stands around the passages of these places. Which parts each text has is read once, however many
        passages are of it; then what the windows hold."""
        texts = list(dict.fromkeys(span.text for span in spans.values()))
        profiles = [scope.profile_id, *([scope.shared.profile_id] if scope.shared else [])]
        statement = blocks_of(texts) if self._neighbours is None else chunks_of(texts, profiles)
        (rows,) = yield from ask(scope.settings, statement, stage="expanded")
        parts: dict[Text, Parts] = {(row.source_id, row.version): row for row in rows}
        near: dict[int, list[int]] = {}
        for place, span in spans.items():
            if span.text in parts:
                near[place] = self._near(span, parts[span.text], len(spans))
        found = {n: _bounds(spans[n], parts[spans[n].text], some) for n, some in near.items() if some}
        if not found:
            return {}
        (contents,) = yield from ask(scope.settings, texts_of(list(found.values())), stage="expanded")
        around = {}
        for row in contents:
            place = list(found)[row.number - 1]
            around[place] = _surroundings(row.content, found[place], parts[found[place].text], near[place])
        return around

    def _near(self, span: Span, parts: Parts, passages: int) -> list[int]:
        """Which parts of the text stand around a passage, one of so many."""
        at = bisect_left(parts.starts, span.start)
        if self._neighbours is not None:
            after = islice((n for n in range(at, len(parts.ends)) if parts.ends[n] > span.end), self._neighbours)
            return [*range(max(0, at - self._neighbours), at), *after]
        own = bisect_right(parts.starts, span.start) - 1  # the block in which the passage begins
        if own < 0 or parts.sections is None:
            return []
        section = parts.sections[own]
        most = min(_MOST_PARTS // passages, self._max_tokens)  # each has a token at least
        reach = min(_MOST_CHARS // passages, _CHARS * self._max_tokens)
        least, furthest = span.start - reach, span.end + reach
        first = max(bisect_left(parts.sections, section), bisect_left(parts.starts, least), own - most)
        last = min(bisect_right(parts.sections, section), bisect_left(parts.starts, span.end) + most)
        return [n for n in range(first, last) if parts.ends[n] <= furthest]


@dataclass(frozen=True)
class Surroundings:
    """The text around a passage, from the code point `first` on, and the parts of which some may be shown: their
    offsets in the source's text and, where known, their first and last pages."""

    first: int
    text: str
    starts: list[int]
    ends: list[int]
    pages: list[int | None]
    last_pages: list[int | None]


def _bounds(span: Span, parts: Parts, near: Sequence[int]) -> Span:
    """From where to where a passage and the parts around it go."""
    first, last = min(parts.starts[n] for n in near), max(parts.ends[n] for n in near)
    return replace(span, start=min(span.start, first), end=max(span.end, last))


def _surroundings(text: str, window: Span, parts: Parts, near: Sequence[int]) -> Surroundings:
    lists: tuple[list[Any], ...] = (parts.starts, parts.ends, parts.pages, parts.last_pages)
    return Surroundings(window.start, text, *([some[n] for n in near] for some in lists))


def _span(result: RetrievalResult) -> Span | None:
    """Where a result stands in its source; None where its citation does not say."""
    start, end, version = (result.citation.get(name) for name in ("start", "end", "version"))
    if type(start) is not int or type(end) is not int or not isinstance(version, str) or not 0 <= start < end < 2**31:
        return None
    return Span(result.source_id, version, start, end)


Interval = tuple[int, int]


def _shown(
    results: Sequence[RetrievalResult],
    spans: Mapping[int, Span],
    around: Mapping[int, Surroundings],
    max_tokens: int,
) -> list[tuple[RetrievalResult, RetrievalResult]]:
    """Each result that adds something to those before it, and what is shown of it."""
    taken: dict[tuple[UUID, str], list[Interval]] = {}
    shown: list[tuple[RetrievalResult, RetrievalResult]] = []
    for place, result in enumerate(results):
        if (span := spans.get(place)) is None:
            shown.append((result, result))
            continue
        intervals = taken.setdefault((span.source_id, span.version), [])
        text = around.get(place)
        if text is None or _part(text, span.start, span.end) != result.content:
            # Nothing more of it is known, or it is no part of the text: a picture's description.
            if not any(first <= span.start and span.end <= last for first, last in intervals):
                shown.append((result, result))
            continue
        window = _rest(_window(text, span, max_tokens), span, intervals)
        window = _trimmed(text, window) if window is not None else None
        if window is not None:
            intervals.append(window)
            shown.append((result, _with(result, text, span, window)))
    return shown


def _part(text: Surroundings, start: int, end: int) -> str:
    return text.text[start - text.first : end - text.first]


def _window(text: Surroundings, span: Span, max_tokens: int) -> Interval:
    """The passage and as much around it as may be shown: everything, or else the nearest parts in turn."""
    tokens = _Tokens(text)
    first, last = min([span.start, *text.starts]), max([span.end, *text.ends])
    if tokens.within(first, last) <= max_tokens:
        return first, last
    first, last = span.start, span.end
    # What a part is too much for, those beyond it are too much for as well.
    before = sorted({start for start in text.starts if start < first})
    after = sorted({end for end in text.ends if end > last}, reverse=True)
    while before or after:
        if after and tokens.within(first, after[-1]) <= max_tokens:
            last = after.pop()
        else:
            after = []
        if before and tokens.within(before[-1], last) <= max_tokens:
            first = before.pop()
        else:
            before = []
    return first, last


class _Tokens:
    """Where the words and marks of a text are, so that those of any part of it are counted without reading it again."""

    def __init__(self, text: Surroundings) -> None:
        places = token_places(text.text)
        self._starts = [text.first + start for start, _ in places]
        self._ends = [text.first + end for _, end in places]

    def within(self, first: int, last: int) -> int:
        """How many `count_tokens` counts between two places; a word that they part is one."""
        return bisect_left(self._starts, last) - bisect_right(self._ends, first)


def _rest(window: Interval, span: Span, taken: Sequence[Interval]) -> Interval | None:
    """What of a window nobody shows yet; of several pieces that with most of the passage; None where all of the passage
    is shown."""
    pieces = [window]
    for first, last in taken:
        cut = [((start, min(end, first)), (max(start, last), end)) for start, end in pieces]
        pieces = sorted({piece for both in cut for piece in both if piece[0] < piece[1]})
    best = max(pieces, key=lambda piece: min(piece[1], span.end) - max(piece[0], span.start), default=None)
    return None if best is None or min(best[1], span.end) <= max(best[0], span.start) else best


def _trimmed(text: Surroundings, window: Interval) -> Interval | None:
    part = _part(text, *window)
    if not part.strip():
        return None
    return window[0] + len(part) - len(part.lstrip()), window[1] - (len(part) - len(part.rstrip()))


def _with(result: RetrievalResult, text: Surroundings, span: Span, window: Interval) -> RetrievalResult:
    """The result as it is shown. One that is not more than it was stays as it is, blanks at its ends included."""
    first, last = window
    content = _part(text, first, last)
    if content == result.content.strip():
        return result
    citation = {**result.citation, "start": first, "end": last}
    within = [n for n, start in enumerate(text.starts) if start < last and text.ends[n] > first]
    pages = [result.citation.get("page"), *(text.pages[n] for n in within)]
    last_pages = [result.citation.get("page_end"), *(text.last_pages[n] for n in within)]
    known, known_last = ([page for page in some if page is not None] for some in (pages, last_pages))
    if known:
        citation |= {"page": min(known), "page_end": max(known_last or known)}
    return replace(result, content=content, token_count=count_tokens(content), citation=citation)
