"""What tests of observing share: somebody who listens to searches, and one world that is searched."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from rag_assets.observing.switches import switch
from rag_assets.observing.telemetry import use
from rag_assets.settings import Settings

FILES = {f"{number}.txt": f"The warranty of part {number} is {number} years and a day. " * 4 for number in range(12)}
SENTINEL = "zanzibar-sentinel"


class Listener:
    """An SDK whose exporters keep everything in memory."""

    def __init__(self) -> None:
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.meters = MeterProvider([self.reader], shutdown_on_exit=False)

    @property
    def spans(self) -> list[ReadableSpan]:
        """All that have ended, in that order."""
        return list(self.exporter.get_finished_spans())

    def points(self, name: str) -> list[Any]:
        """The points of a metric, each with its `attributes`."""
        data = self.reader.get_metrics_data()
        scopes = [scope for one in data.resource_metrics for scope in one.scope_metrics] if data else []
        return [
            point for scope in scopes for one in scope.metrics if one.name == name for point in one.data.data_points
        ]

    def total(self, name: str, **labels: Any) -> float:
        """The sum of a counter, or the count of a histogram, over the points with these labels (`_` for `.`)."""
        found = 0.0
        for point in self.points(name):
            given = {key.replace(".", "_"): value for key, value in point.attributes.items()}
            if all(given.get(key) == value for key, value in labels.items()):
                found += getattr(point, "value", None) or getattr(point, "count", 0)
        return found


@contextmanager
def listening(**settings: Any) -> Iterator[Listener]:
    """Somebody listens, with these settings."""
    listener = Listener()
    use(listener.tracers, listener.meters)
    switch(Settings(**settings))
    try:
        yield listener
    finally:
        use(None, None)
        switch(None)
        listener.meters.shutdown()
        listener.tracers.shutdown()
