"""What a search tells: to spans, metrics, the log of searches and the query log."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC
from typing import TYPE_CHECKING, Any

from rag_assets.observing.masks import masked
from rag_assets.observing.query_log import QUERY_LOG
from rag_assets.observing.records import Asked, Told
from rag_assets.observing.switches import Switches, switches
from rag_assets.observing.telemetry import Instruments, Labels, instruments

if TYPE_CHECKING:
    from opentelemetry.trace import Span

SEARCH_LOG = "rag_assets.search"
_log = logging.getLogger(__name__)
# Names of other stages, which retrievers of an application may have, are one in metrics: each name is a series.
_STAGES = frozenset(
    ("embed", "search", "rerank", "cache", "rewrite", "agentic", "graph", "dual", "diverse", "expanded", "ladder")
)
# While a search is traced: what its stages are told to.
_TRACED: ContextVar[Instruments | None] = ContextVar("traced", default=None)


def is_heard() -> bool:
    """Whether anybody is told of searches."""
    return switches().any_log or instruments() is not None


class Open:
    """A search that is under way: its span, where there is one."""

    def __init__(self, span: Span | None) -> None:
        self._span = span

    def told(self, asked: Asked, told: Told) -> None:
        """Tell everybody what became of it. It raises nothing: who searches is not to suffer from who listens."""
        try:
            on, tools = switches(), instruments()
            if self._span is not None:
                _describe(self._span, asked, told, on)
            if tools is not None:
                _measure(tools, asked, told, on)
            if on.search_log:
                log_line(_line(asked, told, on))
            if on.query_log:
                QUERY_LOG.search(asked, told)
        except Exception:  # of an exporter or a handler of somebody else's
            _log.exception("a search could not be told of")


@contextmanager
def opened() -> Iterator[Open]:
    """The span of a search, in which its stages and what other libraries do have theirs."""
    tools = instruments()
    if tools is None:
        yield Open(None)
        return
    # An error's text may repeat the query: its type is told in the end, and no more.
    with tools.tracer.start_as_current_span(
        "rag.search", record_exception=False, set_status_on_exception=False
    ) as span:
        token = _TRACED.set(tools if span.is_recording() else None)
        try:
            yield Open(span if span.is_recording() else None)
        finally:
            _TRACED.reset(token)


def is_traced() -> bool:
    """Whether stages of this search have spans."""
    return _TRACED.get() is not None


@contextmanager
def stage(name: str, attributes: Mapping[str, Any]) -> Iterator[None]:
    """The span of a stage of the search that is under way here."""
    tools = _TRACED.get()
    if tools is None:
        yield
        return
    with tools.tracer.start_as_current_span(
        name, attributes=dict(attributes), record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield
        except BaseException as error:
            _failed(span, type(error).__name__)
            raise


def _failed(span: Span, error: str) -> None:
    from opentelemetry.trace import Status, StatusCode  # loaded long since: there is a span

    span.set_attribute("error.type", error)
    span.set_status(Status(StatusCode.ERROR, error))


def _describe(span: Span, asked: Asked, told: Told, on: Switches) -> None:
    """Put into the span what is known of the search."""
    given: dict[str, Any] = {
        "gen_ai.operation.name": "retrieval",
        "gen_ai.usage.input_tokens": told.tokens,
        "rag.query_id": str(asked.query_id),
        "rag.tenant": asked.tenant,
        "rag.bot": asked.bot,
        "rag.profile": asked.profile,
        "rag.retriever": asked.retriever,
        "rag.mode": asked.mode,
        "rag.top_k": asked.top_k,
        "rag.rung": told.rung,
        "rag.degraded": told.degraded,
        "rag.hits": len(told.hits),
        "rag.hits.by_meaning": sum(hit.by_meaning for hit in told.hits),
        "rag.hits.by_words": sum(hit.by_words for hit in told.hits),
        "rag.top_similarity": told.top_similarity,
        "gen_ai.retrieval.query.text": masked(asked.query, on.mask) if on.query_texts else None,
    }
    given |= {f"rag.stage.{name}.ms": round(ms, 3) for name, ms in told.timings_ms.items()}
    span.set_attributes({name: value for name, value in given.items() if value is not None})
    if told.error is not None:
        _failed(span, told.error)


def whose(tenant: str | None, bot: str | None, on: Switches) -> dict[str, str | bool]:
    """The labels of tenant and bot, where metrics have them."""
    if not on.tenants_in_metrics:
        return {}
    return {"rag.tenant": tenant or "", "rag.bot": bot or ""}


def _measure(tools: Instruments, asked: Asked, told: Told, on: Switches) -> None:
    labels: Labels = whose(asked.tenant, asked.bot, on)
    failure = {"error.type": told.error} if told.error is not None else {}
    tools.duration.record(told.timings_ms["total"] / 1000, {**labels, **failure})
    if told.error is not None:
        tools.errors.add(1, {**labels, **failure})
        return
    answered = {"rag.profile": asked.profile or "", "rag.retriever": asked.retriever}
    answered |= {"rag.rung": told.rung or ""}
    tools.searches.add(1, {**labels, **answered, "rag.degraded": told.degraded})
    stages: dict[str, float] = {}
    for name, ms in told.timings_ms.items():
        if name != "total" and ms:  # what a cache has answered was not embedded
            known = name if name in _STAGES else "other"
            stages[known] = stages.get(known, 0.0) + ms
    for name, ms in stages.items():
        tools.stage_duration.record(ms / 1000, {**labels, "rag.stage": name})
    if not told.hits:
        tools.no_hit.add(1, labels)
    for space in {hit.space for hit in told.hits}:
        tools.results.add(sum(hit.space == space for hit in told.hits), {**labels, "rag.space": space})
    if told.top_similarity is not None:
        tools.top_similarity.record(max(0.0, told.top_similarity), labels)  # a histogram takes nothing below 0
    for cache, counts in told.caches.items():
        for outcome, count in zip(("hit", "miss"), counts, strict=True):
            if count:
                tools.cache.add(count, {**labels, "rag.cache": cache, "rag.cache.outcome": outcome})


def _line(asked: Asked, told: Told, on: Switches) -> dict[str, Any]:
    return {
        "event": "search",
        "time": asked.asked_at.astimezone(UTC).isoformat(timespec="milliseconds"),
        "query_id": str(asked.query_id),
        "tenant": asked.tenant,
        "bot": asked.bot,
        "profile": asked.profile,
        "retriever": asked.retriever,
        "mode": asked.mode,
        "rung": told.rung,
        "degraded": told.degraded,
        "hits": len(told.hits),
        "top_similarity": None if told.top_similarity is None else round(told.top_similarity, 6),
        "error": told.error,
        "timings_ms": {name: round(ms, 3) for name, ms in told.timings_ms.items()},
        **({"query": masked(asked.query, on.mask)} if on.query_texts else {}),
        **_trace_ids(),
    }


def _trace_ids() -> dict[str, str]:
    """By which a line is found from a trace, and the other way round."""
    trace = sys.modules.get("opentelemetry.trace")
    context = trace.get_current_span().get_span_context() if trace is not None else None
    if context is None or not context.is_valid:
        return {}
    return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}


def log_line(line: Mapping[str, Any]) -> None:
    """A line of JSON in the log of searches; on stderr where nobody has said where that goes."""
    logger = logging.getLogger(SEARCH_LOG)
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(message)s"))
        logger.addHandler(handler)
    # ASCII alone: what a query holds may end a line for one collector, and command a terminal.
    logger.info(json.dumps(line, default=str))
