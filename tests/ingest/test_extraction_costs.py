"""What finding triples costs is planned, counted and bounded, and what had no answer is asked about again."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from rag_assets.errors import CostCeilingReached
from rag_assets.ingest.plan import Demand, Plan, Price, make_plan, price_of
from rag_assets.ingest.run import ingest
from rag_assets.store.cache import ModelUsage, usage_of
from rag_assets.store.database import Database
from rag_assets.store.limits import set_profile_settings, spent_usd
from rag_assets.store.profiles import add_spec
from rag_assets.store.refused import forget_refused_texts, try_again_now
from rag_assets.store.source_life import named_sources, source_life
from tests.support.chat_server import ChatServer, chat_server, says
from tests.support.extraction_world import SAID, ingested, profile_of, said, thinks
from tests.support.graph_world import FILES
from tests.support.worlds import rooted

PRICED = {"model": "gpt-5-mini"}  # $0.25 a million tokens read, and $2 written
TOKENS, WRITTEN = 1000, 400  # of each answer
COST = (600 * 0.25 + 400 * 2) / 1e6


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with chat_server(thinks, tokens=TOKENS, written=WRITTEN) as running:
        yield running


@pytest.fixture
def root(database: Database, tmp_path: Path) -> Path:
    return rooted(database, tmp_path / "root", "acme", FILES)


def planned(database: Database, profile: Any) -> tuple[Plan, Price]:
    plan = make_plan(database, "acme", "support", (), Demand(database, "acme", profile))
    return plan, price_of(database, "acme", profile, plan.work)


def used(database: Database) -> ModelUsage:
    (found,) = [one for one in usage_of(database, "acme")[0] if one.role == "triples"]
    return found


def test_a_plan_tells_how_many_texts_are_asked_about_and_for_how_much(
    database: Database, root: Path, server: ChatServer
) -> None:
    profile = profile_of(server, **PRICED)
    plan, price = planned(database, profile)
    assert plan.work.to_ask == len(FILES)
    assert price.graph_usd is not None
    assert price.graph_usd == (plan.work.tokens_to_read * 0.25 + plan.work.tokens_to_write * 2) / 1e6 > 0
    assert price.usd == price.sync_usd + price.graph_usd
    assert server.asked == [], "and asks nothing"
    ingested(database, profile)
    assert len(server.asked) == plan.work.to_ask
    other = profile_of(server, "again", **PRICED).model_copy(update={"dimensions": 32})
    plan, price = planned(database, other)
    assert (plan.work.to_ask, price.graph_usd) == (0, 0.0), "a text that was answered costs nothing again"
    assert planned(database, profile_of(server, "own"))[1].graph_usd is None, "nobody knows that model's price"


def test_what_answers_cost_is_counted_for_the_profile_that_asked(
    database: Database, root: Path, server: ChatServer
) -> None:
    profile = profile_of(server, **PRICED)
    report = ingested(database, profile)
    found = used(database)
    assert (found.profile, found.embedded, found.cache_hits) == ("with-graph", len(FILES), 0)
    assert found.tokens == report.extraction.tokens == TOKENS * len(FILES)
    assert found.cost_usd == pytest.approx(COST * len(FILES))
    assert found.cost_usd == pytest.approx(report.extraction.cost_usd)
    with database.work("acme") as connection:
        assert spent_usd(connection, "acme", "with-graph") == pytest.approx(found.cost_usd)


def test_an_answer_that_is_nonsense_is_paid_for_and_counted(database: Database, root: Path, server: ChatServer) -> None:
    server.thinks = lambda asked: {"none": 1} if "Brimble" in asked.data[-1] else thinks(asked)
    report = ingested(database, profile_of(server, **PRICED))
    assert (report.extraction.unanswered, used(database).embedded) == (1, len(FILES) - 1)
    assert used(database).tokens == TOKENS * len(server.asked) == TOKENS * (len(FILES) + 1)
    assert used(database).cost_usd == pytest.approx(COST * len(server.asked))


def test_a_ceiling_stops_before_a_request_that_goes_beyond_it_and_keeps_what_was_answered(
    database: Database, root: Path, server: ChatServer
) -> None:
    profile = profile_of(server, **PRICED)
    add_spec(database, profile)
    set_profile_settings(database, "with-graph", max_cost_usd=0.0)
    with pytest.raises(CostCeilingReached, match=r"acme/support.*rag profile limit with-graph --max-cost-usd"):
        ingested(database, profile)
    assert server.asked == []
    _, price = planned(database, profile)
    assert not price.fits
    set_profile_settings(database, "with-graph", max_cost_usd=1.5 * COST)
    with pytest.raises(CostCeilingReached):
        ingested(database, profile)
    paid = len(server.asked)
    assert 1 <= paid < len(FILES)
    assert used(database).embedded == paid
    set_profile_settings(database, "with-graph", no_max_cost=True)
    ingested(database, profile)
    assert len(server.asked) == len(FILES), "nothing was paid for twice"
    assert said(database) == set(SAID)


def _without_an_answer(database: Database, server: ChatServer) -> int:
    """Ingest where the model answers nonsense about one text; returns how many requests that took."""
    server.thinks = lambda asked: "?" if "Brimble" in asked.data[-1] else thinks(asked)
    assert ingested(database, profile_of(server)).extraction.unanswered == 1
    assert said(database) == set(SAID[1:])
    server.thinks = thinks
    ingested(database, profile_of(server))
    assert len(server.asked) == len(FILES) + 1, "not asked about at once"
    return len(server.asked)


def test_a_text_without_an_answer_is_asked_about_again_when_it_is_time(
    database: Database, root: Path, server: ChatServer
) -> None:
    asked = _without_an_answer(database, server)
    with database.work("acme") as connection:
        (source,) = named_sources(connection, "acme", "support", "valve.md")
        life = source_life(connection, source.id)
    assert life["next_try"].startswith(
        "what a model gave no answer for is sent again by the first run after with-graph"
    )
    with database.work("acme") as connection:
        for table in ("refused_texts", "source_profiles"):
            connection.execute(f"UPDATE rag.{table} SET next_try_at = next_try_at - %s", [timedelta(hours=1)])
    report = ingested(database, profile_of(server))
    assert (report.ready, report.extraction.asked, report.extraction.unanswered) == (1, 1, 0)
    assert len(server.asked) == asked + 1
    assert said(database) == set(SAID)
    assert ingested(database, profile_of(server)).ready == 0, "and that was that"


def test_a_person_has_it_asked_about_again_at_once(database: Database, root: Path, server: ChatServer) -> None:
    asked = _without_an_answer(database, server)
    assert try_again_now(database, "acme", "support") == 1
    forget_refused_texts(database, "acme")
    ingest(database, "acme", "support", profile_of(server))
    assert len(server.asked) == asked + 1
    assert said(database) == set(SAID)


def test_one_that_has_no_answer_again_waits_longer(database: Database, root: Path, server: ChatServer) -> None:
    _without_an_answer(database, server)
    server.will(says("?"), says("?"))
    try_again_now(database, "acme", "support")
    with database.work("acme") as connection:
        connection.execute("UPDATE rag.refused_texts SET next_try_at = now()")
    assert ingested(database, profile_of(server)).extraction.unanswered == 1
    with database.work("acme") as connection:
        row = connection.execute(
            "SELECT next_try_at > now() + interval '3 hours' FROM rag.source_profiles WHERE next_try_at IS NOT NULL"
        ).fetchone()
    assert row == (True,)
