"""What a search tells of itself: one span with its stages, metrics, a line in a log; and no query in any of them."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from opentelemetry.trace import SpanKind, StatusCode

import rag_assets as rag
from rag_assets.embedding.protocol import Caller
from rag_assets.observing.records import new_query_id
from rag_assets.retrieval.protocol import SteppedRetriever, steps_of
from rag_assets.retrieval.rerankers.protocol import Scores
from rag_assets.retrieval.results import Retrieval
from rag_assets.retrieval.scope import RetrievalScope
from rag_assets.store.database import Database
from tests.support.observing_world import FILES, SENTINEL, Listener, listening
from tests.support.retrieval_world import Face, awaited, blocking
from tests.support.worlds import ingested

faces = pytest.mark.parametrize("face", [blocking, awaited])


@pytest.fixture(scope="module")
def world(module_database: Database, tmp_path_factory: pytest.TempPathFactory) -> Database:
    ingested(module_database, tmp_path_factory.mktemp("root"), "acme", FILES)
    return module_database


@pytest.fixture
def scope(world: Database) -> RetrievalScope:
    return rag.open_scope(world, "acme", "support")


@pytest.fixture
def heard() -> Iterator[Listener]:
    with listening() as listener:
        yield listener


class Backwards:
    """A reranker for which the last candidate is the best."""

    name = "backwards"

    def score(self, query: str, texts: list[str], caller: Caller) -> Scores:
        return Scores([(index, (index + 1) / (len(texts) + 1)) for index in range(len(texts))])


@faces
def test_a_search_is_one_span_with_its_stages_as_they_ran(
    world: Database, scope: RetrievalScope, heard: Listener, face: Face
) -> None:
    found = face(rag.RerankedRetriever(rag.HybridRetriever(world), Backwards()), "warranty of part 7", scope, 3)
    *stages, whole = heard.spans
    assert [span.name for span in stages] == ["embed", "search", "rerank"]
    assert whole.name == "rag.search"
    for before, after in itertools.pairwise(stages):
        assert before.end_time <= after.start_time
    assert all(span.parent.span_id == whole.context.span_id for span in stages)
    told = dict(whole.attributes or {})
    assert told["rag.query_id"] == str(found.query_id)
    assert [told[f"rag.{name}"] for name in ("tenant", "bot", "profile", "retriever")] == [
        "acme",
        "support",
        "hash-64",
        "reranked",
    ]
    assert (told["rag.hits"], told["rag.rung"], told["rag.degraded"]) == (len(found), "full", False)
    assert told["rag.top_similarity"] == max(one.dense_score or -1 for one in found)
    assert (stages[0].attributes or {})["gen_ai.request.model"] == "hash"
    assert (stages[1].attributes or {})["db.system.name"] == "postgresql"
    assert (stages[2].attributes or {})["gen_ai.request.model"] == "backwards"
    assert whole.kind is SpanKind.INTERNAL
    assert whole.status.status_code is StatusCode.UNSET


@faces
def test_whatever_is_in_a_retriever_counts_once(
    world: Database, scope: RetrievalScope, heard: Listener, face: Face
) -> None:
    hybrid = rag.HybridRetriever(world)
    nested = rag.LadderRetriever(rag.DiverseRetriever(rag.DualRetriever(hybrid, rag.LexicalRetriever(world))))
    face(nested, "warranty", scope)
    assert heard.total("rag.searches") == heard.total("rag.search.duration") == 1
    assert [span.name for span in heard.spans].count("rag.search") == 1


class Foreign:
    """A retriever of somebody else's, which calls one of ours by its face."""

    def __init__(self, inner: rag.Retriever) -> None:
        self.inner = inner

    def search(self, *arguments: Any) -> Retrieval:
        return self.inner.search(*arguments)

    async def asearch(self, *arguments: Any) -> Retrieval:
        return await self.inner.asearch(*arguments)


class Around(SteppedRetriever):
    def __init__(self, inner: rag.Retriever) -> None:
        super().__init__(None)
        self.inner = inner

    def steps(self, query: str, scope: RetrievalScope, top_k: int = 8, filters: Mapping[str, Any] | None = None) -> Any:
        return steps_of(self.inner, query, scope, top_k, filters)


def test_a_search_that_another_one_calls_by_its_face_is_within_that(
    world: Database, scope: RetrievalScope, heard: Listener
) -> None:
    found = Around(Foreign(rag.HybridRetriever(world))).search("warranty", scope)
    assert found.query_id is not None
    assert heard.total("rag.searches") == heard.total("rag.searches", rag_retriever="around") == 1


def test_searches_side_by_side_have_spans_and_ids_of_their_own(
    world: Database, scope: RetrievalScope, heard: Listener
) -> None:
    retriever = rag.HybridRetriever(world)

    async def search() -> list[Retrieval]:
        try:
            return await asyncio.gather(*(retriever.asearch(f"part {n}", scope) for n in range(10)))
        finally:
            await world.aclose()

    found = asyncio.run(search())
    wholes = [span for span in heard.spans if span.name == "rag.search"]
    assert {(span.attributes or {})["rag.query_id"] for span in wholes} == {str(one.query_id) for one in found}
    assert len({span.context.trace_id for span in wholes}) == 10
    for whole in wholes:
        parts = [span.name for span in heard.spans if span.parent and span.parent.span_id == whole.context.span_id]
        assert parts == ["embed", "search"]


