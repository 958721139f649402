"""Where spans and metrics go: to the SDK that `start` has set up, else to the one that the application has."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.metrics import Counter, Histogram, Meter, MeterProvider
    from opentelemetry.trace import Tracer, TracerProvider

_NAME = "rag_assets"
# Seconds: a cached answer takes a millisecond, an agentic one half a minute.
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_SIMILARITIES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)

Labels = Mapping[str, str | bool]


@dataclass(frozen=True)
class Instruments:
    """What is counted and measured, and the tracer."""

    tracer: Tracer
    searches: Counter
    duration: Histogram
    stage_duration: Histogram
    no_hit: Counter
    errors: Counter
    results: Counter
    top_similarity: Histogram
    cache: Counter
    answers: Counter
    citations: Counter
    feedback: Counter
    query_log: Counter


class _Current:
    """Of `start`, and of what the application has set up."""

    ours: Instruments | None = None
    theirs: Instruments | None = None


def instruments() -> Instruments | None:
    """None while nobody can listen: an application that has set up an SDK has imported OpenTelemetry's API, and so it
    is not imported where that was not."""
    if _Current.ours is not None or _Current.theirs is not None:
        return _Current.ours or _Current.theirs
    if "opentelemetry.trace" not in sys.modules and "opentelemetry.metrics" not in sys.modules:
        return None
    _Current.theirs = _of_application()
    return _Current.theirs


def _of_application() -> Instruments | None:
    from opentelemetry import metrics, trace  # 75 ms of each `rag search`, where nobody listens

    # Until an SDK is set up, the API has providers of its own, which do nothing.
    providers = (trace.get_tracer_provider(), metrics.get_meter_provider())
    if all(type(one).__module__.startswith(("opentelemetry.trace", "opentelemetry.metrics")) for one in providers):
        return None
    return made(trace.get_tracer(_NAME), metrics.get_meter(_NAME))


def use(tracers: TracerProvider | None, meters: MeterProvider | None) -> None:
    """Send what is told to these from now on; None: to the application's again."""
    given = tracers is not None and meters is not None
    _Current.ours = made(tracers.get_tracer(_NAME), meters.get_meter(_NAME)) if given else None  # type: ignore[union-attr]


def made(tracer: Tracer, meter: Meter) -> Instruments:
    """The instruments, by these names and units (of UCUM)."""

    def counter(name: str, unit: str, meaning: str) -> Counter:
        return meter.create_counter(f"rag.{name}", unit, meaning)

    def histogram(name: str, unit: str, meaning: str, bounds: tuple[float, ...]) -> Histogram:
        return meter.create_histogram(f"rag.{name}", unit, meaning, explicit_bucket_boundaries_advisory=bounds)

    return Instruments(
        tracer,
        counter("searches", "{search}", "Searches that were answered, by rung and whether they were degraded"),
        histogram("search.duration", "s", "How long searches took, those that failed too", _SECONDS),
        histogram("search.stage.duration", "s", "How long the stages of searches took", _SECONDS),
        counter("search.no_hit", "{search}", "Searches that were answered with nothing"),
        counter("search.errors", "{error}", "Searches that failed, by the type of the error"),
        counter("search.results", "{result}", "Results, by the space that their sources are of"),
        histogram("search.top_similarity", "1", "The best similarity by meaning of a search", _SIMILARITIES),
        counter("cache.requests", "{request}", "What caches were asked for, and whether they had it"),
        counter("answers", "{answer}", "Answers that the application reports, and whether they cite anything"),
        counter("answer.citations", "{citation}", "Passages that such answers cite"),
        counter("feedback", "{verdict}", "What users say of passages"),
        counter("query_log.entries", "{entry}", "Entries of the query log, written or dropped"),
    )
