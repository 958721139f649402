"""OpenTelemetry set up for a process of ours, such as `rag serve`. An application sets up its own."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder

from rag_assets.errors import UsageError
from rag_assets.observing.query_log import QUERY_LOG
from rag_assets.observing.switches import switch
from rag_assets.observing.telemetry import use
from rag_assets.settings import Settings, load_settings, read_variable

_STOP_MS = 5000


class Telemetry:
    """What `start` has set up; to be stopped when the process ends. Usable as a context manager."""

    def __init__(self, tracers: TracerProvider, meters: MeterProvider, registry: CollectorRegistry) -> None:
        self.tracers, self.meters = tracers, meters
        self._registry = registry

    def prometheus(self, accept: str = "") -> tuple[bytes, str]:
        """All metrics as a scrape wants them, and the content type; `accept` is that header of its request."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type

    def stop(self) -> None:
        """Write and send what waits, for at most five seconds each, and send nothing from now on. Safe to repeat."""
        QUERY_LOG.flush(_STOP_MS / 1000)
        use(None, None)
        switch(None)
        self.tracers.force_flush(_STOP_MS)
        self.tracers.shutdown()
        self.meters.shutdown(_STOP_MS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()


def start(service_name: str, settings: Settings | None = None) -> Telemetry:
    """Collect metrics for `Telemetry.prometheus`, and send them and spans to the collector that
    `OTEL_EXPORTER_OTLP_ENDPOINT` names, if it does. The newest one that was started holds for the process.

    `OTEL_SERVICE_NAME`, sampling, headers and the rest are read by the SDK from its own variables.

    Raises:
        UsageError: a setting is wrong, or a collector is named and the package that sends to it is missing.
    """
    settings = settings or load_settings()
    resource = Resource.create({SERVICE_NAME: read_variable("OTEL_SERVICE_NAME") or service_name})
    registry = CollectorRegistry()
    readers: list[MetricReader] = [PrometheusMetricReader(registry=registry)]
    exporter: SpanExporter | None = None
    if settings.otlp_endpoint is not None:
        exporter, reader = _collector(settings.otlp_endpoint)
        readers.append(reader)
    ProcessCollector(registry=registry)
    # Spans that go nowhere are not recorded, which halves what a search pays for being observed.
    tracers = TracerProvider(None if exporter else ALWAYS_OFF, resource, shutdown_on_exit=False)
    if exporter is not None:
        tracers.add_span_processor(BatchSpanProcessor(exporter))
    meters = MeterProvider(readers, resource, shutdown_on_exit=False)
    use(tracers, meters)
    switch(settings)
    return Telemetry(tracers, meters, registry)


def _collector(endpoint: str) -> tuple[SpanExporter, MetricReader]:
    try:  # of an extra
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        raise UsageError(
            "OTEL_EXPORTER_OTLP_ENDPOINT is set, and the package that sends to it is not installed: "
            "pip install opentelemetry-exporter-otlp-proto-http"
        ) from error
    base = endpoint.rstrip("/")
    traces = read_variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or f"{base}/v1/traces"
    metrics = read_variable("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT") or f"{base}/v1/metrics"
    return OTLPSpanExporter(traces), PeriodicExportingMetricReader(OTLPMetricExporter(metrics))