def test_metrics_say_what_was_found_from_where_and_what_was_not(
    world: Database, scope: RetrievalScope, heard: Listener
) -> None:
    retriever = rag.HybridRetriever(world)
    for _ in range(3):
        retriever.search("warranty", scope, 5)
    retriever.search("warranty", scope, 5, {"source_names": ["nowhere.txt"]})
    mine = {"rag_tenant": "acme", "rag_bot": "support"}
    assert heard.total("rag.searches", rag_rung="full", rag_profile="hash-64", rag_retriever="hybrid", **mine) == 4
    assert heard.total("rag.search.no_hit", **mine) == 1
    assert heard.total("rag.search.results", rag_space="bot", **mine) == 15
    assert heard.total("rag.search.top_similarity", **mine) == 3
    for stage in ("embed", "search"):
        assert heard.total("rag.search.stage.duration", rag_stage=stage, **mine) == 4
    assert heard.total("rag.search.stage.duration") == 8


def test_a_similarity_below_zero_counts_as_none(heard: Listener, caplog: pytest.LogCaptureFixture) -> None:
    hit = rag.RetrievalResult(uuid4(), uuid4(), "x.md", -0.2, "x", 1, {}, dense_score=-0.2)

    class Opposite(SteppedRetriever):
        def steps(self, *_: Any) -> Any:
            return Retrieval((hit,), {"embed": 1.0, "search": 1.0, "total": 2.0})
            yield

    Opposite(None).search("x", None)  # type: ignore[arg-type]
    assert heard.total("rag.search.top_similarity") == 1
    assert caplog.text == ""


def test_caches_tell_hits_and_misses(world: Database, scope: RetrievalScope, heard: Listener) -> None:
    retriever = rag.CachedRetriever(rag.HybridRetriever(world))
    for top_k in (3, 3, 4):
        retriever.search("warranty", scope, top_k)

    def count(cache: str, outcome: str) -> float:
        return heard.total("rag.cache.requests", rag_cache=cache, rag_cache_outcome=outcome)

    assert (count("results", "hit"), count("results", "miss")) == (1, 2)
    assert (count("vectors", "hit"), count("vectors", "miss")) == (1, 1)
    assert heard.total("rag.search.stage.duration", rag_stage="search") == 2


@faces
def test_a_search_that_fails_is_told_by_the_type_of_its_error(
    world: Database, scope: RetrievalScope, heard: Listener, face: Face
) -> None:
    with pytest.raises(rag.InvalidArgument):
        face(rag.HybridRetriever(world), SENTINEL, scope, 0)
    with pytest.raises(rag.ScopeError):
        face(rag.HybridRetriever(world), SENTINEL, None)
    assert heard.total("rag.search.errors", error_type="InvalidArgument", rag_tenant="acme") == 1
    assert heard.total("rag.search.errors", error_type="ScopeError", rag_tenant="") == 1
    assert heard.total("rag.searches") == 0
    for span in heard.spans:
        assert span.status.status_code is StatusCode.ERROR
        assert (span.attributes or {})["error.type"] in ("InvalidArgument", "ScopeError")
        assert span.events == ()


def test_tenant_and_bot_can_be_left_out_of_metrics_but_not_of_spans(world: Database, scope: RetrievalScope) -> None:
    with listening(metrics_tenants=False) as heard:
        rag.HybridRetriever(world).search("warranty", scope)
        assert heard.total("rag.searches") == 1
        for name in ("rag.searches", "rag.search.duration", "rag.search.results", "rag.search.top_similarity"):
            assert all(not {"rag.tenant", "rag.bot"} & set(point.attributes) for point in heard.points(name))
        assert (heard.spans[-1].attributes or {})["rag.tenant"] == "acme"


def test_every_search_has_an_id_that_sorts_by_time(world: Database, scope: RetrievalScope) -> None:
    ids = [new_query_id() for _ in range(5000)]
    assert len(set(ids)) == 5000
    assert all(one.version == 7 and one.variant == "specified in RFC 4122" for one in ids)
    times = [one.int >> 80 for one in ids]
    assert times == sorted(times)
    found = rag.HybridRetriever(world).search("warranty", scope)
    assert isinstance(found.query_id, UUID)


