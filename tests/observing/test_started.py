"""What a process of ours sets up: metrics that Prometheus reads and the dashboard shows, and what a collector gets."""

from __future__ import annotations

import builtins
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client.parser import text_string_to_metric_families

import rag_assets as rag
from rag_assets.errors import UsageError
from rag_assets.observing.query_log import QUERY_LOG
from rag_assets.observing.started import start
from rag_assets.observing.telemetry import instruments
from rag_assets.settings import Settings
from rag_assets.store.database import Database
from tests.support.imports import HOUSE
from tests.support.observing_world import FILES, SENTINEL
from tests.support.worlds import ingested

DASHBOARD = HOUSE / "docs" / "observability" / "grafana.json"
ALERTS = HOUSE / "docs" / "observability" / "alerts.yml"
# Of an expression the names of metrics: what stands before a brace or a range.
_METRIC = re.compile(r"\brag_[a-z_]+(?=[{\[])")


@pytest.fixture(scope="module")
def world(module_database: Database, tmp_path_factory: pytest.TempPathFactory) -> Database:
    ingested(module_database, tmp_path_factory.mktemp("root"), "acme", FILES)
    return module_database


def traffic(world: Database) -> None:
    """One of everything that is counted."""
    scope = rag.open_scope(world, "acme", "support")
    retriever = rag.CachedRetriever(rag.HybridRetriever(world))
    found = retriever.search(f"warranty {SENTINEL}", scope)
    retriever.search(f"warranty {SENTINEL}", scope)
    retriever.search("x", scope, filters={"source_names": ["nowhere"]})
    with pytest.raises(rag.InvalidArgument):
        retriever.search("x", scope, 0)
    assert found.query_id is not None
    rag.observe_answer(world, scope, found.query_id, [found[0]])
    assert rag.record_feedback(world, scope, found.query_id, found[0].chunk_id, True)
    assert QUERY_LOG.flush(20)


def exported(text: bytes) -> set[str]:
    return {sample.name for one in text_string_to_metric_families(text.decode()) for sample in one.samples}


def test_every_metric_of_the_dashboard_and_the_alerts_is_exported_by_real_searches(world: Database) -> None:
    with start("test", Settings(query_log=True)) as telemetry:
        traffic(world)
        text, content_type = telemetry.prometheus()
        openmetrics, other_type = telemetry.prometheus("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("text/plain")
    assert other_type.startswith("application/openmetrics-text")
    assert openmetrics.endswith(b"# EOF\n")
    board = json.loads(DASHBOARD.read_text())
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    expressions += [one["expr"] for group in yaml.safe_load(ALERTS.read_text())["groups"] for one in group["rules"]]
    named = {name for expression in expressions for name in _METRIC.findall(expression)}
    assert len(named) >= 11
    assert named <= exported(text)
    labels = {name for one in text_string_to_metric_families(text.decode()) for s in one.samples for name in s.labels}
    asked = {name for text_ in expressions for name in re.findall(r"\b(rag_\w+|error_type)(?==~|=\"|!~)", text_)}
    asked |= {name for text_ in expressions for by in re.findall(r"by \(([^)]*)\)", text_) for name in by.split(",")}
    assert {name.strip() for name in asked} <= labels
    assert SENTINEL.encode() not in text


def test_no_label_but_those_that_are_said_is_in_a_metric(world: Database) -> None:
    with start("test", Settings(metrics_tenants=False)) as telemetry:
        rag.HybridRetriever(world).search("warranty", rag.open_scope(world, "acme", "support"))
        text, _ = telemetry.prometheus()
    assert b"rag_searches_total" in text
    assert b"acme" not in text
    assert b"support" not in text


def test_it_may_be_started_again_and_nothing_is_told_after_it_has_stopped(world: Database) -> None:
    scope = rag.open_scope(world, "acme", "support")
    for _ in range(2):
        with start("test", Settings()) as telemetry:
            rag.HybridRetriever(world).search("warranty", scope)
            text, _ = telemetry.prometheus()
            assert [line.rpartition(b" ")[2] for line in text.splitlines() if line.startswith(b"rag_searches_t")] == [
                b"1.0"
            ]
        telemetry.stop()
        assert telemetry.meters is not None
        rag.HybridRetriever(world).search("warranty", scope)


class Collector(ThreadingHTTPServer):
    """A collector of OpenTelemetry's that keeps what it is sent."""

    def __init__(self) -> None:
        self.got: dict[str, list[bytes]] = {}
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.setdefault(self.path, []).append(body)
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    server = Collector()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_collector_gets_spans_and_metrics_by_the_end_and_no_query(world: Database, collector: Collector) -> None:
    with start("my-service", Settings(otlp_endpoint=collector.url)):
        found = rag.HybridRetriever(world).search(f"warranty {SENTINEL}", rag.open_scope(world, "acme", "support"))
    spans = [
        (resource, span)
        for body in collector.got["/v1/traces"]
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    assert [span.name for _, span in spans] == ["embed", "search", "rag.search"]
    told = {one.key: one.value.string_value for one in spans[-1][1].attributes}
    assert told["rag.query_id"] == str(found.query_id)
    service = {one.key: one.value.string_value for one in spans[0][0].resource.attributes}
    assert service["service.name"] == "my-service"
    names = {
        metric.name
        for body in collector.got["/v1/metrics"]
        for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    assert {"rag.searches", "rag.search.duration", "rag.search.stage.duration", "rag.search.results"} <= names
    assert SENTINEL.encode() not in b"".join(body for bodies in collector.got.values() for body in bodies)


def test_a_collector_that_nothing_can_send_to_is_an_error_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("opentelemetry.exporter.otlp"):
            raise ImportError(name)
        return imported(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    before = instruments()
    with pytest.raises(UsageError, match="pip install opentelemetry-exporter-otlp-proto-http"):
        start("test", Settings(otlp_endpoint="http://127.0.0.1:1"))
    assert instruments() is before


def test_the_dashboard_has_its_variables_and_no_two_panels_in_one_place() -> None:
    board = json.loads(Path(DASHBOARD).read_text())
    assert [one["name"] for one in board["templating"]["list"]] == ["datasource", "tenant", "bot"]
    places = [(one["gridPos"]["x"], one["gridPos"]["y"]) for one in board["panels"]]
    assert len(set(places)) == len(places) == 12
