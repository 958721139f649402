"""Only a passed verdict moves the pointer, and readers never notice the move."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from rag_assets.chunking import ChunkingSpec
from rag_assets.embedding.profiles import make_profile
from rag_assets.errors import PromotionRefused, UnknownProfile, UsageError
from rag_assets.ingest.pairs import enable_pair
from rag_assets.ingest.run import ingest
from rag_assets.retrieval import HybridRetriever, open_scope
from rag_assets.store.database import Database
from rag_assets.store.profiles import add_spec, built_profiles
from rag_assets.store.promotion import Moved, pointers_of, promote, roll_back, set_canary
from rag_assets.store.sql import query
from rag_assets.store.tenants import spaces_of
from tests.support.worlds import ingested, write_files

FILES = {
    f"note{n}.md": f"# Note {n}\n\n" + " ".join(f"The valve of pump {n} is checked in week {w}." for w in range(12))
    for n in range(8)
}


@pytest.fixture
def world(new_database: Callable[[], Database], tmp_path: Path) -> Iterator[Database]:
    """A bot with the active profile hash-64 and the complete candidate hash-small."""
    database = new_database()
    add_spec(
        database,
        make_profile(
            name="hash-small", provider="hash", model="hash", dimensions=64, chunking=ChunkingSpec(size=120, overlap=10)
        ),
    )
    ingested(database, tmp_path / "docs", "acme", FILES)
    ingest(database, "acme", "support", "hash-small")
    yield database
    database.close()


def judged(database: Database, candidate: str, baseline: str, outcome: str = "passed") -> None:
    """Write a verdict on what both profiles serve now, as the gate does."""
    with database.work("acme") as connection:
        space = spaces_of(connection, "acme", "support")[0]
        ids = {one.profile.name: one.id for one in built_profiles(connection, "acme", "support")}
        owner: dict[str, Any] = {"space": space.id, "tenant": "acme", "bot": "support"}
        connection.execute(
            query("add_eval_set"),
            {**owner, "content_hash": "x", "queries": Jsonb([]), "qrels": Jsonb({}), "imported": True},
        )
        row = connection.execute(query("latest_eval_set"), owner).fetchone()
        assert row is not None
        run: dict[str, int] = {}
        snapshot: dict[str, str] = {}
        for name in (candidate, baseline):
            found = connection.execute(query("profile_snapshot"), {"profile": ids[name]}).fetchone()
            assert found is not None
            snapshot[name] = found[0]
            values = {**owner, "profile": ids[name], "eval_set": row[0], "mode": "hybrid", "settings": Jsonb({})}
            added = connection.execute(
                query("add_eval_run"), {**values, "snapshot": found[0], "run_hash": "h", "metrics": Jsonb({})}
            ).fetchone()
            assert added is not None
            run[name] = added[0]
        connection.execute(
            query("add_verdict"),
            {
                **owner,
                "candidate": ids[candidate],
                "baseline": ids[baseline],
                "candidate_run": run[candidate],
                "baseline_run": run[baseline],
                "candidate_snapshot": snapshot[candidate],
                "baseline_snapshot": snapshot[baseline],
                "policy": Jsonb({}),
                "criteria": Jsonb([{"name": "recall_gain", "passed": outcome == "passed", "reason": "gain too small"}]),
                "outcome": outcome,
                "asked_alike": True,
            },
        )


def active(database: Database) -> str:
    return open_scope(database, "acme", "support").profile.name


def events(database: Database) -> list[tuple[str, dict[str, Any]]]:
    with database.work("acme") as connection:
        rows = connection.execute(query("list_events"), {"tenant": "acme", "bot": "support", "limit": 50}).fetchall()
    return [(row[1], row[4]) for row in rows]


def test_a_passed_verdict_promotes_and_a_rollback_goes_back(world: Database) -> None:
    judged(world, "hash-small", "hash-64")
    assert promote(world, "acme", "support", "hash-small") == Moved("hash-small", "hash-64")
    assert active(world) == "hash-small"
    assert roll_back(world, "acme", "support", "slower") == Moved("hash-64", "hash-small")
    assert active(world) == "hash-64"
    assert [event for event, _ in events(world)][:2] == ["rolled_back", "promoted"]


def test_without_a_verdict_nothing_is_promoted(world: Database) -> None:
    with pytest.raises(PromotionRefused, match="rag eval gate"):
        promote(world, "acme", "support", "hash-small")
    assert active(world) == "hash-64"


@pytest.mark.parametrize("outcome", ["refused", "undecided"])
def test_a_verdict_that_did_not_pass_promotes_nothing_and_says_why(world: Database, outcome: str) -> None:
    judged(world, "hash-small", "hash-64")
    judged(world, "hash-small", "hash-64", outcome)
    with pytest.raises(PromotionRefused, match="gain too small"):
        promote(world, "acme", "support", "hash-small")


def test_a_verdict_on_sources_that_have_changed_since_promotes_nothing(world: Database, tmp_path: Path) -> None:
    judged(world, "hash-small", "hash-64")
    write_files(tmp_path / "docs", {"new.md": "A new page."})
    for profile in ("hash-64", "hash-small"):
        ingest(world, "acme", "support", profile)
    with pytest.raises(PromotionRefused, match="have changed since"):
        promote(world, "acme", "support", "hash-small")


def test_a_verdict_against_another_baseline_promotes_nothing(world: Database) -> None:
    judged(world, "hash-small", "hash-64")
    promote(world, "acme", "support", "hash-small")
    roll_back(world, "acme", "support")
    judged(world, "hash-small", "hash-small")
    with pytest.raises(PromotionRefused, match="another profile"):
        promote(world, "acme", "support", "hash-small")


def test_a_forced_promotion_needs_a_reason_and_is_recorded_as_forced(world: Database) -> None:
    with pytest.raises(UsageError, match="reason"):
        promote(world, "acme", "support", "hash-small", force=True)
    promote(world, "acme", "support", "hash-small", force=True, reason="the old model is switched off tonight")
    event, evidence = events(world)[0]
    assert event == "forced"
    assert evidence["reason"] == "the old model is switched off tonight"


def test_a_profile_that_is_incomplete_unknown_or_active_is_not_promoted(world: Database) -> None:
    enable_pair(world, "acme", "support", "static-64")
    with pytest.raises(PromotionRefused, match="not complete"):
        promote(world, "acme", "support", "static-64", force=True, reason="now")
    with pytest.raises(UnknownProfile):
        promote(world, "acme", "support", "nothing")
    with pytest.raises(UsageError, match="active already"):
        promote(world, "acme", "support", "hash-64")


def test_there_is_no_rollback_before_the_first_promotion(world: Database) -> None:
    with pytest.raises(PromotionRefused, match="go back"):
        roll_back(world, "acme", "support")


def test_of_two_promotions_at_once_one_wins_and_the_other_is_told(world: Database) -> None:
    judged(world, "hash-small", "hash-64")

    def attempt(_: int) -> str:
        try:
            promote(world, "acme", "support", "hash-small")
        except (PromotionRefused, UsageError) as error:
            return str(error)
        return "won"

    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(attempt, range(4)))
    assert outcomes.count("won") == 1
    assert all("active already" in text or "faster" in text for text in outcomes if text != "won")


def test_a_promotion_that_dies_half_way_leaves_the_old_profile_serving(world: Database) -> None:
    judged(world, "hash-small", "hash-64")
    with pytest.raises(psycopg.OperationalError), world.connect("ingest") as connection:  # noqa: PT012
        connection.execute("SELECT set_config('rag.tenant', 'acme', true)")
        space = spaces_of(connection, "acme", "support")[0]
        ids = {one.profile.name: one.id for one in built_profiles(connection, "acme", "support")}
        values = {"space": space.id, "candidate": ids["hash-small"], "expected": ids["hash-64"]}
        assert connection.execute(query("promote"), values).fetchone()
        with psycopg.connect(world.url, autocommit=True) as admin:
            admin.execute("SELECT pg_terminate_backend(%s)", [connection.info.backend_pid])
    assert active(world) == "hash-64"
    promote(world, "acme", "support", "hash-small")
    assert active(world) == "hash-small"


def test_a_canary_is_set_and_ended_and_refused_for_the_active_profile(world: Database) -> None:
    set_canary(world, "acme", "support", "hash-small", 20)
    with world.work("acme") as connection:
        assert pointers_of(connection, spaces_of(connection, "acme", "support")[0]).canary_percent == 20
    set_canary(world, "acme", "support", None, 0)
    with world.work("acme") as connection:
        pointers = pointers_of(connection, spaces_of(connection, "acme", "support")[0])
    assert (pointers.canary, pointers.canary_percent) == (None, 0)
    with pytest.raises(UsageError, match="is active"):
        set_canary(world, "acme", "support", "hash-64", 10)


@pytest.mark.slow
def test_readers_during_a_hundred_promotions_and_rollbacks_always_get_one_whole_profile(world: Database) -> None:
    judged(world, "hash-small", "hash-64")
    served: dict[int, set[Any]] = {}
    with psycopg.connect(world.url) as connection:
        for profile, chunk in connection.execute("SELECT embedding_profile_id, id FROM rag.knowledge_chunks"):
            served.setdefault(profile, set()).add(chunk)
    stop = threading.Event()
    faults: list[str] = []
    answers: list[int] = []

    retriever = HybridRetriever(world)  # made before all of it, as an application does

    def read() -> None:
        while not stop.is_set():
            try:
                scope = open_scope(world, "acme", "support")
                found = retriever.search("valve of the pump", scope, top_k=200)
            except Exception as error:
                faults.append(f"{type(error).__name__}: {error}")
                return
            if {result.chunk_id for result in found} != served[scope.profile_id]:
                faults.append(f"{len(found)} chunks of profile {scope.profile_id}")
            answers.append(scope.profile_id)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for _ in range(50):
        promote(world, "acme", "support", "hash-small")
        roll_back(world, "acme", "support")
    stop.set()
    for reader in readers:
        reader.join()
    assert faults == []
    assert len(set(answers)) == 2, "readers should have met both profiles"