def test_no_query_leaves_by_any_way_unless_that_is_switched_on(
    world: Database, scope: RetrievalScope, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    retriever = rag.LadderRetriever(rag.CachedRetriever(rag.HybridRetriever(world)))
    with caplog.at_level(logging.DEBUG), listening(search_log=True) as heard:
        retriever.search(f"warranty {SENTINEL}", scope)
        retriever.search(f"{SENTINEL}", scope, filters={"source_names": [SENTINEL]})
        for wrong in ({"where": SENTINEL}, {SENTINEL: 1}):
            with pytest.raises(rag.InvalidArgument):
                retriever.search(SENTINEL, scope, filters=wrong)
        told = "".join(span.to_json() for span in heard.spans) + str(heard.reader.get_metrics_data())
    assert len(heard.spans) > 4
    everything = told + caplog.text + "".join(capfd.readouterr())
    assert "warranty" not in everything
    assert SENTINEL not in everything


def test_a_query_that_may_be_told_is_told_without_personal_data(
    world: Database, scope: RetrievalScope, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO), listening(search_log=True, trace_queries=True) as heard:
        rag.HybridRetriever(world).search("warranty for jane@example.org", scope)
    assert (heard.spans[-1].attributes or {})["gen_ai.retrieval.query.text"] == "warranty for [email]"
    assert json.loads(caplog.messages[-1])["query"] == "warranty for [email]"


def test_a_query_breaks_no_line_of_the_log_and_commands_no_terminal(
    world: Database, scope: RetrievalScope, caplog: pytest.LogCaptureFixture
) -> None:
    asked = [f"warranty{sign}level=fine" for sign in "\n\r\x1b\x7f\x85\x9b\u2028\u2029\u202e\ufeff"]
    with caplog.at_level(logging.INFO), listening(search_log=True, trace_queries=True):
        for query in asked:
            rag.HybridRetriever(world).search(query, scope)
    lines = [record.message for record in caplog.records if record.name == "rag_assets.search"]
    assert [json.loads(line)["query"] for line in lines] == asked
    assert all(line.isascii() and line.isprintable() for line in lines)


def test_what_a_reranker_of_somebody_elses_says_when_it_fails_is_not_logged(
    world: Database, scope: RetrievalScope, caplog: pytest.LogCaptureFixture
) -> None:
    class Talkative:
        name = "talkative"

        def score(self, query: str, texts: Any, caller: Any) -> Any:
            raise LookupError(f"no score for {query}")

    with caplog.at_level(logging.DEBUG):
        found = rag.RerankedRetriever(rag.HybridRetriever(world), Talkative()).search(f"warranty {SENTINEL}", scope)
    assert "LookupError" in str(found.degraded)
    assert "LookupError" in caplog.text
    assert SENTINEL not in caplog.text


def test_a_line_of_the_log_is_json_that_is_found_from_its_trace(
    world: Database, scope: RetrievalScope, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO), listening(search_log=True) as heard:
        found = rag.HybridRetriever(world).search("warranty", scope)
    line = json.loads(caplog.messages[-1])
    assert line["query_id"] == str(found.query_id)
    assert (line["tenant"], line["bot"], line["retriever"], line["hits"]) == ("acme", "support", "hybrid", len(found))
    assert set(line["timings_ms"]) == {"embed", "search", "total"}
    assert line["trace_id"] == f"{heard.spans[-1].context.trace_id:032x}"
    assert caplog.records[-1].name == "rag_assets.search"


def test_nothing_is_logged_by_itself(
    world: Database, scope: RetrievalScope, caplog: pytest.LogCaptureFixture, heard: Listener
) -> None:
    with caplog.at_level(logging.DEBUG, "rag_assets.search"):
        rag.HybridRetriever(world).search("warranty", scope)
    assert [record for record in caplog.records if record.name == "rag_assets.search"] == []


def test_who_listens_and_fails_does_not_make_the_search_fail(
    world: Database, scope: RetrievalScope, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr("rag_assets.observing.searches.log_line", fail)
    with listening(search_log=True):
        assert len(rag.HybridRetriever(world).search("warranty", scope)) > 0
    assert "could not be told of" in caplog.text


def test_an_sdk_that_the_application_sets_up_is_told_and_without_one_nothing_is_loaded(world: Database) -> None:
    program = f"""
import sys
import rag_assets as rag
database = rag.Database({world.url!r})
scope = rag.open_scope(database, "acme", "support")
retriever = rag.HybridRetriever(database)
assert retriever.search("warranty", scope).query_id is not None
print(sorted(name for name in sys.modules if name.startswith("opentelemetry")))
from opentelemetry import metrics, trace
retriever.search("warranty", scope)
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
tracers = TracerProvider()
tracers.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(tracers)
metrics.set_meter_provider(MeterProvider([reader]))
with trace.get_tracer("application").start_as_current_span("request"):
    retriever.search("warranty", scope)
print([span.name for span in exporter.get_finished_spans()])
print(len({{span.context.trace_id for span in exporter.get_finished_spans()}}))
print("rag.searches" in reader.get_metrics_data().to_json())
database.close()
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120)
    assert run.stdout.splitlines() == ["[]", "['embed', 'search', 'rag.search', 'request']", "1", "True"], run.stderr


def test_a_stage_in_a_thread_or_branch_of_its_own_belongs_to_its_search(
    world: Database, scope: RetrievalScope, heard: Listener, tmp_path: Path
) -> None:
    timed = rag.TimedRetriever(rag.HybridRetriever(world), 30)
    timed.search("warranty", scope)
    names = {span.name: span for span in heard.spans}
    whole = names["rag.search"]
    assert {span.context.trace_id for span in heard.spans} == {whole.context.trace_id}
    assert set(names) == {"embed", "search", "rag.search"}
