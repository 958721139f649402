"""Searches that go to a hot standby: as on the primary, also without it, and nothing that writes goes there."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import rag_assets as rag
from rag_assets.doors.push import delete_pushed, push_document, pushed_status
from rag_assets.errors import DatabaseFailed, DatabaseRefused, DatabaseUnavailable
from rag_assets.observing.query_log import QUERY_LOG
from rag_assets.observing.started import start
from rag_assets.retrieval.retrievers import RETRIEVERS
from rag_assets.store.query_log import logged_queries
from rag_assets.store.replica import Replication, replication
from rag_assets.store.statements import Statement
from tests.support.command_line import Rag
from tests.support.http_door import serving, token_for
from tests.support.observing_world import listening
from tests.support.standby import Pair, primary_and_standby
from tests.support.worlds import ingested, write_files

pytestmark = pytest.mark.slow

QUERY = "the valve of pump 3"
FILES = {f"note{n}.md": f"# Note {n}\n\nThe valve of pump {n} is checked weekly." for n in range(6)}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with primary_and_standby() as both:
        owner = rag.Database(both.url)
        ingested(owner, tmp_path_factory.mktemp("acme"), "acme", FILES)
        ingested(owner, tmp_path_factory.mktemp("bolt"), "bolt", {"b.md": "A valve of bolt."})
        owner.close()
        both.follow()
        yield both


@pytest.fixture
def database(pair: Pair) -> Iterator[rag.Database]:  # in place of the one that all tests have
    both = rag.Database(pair.url, search_url=pair.searching)
    yield both
    both.close()


@pytest.fixture
def primary(pair: Pair) -> Iterator[rag.Database]:
    alone = rag.Database(pair.url)
    yield alone
    alone.close()


def told(found: rag.Retrieval) -> list[tuple[Any, ...]]:
    return [(one.chunk_id, one.score, one.content, one.source_name, one.citation, one.metadata) for one in found]


def answer(database: rag.Database, query: str = QUERY, mode: str = "hybrid", tenant: str = "acme") -> rag.Retrieval:
    return RETRIEVERS[mode](database).search(query, rag.open_scope(database, tenant, "support"))


def standing(database: rag.Database) -> Replication:
    async def asked() -> Replication | None:
        try:
            return await replication(database)
        finally:
            await database.aclose()

    found = asyncio.run(asked())
    assert found is not None
    return found


@pytest.mark.parametrize("mode", sorted(RETRIEVERS))
def test_the_standby_answers_as_the_primary_does(
    database: rag.Database, primary: rag.Database, pair: Pair, mode: str
) -> None:
    async def awaited() -> rag.Retrieval:
        scope = await rag.aopen_scope(database, "acme", "support")
        try:
            return await RETRIEVERS[mode](database).asearch(QUERY, scope)
        finally:
            await database.aclose()

    wanted = told(answer(primary, mode=mode))
    assert len(wanted) == 6
    assert told(answer(database, mode=mode)) == wanted
    assert told(asyncio.run(awaited())) == wanted
    assert [one.content for one in answer(database, mode=mode, tenant="bolt")] == ["A valve of bolt."]


def test_what_writes_goes_to_the_primary(database: rag.Database, primary: rag.Database) -> None:
    scope = rag.open_scope(database, "acme", "support")
    with listening(query_log=True):
        found = rag.HybridRetriever(database).search(QUERY, scope)
        rag.observe_answer(database, scope, found.query_id, [found[0]])
        assert QUERY_LOG.flush(20)
        assert rag.record_feedback(database, scope, found.query_id, found[0].chunk_id, helpful=True)
    (entry,) = [one for one in logged_queries(primary, "acme") if one.query_id == found.query_id]
    assert entry.citations == [found[0].chunk_id]
    assert entry.feedback == {str(found[0].chunk_id): True}
    push_document(database, "acme", "support", "faq", "# Returns")
    assert pushed_status(database, "acme", "support", "faq")["state"] == "received", "and is seen at once"
    assert delete_pushed(database, "acme", "support", "faq")


def test_a_search_cannot_write_wherever_it_is_sent(database: rag.Database, primary: rag.Database) -> None:
    scope = rag.open_scope(primary, "acme", "support")
    writes = "INSERT INTO rag.source_roots (knowledge_space_id, tenant_id, bot_id, uri) VALUES (%(space)s, 'acme', "
    statement = Statement(writes + "'support', 'pushed:')", {"space": scope.knowledge_space_id})
    for one in (primary, database):
        with pytest.raises(DatabaseRefused, match=r"read-only .* needs the primary server"):
            one.ask(scope.settings, [statement])


def test_without_the_primary_searches_go_on_and_the_rest_says_so(
    database: rag.Database, pair: Pair, tmp_path: Path
) -> None:
    cached = rag.CachedRetriever(rag.HybridRetriever(database))
    scope = rag.open_scope(database, "acme", "support")
    wanted = told(cached.search(QUERY, scope))
    pair.kill_primary()
    try:
        fresh = rag.Database(database.url, search_url=pair.searching)  # a process that begins now
        assert told(answer(fresh)) == wanted
        assert cached.search(QUERY, scope).trace[-1] == {"stage": "cache", "hit": True}
        found = standing(fresh)
        assert (found.is_replica, found.primary_answers, found.behind_bytes) == (True, False, None)
        assert found.lag_s is not None
        with listening(query_log=True):
            before, began = QUERY_LOG.stats.dropped, time.monotonic()
            logged = rag.HybridRetriever(fresh).search(QUERY, scope)
            assert time.monotonic() - began < 5, "it waits for no primary"
            assert told(logged) == wanted
            assert QUERY_LOG.flush(60)
            assert QUERY_LOG.stats.dropped == before + 1
        with pytest.raises(DatabaseUnavailable):
            rag.record_feedback(fresh, scope, logged.query_id, logged[0].chunk_id, helpful=True)
        with pytest.raises(DatabaseUnavailable, match=r"cannot connect to|lost"):
            rag.ingest(fresh, "acme", "support", roots=[write_files(tmp_path, {"new.md": "A new pump."})])
        fresh.close()
    finally:
        pair.start_primary()
    pair.follow()
    assert standing(database).primary_answers


def test_the_doors_and_the_command_go_on_without_the_primary(
    pair: Pair, primary: rag.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = token_for(primary, "door", "acme", may=("search", "feedback"))
    pair.follow()
    monkeypatch.setenv("DATABASE_URL", pair.url)
    monkeypatch.setenv("RAG_SEARCH_DATABASE_URL", pair.searching)
    ask = ("search", QUERY, "--tenant", "acme", "--bot", "support")
    wanted = [one["chunk_id"] for one in Rag().json(*ask)["results"]]
    with start("rag-assets") as telemetry, serving(rag.Database.from_settings(), telemetry=telemetry) as door:
        told = door.get("/ready").json()
        assert told == {"status": "ok", "primary": "ok", "replica": "ok", "replica_lag_s": told["replica_lag_s"]}
        pair.kill_primary()
        try:
            assert [one["chunk_id"] for one in Rag().json(*ask)["results"]] == wanted
            assert Rag().json(*ask, "--filter", "source=nothing.md")["results"] == []
            found = door.post("/search", token, {"query": QUERY}).json()
            assert [one["chunk_id"] for one in found["results"]] == wanted
            told = door.get("/ready")
            assert (told.status_code, told.json()["primary"]) == (200, "unavailable")
            metrics = door.get("/metrics").text
            assert re.search(r'rag_database_available\S*rag_database="primary"\S* 0\.0', metrics), metrics
            assert re.search(r'rag_database_available\S*rag_database="replica"\S* 1\.0', metrics)
            assert "rag_replica_lag_seconds" in metrics
            said = {"query_id": found["query_id"], "chunk_id": wanted[0], "helpful": True}
            assert door.post("/feedback", token, said).status_code == 503
            assert Rag().error("sources", "--tenant", "acme", "--bot", "support", code=1)[0] == "DatabaseUnavailable"
        finally:
            pair.start_primary()
    pair.follow()


def test_a_standby_that_is_behind_serves_what_it_has_and_says_how_far_it_is(
    database: rag.Database, primary: rag.Database, pair: Pair, tmp_path: Path
) -> None:
    cached = rag.CachedRetriever(rag.HybridRetriever(database))
    before = told(cached.search("a gasket", rag.open_scope(database, "acme", "support")))
    assert standing(database).behind_bytes == 0
    pair.on_standby("SELECT pg_wal_replay_pause()::text")
    try:
        ingested(primary, tmp_path, "acme", {"gasket.md": "The gasket is new."})
        scope = rag.open_scope(database, "acme", "support")
        assert told(cached.search("a gasket", scope)) == before
        assert any("gasket" in hit.content for hit in answer(primary, "a gasket"))
        found = standing(database)
        assert found.behind_bytes
        assert found.lag_s is not None
        assert found.lag_s > 0
    finally:
        pair.on_standby("SELECT pg_wal_replay_resume()::text")
    pair.follow()
    assert standing(database) == Replication(True, True, 0, 0.0)
    assert any("gasket" in hit.content for hit in cached.search("a gasket", scope)), "a version of the same server"


def test_a_standby_without_a_migration_says_which(pair: Pair) -> None:
    row = "rag._yoyo_migration WHERE migration_id = '0053.replica'"
    with psycopg.connect(pair.url, autocommit=True) as owner:
        owner.execute(f"CREATE TABLE public.kept AS SELECT * FROM {row}")
        owner.execute(f"DELETE FROM {row}")
        pair.follow()
        late = rag.Database(pair.url, search_url=pair.searching)
        with pytest.raises(DatabaseUnavailable, match=r"lacks 0053\.replica.*replica.*wait until it has followed"):
            answer(late)
        owner.execute("INSERT INTO rag._yoyo_migration SELECT * FROM public.kept")
        owner.execute("DROP TABLE public.kept")
    pair.follow()
    assert answer(late)
    late.close()


def test_a_search_that_the_standby_cuts_off_is_asked_again(database: rag.Database, pair: Pair) -> None:
    scope = rag.open_scope(database, "acme", "support")
    pair.on_standby("ALTER SYSTEM SET max_standby_streaming_delay = '50ms'")
    pair.on_standby("SELECT pg_reload_conf()")
    pair.until("SELECT current_setting('max_standby_streaming_delay') = '50ms'")
    slow = Statement("SELECT count(*) AS sources, pg_sleep(2)::text FROM rag.knowledge_sources")
    cancelled = "SELECT confl_lock FROM pg_stat_database_conflicts WHERE datname = 'rag'"
    before, answers = pair.on_standby(cancelled), []
    asking = threading.Thread(target=lambda: answers.append(database.ask(scope.settings, [slow])))
    asking.start()
    pair.until("SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'PgSleep'")
    with psycopg.connect(pair.url) as owner:
        owner.execute("LOCK TABLE rag.knowledge_sources IN ACCESS EXCLUSIVE MODE")
    asking.join(30)
    pair.follow()
    assert answers
    assert answers[0][0][0].sources >= 6
    pair.until(f"SELECT ({cancelled}) > {before}")
    pair.on_standby("ALTER SYSTEM RESET max_standby_streaming_delay")
    pair.on_standby("SELECT pg_reload_conf()")


def test_a_standbys_login_is_held_to_what_it_may_do_whoever_runs_the_command(pair: Pair) -> None:
    strong = rag.Database(pair.url, search_url=pair.standby_url, operator=True)
    with pytest.raises(DatabaseRefused, match="superuser"):
        answer(strong)


def test_a_standby_that_is_away_is_unavailable_and_the_primary_is_asked_only_where_the_url_names_it(
    pair: Pair, tmp_path: Path
) -> None:
    here = conninfo_to_dict(pair.searching)
    away = make_conninfo(pair.searching, host=str(tmp_path))
    alone = rag.Database(pair.url, search_url=away)
    with pytest.raises(DatabaseUnavailable, match="did not reach"):
        answer(alone)
    primary_host = conninfo_to_dict(pair.url)["host"]
    for hosts, is_replica in ((f"{primary_host},{here['host']}", True), (f"{tmp_path},{primary_host}", False)):
        several = make_conninfo(pair.searching, host=hosts, target_session_attrs="prefer-standby")
        database = rag.Database(pair.url, search_url=several)
        assert len(answer(database)) >= 6
        assert standing(database).is_replica is is_replica
        database.close()


def test_a_search_that_fails_for_good_on_the_standby_is_not_tried_elsewhere(database: rag.Database) -> None:
    with pytest.raises(DatabaseFailed):
        database.ask({}, [Statement("SELECT 1 / 0 AS n")])


def test_a_standby_that_is_promoted_goes_on_answering(database: rag.Database, pair: Pair) -> None:
    """The last of the file: there is no way back."""
    before = told(answer(database))
    pair.kill_primary()
    pair.on_standby("SELECT pg_promote()")
    assert told(answer(database)) == before
    assert not standing(database).is_replica
    moved = rag.Database(pair.standby_url, search_url=pair.searching)
    push_document(moved, "acme", "support", "faq", "# Returns")
    assert pushed_status(moved, "acme", "support", "faq")["state"] == "received"
    moved.close()
