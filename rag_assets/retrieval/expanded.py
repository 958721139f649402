"""Passages with what stands around them: small chunks are found best, and whole sections answer best."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from rag_assets.documents.words import count_tokens
from rag_assets.errors import InvalidArgument, RagError
from rag_assets.retrieval.arguments import MAX_TOP_K, check_whole
from rag_assets.retrieval.protocol import Retriever, SteppedRetriever, checked, database_of, require_retriever, steps_of
from rag_assets.retrieval.results import Retrieval, RetrievalResult, joined
from rag_assets.retrieval.scope import RetrievalScope
from rag_assets.retrieval.steps import Steps, ask
from rag_assets.store.surroundings import Span, Surroundings, neighbours_around, sections_around

MAX_NEIGHBOURS = 20
MAX_EXPANDED_TOKENS = 20_000
_CHARS = 8  # of a token, at most: how far around a passage text is read


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
                (rows,) = yield from ask(scope.settings, self._statement(list(spans.values()), scope))
                around = {list(spans)[row.number - 1]: row for row in rows}
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

    def _statement(self, spans: Sequence[Span], scope: RetrievalScope) -> Any:
        if self._neighbours is None:
            return sections_around(spans, _CHARS * self._max_tokens)
        profiles = [scope.profile_id, *([scope.shared.profile_id] if scope.shared else [])]
        return neighbours_around(spans, self._neighbours, profiles)


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

    def fits(first: int, last: int) -> bool:
        return count_tokens(_part(text, first, last)) <= max_tokens

    first, last = min([span.start, *text.starts]), max([span.end, *text.ends])
    if fits(first, last):
        return first, last
    first, last = span.start, span.end
    before = sorted((start for start in text.starts if start < first), reverse=True)
    after = sorted(end for end in text.ends if end > last)
    while before or after:
        if after:
            last = after.pop(0) if fits(first, after[0]) else last
            after = [end for end in after if end > last and fits(first, end)]
        if before:
            first = before.pop(0) if fits(before[0], last) else first
            before = [start for start in before if start < first and fits(start, last)]
    return first, last


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
