"""The query log: what is in it, who may write and read what, and that it is in nobody's way."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

import rag_assets as rag
from rag_assets.observing.query_log import QUERY_LOG, QueryLog
from rag_assets.observing.records import Asked, Told
from rag_assets.retrieval.scope import RetrievalScope
from rag_assets.store.database import Connection, Database
from rag_assets.store.erase import erase
from rag_assets.store.query_log import LoggedQuery, logged_queries, newest_queries, purge_queries
from rag_assets.store.tenants import add_tenant
from tests.support.observing_world import FILES, SENTINEL, Listener, listening
from tests.support.scopes import set_scope
from tests.support.worlds import ingested


@pytest.fixture
def world(database: Database, tmp_path: Path) -> Database:
    ingested(database, tmp_path, "acme", FILES)
    add_tenant(database, "acme", "other")
    add_tenant(database, "rival", "support")
    return database


@pytest.fixture
def on() -> Iterator[Listener]:
    with listening(query_log=True) as listener:
        yield listener


def scope_of(database: Database, user: str | None = None) -> RetrievalScope:
    return rag.open_scope(database, "acme", "support", user_id=user)


def log_of(database: Database, tenant: str = "acme") -> list[LoggedQuery]:
    assert QUERY_LOG.flush(20)
    return list(logged_queries(database, tenant))


def everything(database: Database) -> str:
    with psycopg.connect(database.url) as connection:
        return str(connection.execute("SELECT l::text FROM rag.query_log l").fetchall())


def test_a_search_is_written_down_with_what_was_found_and_without_texts(world: Database, on: Listener) -> None:
    before = datetime.now(UTC)
    filters = {"source_names": ["7.txt", "8.txt"], "metadata": {"owner": "jane@example.org"}}
    retriever = rag.HybridRetriever(world)
    found = retriever.search("warranty of part 7, for jane@example.org", scope_of(world, "jane"), 3)
    retriever.search("nothing", scope_of(world), 3, filters)
    first, second = log_of(world)
    assert first.query == "warranty of part 7, for [email]"
    assert (first.query_id, first.bot, first.profile, first.retriever) == (
        found.query_id,
        "support",
        "hash-64",
        "hybrid",
    )
    assert [UUID(one["chunk_id"]) for one in first.results] == [one.chunk_id for one in found]
    assert [one["score"] for one in first.results] == [round(one.score, 6) for one in found]
    assert set(first.timings_ms) == {"embed", "search", "total"}
    assert (first.rung, first.error, first.top_k, first.citations, first.feedback) == ("full", None, 3, None, {})
    assert before <= first.asked_at <= second.asked_at <= datetime.now(UTC)
    assert first.user_mark is not None
    assert second.user_mark is None
    assert second.filters == {"source_names": ["7.txt", "8.txt"], "metadata": {"owner": "[email]"}}
    stored = everything(world)
    assert "jane" not in stored
    assert "and a day" not in stored, "no text of a source"
    assert on.total("rag.query_log.entries", rag_query_log_outcome="written") == 2


def test_it_is_off_unless_it_is_switched_on(world: Database) -> None:
    with listening():
        rag.HybridRetriever(world).search("warranty", scope_of(world))
        assert log_of(world) == []


def test_a_search_that_fails_is_written_down_with_the_type_of_its_error(world: Database, on: Listener) -> None:
    with pytest.raises(rag.InvalidArgument):
        rag.HybridRetriever(world).search("warranty", scope_of(world), filters={SENTINEL: "\x00\ud800"})
    (entry,) = log_of(world)
    assert (entry.error, entry.rung, entry.results) == ("InvalidArgument", None, [])


def asked(database: Database, scope: RetrievalScope, query: str = "x", settings: Any = None, **more: Any) -> Asked:
    given = {"query_id": uuid4(), "asked_at": datetime.now(UTC), "query": query, "tenant": scope.tenant_id}
    given |= {"bot": scope.bot_id, "profile": "p", "retriever": "r", "mode": None, "top_k": 8, "filters": {}}
    return Asked(**{**given, "database": database, "scope": settings or scope.settings, **more})  # type: ignore[arg-type]


def test_whatever_a_query_holds_it_can_be_stored(world: Database, on: Listener) -> None:
    scope = scope_of(world)
    nasty = "'; DROP TABLE rag.query_log; -- \x00 \ud800 %s {} \\u0000 " + "é" * 5000
    deep: Any = {"a": [nasty, {nasty: object()}, 1e308, None, True]}
    QUERY_LOG.search(asked(world, scope, nasty, filters=deep), Told({"total": 1.0}))
    QUERY_LOG.search(asked(world, scope, "y", filters={"a": ["x"] * 5000}), Told({"total": 1.0}))
    first, second = log_of(world)
    assert first.query.startswith("'; DROP TABLE rag.query_log; --   ? %s {} \\u0000 ééé")
    assert len(first.query) == 2000
    assert second.filters is None


def as_app(database: Database, scope: dict[str, str | None]) -> Connection:
    connection = database.connect("app")
    set_scope(connection, scope)
    return connection


INSERT = (
    "INSERT INTO rag.query_log ({columns}asked_at, query_id, query, profile, retriever, top_k, degraded, results, "
    "timings_ms) VALUES ({values}{when}, gen_random_uuid(), 'x', 'p', 'r', 1, false, '[]', '{{}}')"
)


@pytest.mark.parametrize(
    ("columns", "values", "when"),
    [
        ("tenant_id, ", "'rival', ", "now()"),
        ("bot_id, ", "'other', ", "now()"),
        ("user_mark, ", "rag.user_mark('acme', 'somebody else'), ", "now()"),
        ("user_mark, ", "NULL, ", "now()"),
        ("feedback, ", "'{\"x\": true}', ", "now()"),
        ("citations, ", "'{}', ", "now()"),
        ("", "", "now() + interval '10 years'"),
    ],
)
def test_the_app_adds_rows_of_its_own_scope_and_no_others(
    world: Database, columns: str, values: str, when: str
) -> None:
    scope = {"tenant": "acme", "bot": "support", "user": "jane"}
    with as_app(world, scope) as connection:
        connection.execute(INSERT.format(columns="", values="", when="now()"))
    with as_app(world, scope) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(INSERT.format(columns=columns, values=values, when=when))
    assert len(log_of(world)) == 1


def test_without_a_scope_the_app_adds_nothing(world: Database) -> None:
    with as_app(world, {}) as connection, pytest.raises(psycopg.Error):
        connection.execute(INSERT.format(columns="", values="", when="now()"))


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT FROM rag.query_log",
        "UPDATE rag.query_log SET feedback = '{}'",
        "DELETE FROM rag.query_log",
        "TRUNCATE rag.query_log",
        "INSERT INTO rag.query_log SELECT * FROM rag.query_log",
    ],
)
def test_the_app_reads_and_changes_nothing(world: Database, on: Listener, statement: str) -> None:
    rag.HybridRetriever(world).search("warranty", scope_of(world))
    log_of(world)
    settings = dict(scope_of(world).settings)
    with as_app(world, settings) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(statement)


def test_ingest_reads_the_log_of_its_tenant_only(world: Database, on: Listener) -> None:
    rag.HybridRetriever(world).search("warranty", scope_of(world))
    assert len(log_of(world)) == 1
    assert log_of(world, "rival") == []
    assert newest_queries(world, "rival") == []
    with world.work("rival") as connection:
        assert connection.execute("SELECT FROM rag.query_log").fetchall() == []
        assert connection.execute("DELETE FROM rag.query_log").rowcount == 0
    assert purge_queries(world, "rival", 0) == 0
    assert len(log_of(world)) == 1


def test_feedback_is_of_whoever_asked_about_what_was_found(world: Database, on: Listener) -> None:
    scope = scope_of(world, "jane")
    found = rag.HybridRetriever(world).search("warranty", scope, 3)
    query, chunk = found.query_id, found[0].chunk_id
    assert query is not None
    assert rag.record_feedback(world, scope, query, chunk, True), "it waits for the search to be written"
    others = [scope_of(world), scope_of(world, "joe")]
    assert not any(rag.record_feedback(world, other, query, chunk, False) for other in others)
    for settings in ({"tenant": "acme", "bot": "other"}, {"tenant": "rival", "bot": "support"}, {}):
        with as_app(world, {**settings, "user": "jane"}) as connection:
            rows = connection.execute("SELECT rag.record_feedback(%s, %s, false)", [query, chunk]).fetchall()
            rows += connection.execute("SELECT rag.record_answer(%s, %s)", [query, [chunk]]).fetchall()
            assert rows == [(False,), (False,)]
    assert not rag.record_feedback(world, scope, query, uuid4(), True), "no such result"
    assert not rag.record_feedback(world, scope, uuid4(), chunk, True), "no such query"
    (entry,) = log_of(world)
    assert (entry.feedback, entry.citations) == ({str(chunk): True}, None)
    assert rag.record_feedback(world, scope, str(query), str(chunk), False)
    assert log_of(world)[0].feedback == {str(chunk): False}
    assert rag.record_feedback(world, scope, query, chunk, None)
    assert log_of(world)[0].feedback == {}
    assert on.total("rag.feedback", rag_helpful=True) == on.total("rag.feedback", rag_helpful=False) == 1


def test_an_answer_says_which_results_it_cites(world: Database, on: Listener) -> None:
    scope = scope_of(world, "jane")
    retriever = rag.HybridRetriever(world)
    found, unanswered, bare = (retriever.search(text, scope, 4) for text in ("warranty", "years", "a day"))
    assert found.query_id is not None
    assert bare.query_id is not None
    rag.observe_answer(world, scope, found.query_id, [found[2], str(found[0].chunk_id), uuid4()])
    rag.observe_answer(world, scope, bare.query_id, [])
    rag.observe_answer(world, scope_of(world, "joe"), unanswered.query_id or "", [unanswered[0]])
    log = {entry.query_id: entry for entry in log_of(world)}
    assert set(log[found.query_id].citations or []) == {found[2].chunk_id, found[0].chunk_id}
    assert log[bare.query_id].citations == []
    assert log[unanswered.query_id or uuid4()].citations is None
    assert on.total("rag.answers", rag_cited=True) == 2
    assert on.total("rag.answers", rag_cited=False) == 1


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        (("no id", []), "query_id"),
        ((uuid4(), "chunk"), "citations"),
        ((uuid4(), [3]), "citations"),
        ((uuid4(), [uuid4()] * 1001), "citations"),
    ],
)
def test_a_report_that_says_nothing_certain_is_refused(
    world: Database, arguments: tuple[Any, Any], argument: str
) -> None:
    with pytest.raises(rag.InvalidArgument) as caught:
        rag.observe_answer(world, scope_of(world), *arguments)
    assert caught.value.argument == argument
    with pytest.raises(rag.ScopeError):
        rag.record_feedback(world, None, uuid4(), uuid4(), True)  # type: ignore[arg-type]
    with pytest.raises(rag.InvalidArgument, match="helpful"):
        rag.record_feedback(world, scope_of(world), uuid4(), uuid4(), "yes")  # type: ignore[arg-type]


def test_a_log_that_is_full_drops_and_counts_and_nobody_waits(world: Database, on: Listener) -> None:
    log, scope = QueryLog(most=20), scope_of(world)
    with psycopg.connect(world.url) as blocker:
        blocker.execute("LOCK rag.query_log IN ACCESS EXCLUSIVE MODE")
        started = time.monotonic()
        for _ in range(2000):
            log.search(asked(world, scope), Told({"total": 1.0}))
        assert time.monotonic() - started < 10
        assert not log.flush(0.2)
        stats = log.stats
        assert (stats.written, stats.waiting + stats.dropped) == (0, 2000)
        assert 20 <= stats.waiting <= 540
    assert log.flush(20)
    assert log.stats.written + log.stats.dropped == 2000
    assert len(log_of(world)) == log.stats.written == stats.waiting
    assert on.total("rag.query_log.entries", rag_query_log_outcome="dropped") == log.stats.dropped


def test_where_the_database_is_away_entries_are_dropped_and_the_writer_goes_on(
    world: Database, on: Listener, caplog: pytest.LogCaptureFixture
) -> None:
    nowhere = Database("postgresql://nobody@127.0.0.1:1/none", operator=True)
    log, scope = QueryLog(), scope_of(world)
    for _ in range(30):
        log.search(asked(nowhere, scope, SENTINEL), Told({"total": 1.0}))
    assert log.flush(60)
    assert (log.stats.written, log.stats.dropped) == (0, 30)
    log.search(asked(world, scope), Told({"total": 1.0}))
    assert log.flush(20)
    assert log.stats.written == 1
    assert caplog.text.count("entries of the query log are dropped") == 1
    assert SENTINEL not in caplog.text


def test_one_scope_that_cannot_be_written_takes_no_other_along(world: Database, on: Listener) -> None:
    scope = scope_of(world)
    gone = {"tenant": "gone", "bot": "support", "space": None, "profile": None, "user": None}
    log = QueryLog()
    log.search(asked(world, scope, settings=gone), Told({"total": 1.0}))
    log.search(asked(world, scope), Told({"total": 1.0}))
    assert log.flush(20)
    assert (log.stats.written, log.stats.dropped) == (1, 1)


def test_erasing_a_tenant_or_bot_erases_its_log_and_nothing_comes_after(world: Database, on: Listener) -> None:
    scope = scope_of(world)
    rag.HybridRetriever(world).search("warranty", scope)
    other = {**scope.settings, "bot": "other"}
    QUERY_LOG.search(asked(world, scope, settings=other, bot="other"), Told({"total": 1.0}))
    assert sorted(entry.bot for entry in log_of(world)) == ["other", "support"]
    assert erase(world, "acme", "other").counts["query_log"] == 1
    assert [entry.bot for entry in log_of(world)] == ["support"]
    report = erase(world, "acme")
    assert (report.counts["query_log"], report.remaining["query_log"]) == (1, 0)
    QUERY_LOG.search(asked(world, scope), Told({"total": 1.0}))
    QUERY_LOG.flush(20)
    assert everything(world) == "[]"


def test_what_is_older_than_its_time_is_purged_or_what_one_user_asked(world: Database, on: Listener) -> None:
    for user in ("jane", "joe", None):
        rag.HybridRetriever(world).search(f"warranty {user}", scope_of(world, user))
    log_of(world)
    with psycopg.connect(world.url) as connection:
        connection.execute("UPDATE rag.query_log SET asked_at = now() - interval '31 days' WHERE query ~ 'None'")
    assert purge_queries(world, "acme", 32) == 0
    assert purge_queries(world, "acme", 30) == 1
    assert purge_queries(world, "acme", 0, "other") == 0
    assert purge_queries(world, "acme", 0, user="jane") == 1
    assert [entry.query for entry in log_of(world)] == ["warranty joe"]


def test_a_long_log_is_read_page_by_page_in_its_order(world: Database, on: Listener) -> None:
    scope = scope_of(world)
    for number in range(2345):
        QUERY_LOG.search(asked(world, scope, str(number)), Told({"total": 1.0}))
    entries = log_of(world)
    assert len({entry.query_id for entry in entries}) == 2345
    assert [entry.asked_at for entry in entries] == sorted(entry.asked_at for entry in entries)
    newest = newest_queries(world, "acme", limit=5)
    assert len(newest) == 5
    assert newest[0].asked_at == max(entry.asked_at for entry in entries)


PROGRAM = """
import os, sys
import rag_assets as rag
database = rag.Database(sys.argv[1])
scope = rag.open_scope(database, "acme", "support")
retriever = rag.HybridRetriever(database)
retriever.search("parent", scope)
if sys.argv[2] == "fork":
    child = os.fork()
    if child:
        assert os.waitpid(child, 0)[1] == 0
    else:
        retriever.search("child", scope)
if sys.argv[2] == "closed":
    database.close()
"""


@pytest.mark.parametrize("way", ["plain", "closed", "fork"])
def test_what_waits_is_written_once_when_a_process_ends(world: Database, way: str) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM, world.url, way],
        env={**os.environ, "RAG_QUERY_LOG": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (run.returncode, run.stderr) == (0, "")
    queries = sorted(entry.query for entry in logged_queries(world, "acme"))
    assert queries == (["child", "parent"] if way == "fork" else ["parent"])
