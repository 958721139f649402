"""A profile is retired only when nothing points to it, and dropped only when its chunks are all accounted for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rag_assets.embedding.profiles import make_profile
from rag_assets.errors import ProfileNotReady, PromotionRefused, UnknownProfile, UsageError
from rag_assets.ingest.run import ingest
from rag_assets.retrieval import open_scope
from rag_assets.store.database import Database
from rag_assets.store.partitions import drop_partition
from rag_assets.store.profiles import add_spec, built_profiles
from rag_assets.store.promotion import promote, roll_back, set_canary
from rag_assets.store.retirement import Dropped, drop_retired, droppable, retire
from tests.support.worlds import ingested

FILES = {f"note{n}.md": f"# Note {n}\n\nThe valve of pump {n} is checked every week." for n in range(5)}
BOT = ("acme", "support")


@pytest.fixture
def world(new_database: Callable[[], Database], tmp_path: Path) -> Iterator[Database]:
    """A bot with the active profile hash-64 and the complete profile hash-small beside it."""
    database = new_database()
    add_spec(database, make_profile(name="hash-small", provider="hash", model="hash", dimensions=16))
    ingested(database, tmp_path / "docs", "acme", FILES)
    ingest(database, *BOT, "hash-small")
    yield database
    database.close()


def id_of(database: Database, name: str) -> int:
    with database.work("acme") as connection:
        (built,) = built_profiles(connection, *BOT, name)
    return built.id


def rows_of(database: Database, profile: int) -> dict[str, int]:
    tables = ("knowledge_chunks", "source_profiles", "lexeme_stats", "index_state")
    with psycopg.connect(database.url) as connection:
        return {
            table: connection.execute(  # type: ignore[index]
                f"SELECT count(*) FROM rag.{table} WHERE embedding_profile_id = %s", [profile]
            ).fetchone()[0]
            for table in tables
        }


def events_of(database: Database, profile: int) -> list[tuple[str, dict[str, Any]]]:
    with psycopg.connect(database.url) as connection:
        return connection.execute(
            "SELECT event, evidence FROM rag.profile_events WHERE embedding_profile_id = %s ORDER BY id", [profile]
        ).fetchall()


def retired_days_ago(database: Database, profile: int, days: int) -> None:
    with psycopg.connect(database.url) as connection:
        connection.execute(
            "UPDATE rag.profile_events SET created_at = now() - make_interval(days => %s) "
            "WHERE embedding_profile_id = %s AND event = 'retired'",
            [days, profile],
        )


def test_a_retired_profile_is_dropped_with_all_its_rows_and_the_other_stays(world: Database) -> None:
    retired, active = id_of(world, "hash-small"), id_of(world, "hash-64")
    before = rows_of(world, active)
    retire(world, *BOT, "hash-small")
    with pytest.raises(ProfileNotReady):
        open_scope(world, *BOT, "hash-small")
    expected = [Dropped("hash-small", 5, 5)]
    assert droppable(world, *BOT, 0) == expected
    assert rows_of(world, retired)["knowledge_chunks"] == 5, "looking drops nothing"
    assert drop_retired(world, *BOT, 0) == expected
    assert not any(rows_of(world, retired).values())
    assert rows_of(world, active) == before
    assert events_of(world, retired)[-1] == ("dropped", {"chunks_expected": 5, "chunks_dropped": 5})
    assert drop_retired(world, *BOT, 0) == []


def test_nothing_is_dropped_before_its_soak_time(world: Database) -> None:
    profile = id_of(world, "hash-small")
    retire(world, *BOT, "hash-small")
    retired_days_ago(world, profile, 6)
    assert drop_retired(world, *BOT) == []
    assert rows_of(world, profile)["knowledge_chunks"] == 5
    retired_days_ago(world, profile, 8)
    assert [one.profile for one in drop_retired(world, *BOT)] == ["hash-small"]


@pytest.mark.parametrize("days", [-1.0, float("nan"), float("inf")])
def test_a_soak_time_that_is_no_time_is_refused(world: Database, days: float) -> None:
    with pytest.raises(UsageError, match="soak time"):
        drop_retired(world, *BOT, days)


def test_what_the_bot_points_to_is_not_retired(world: Database) -> None:
    with pytest.raises(PromotionRefused, match="is active"):
        retire(world, *BOT, "hash-64", force=True)
    set_canary(world, *BOT, "hash-small", 10)
    with pytest.raises(PromotionRefused, match="canary"):
        retire(world, *BOT, "hash-small", force=True)
    with pytest.raises(UnknownProfile, match="hash-64, hash-small"):
        retire(world, *BOT, "nothing")


def test_the_way_back_is_given_up_only_by_force(world: Database) -> None:
    promote(world, *BOT, "hash-small", force=True, reason="a test")
    with pytest.raises(PromotionRefused, match="rollback"):
        retire(world, *BOT, "hash-64")
    retire(world, *BOT, "hash-64", force=True)
    with pytest.raises(PromotionRefused, match="go back"):
        roll_back(world, *BOT)


def test_a_profile_whose_chunks_do_not_add_up_is_left_alone(world: Database) -> None:
    profile = id_of(world, "hash-small")
    retire(world, *BOT, "hash-small")
    with psycopg.connect(world.url) as connection:
        connection.execute(
            "DELETE FROM rag.knowledge_chunks WHERE id = "
            "(SELECT min(id::text)::uuid FROM rag.knowledge_chunks WHERE embedding_profile_id = %s)",
            [profile],
        )
    (found,) = drop_retired(world, *BOT, 0)
    assert (found.chunks_expected, found.chunks_dropped) == (5, 0)
    assert "holds 4 chunks, and 5 were published" in found.refused
    assert rows_of(world, profile)["knowledge_chunks"] == 4
    assert events_of(world, profile)[-1][0] == "retired"


def test_a_drop_that_was_cut_off_is_finished_by_the_next(world: Database) -> None:
    profile = id_of(world, "hash-small")
    retire(world, *BOT, "hash-small")
    drop_partition(world, profile)
    assert drop_retired(world, *BOT, 0) == [Dropped("hash-small", 5, 0)]
    assert not any(rows_of(world, profile).values())


def test_the_name_of_a_retired_profile_can_be_built_again(world: Database) -> None:
    retire(world, *BOT, "hash-small")
    ingest(world, *BOT, "hash-small")
    assert rows_of(world, id_of(world, "hash-small"))["knowledge_chunks"] == 5
    assert drop_retired(world, *BOT, 0) == [Dropped("hash-small", 5, 5)]
    assert rows_of(world, id_of(world, "hash-small"))["knowledge_chunks"] == 5
