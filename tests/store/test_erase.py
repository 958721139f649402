from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from rag_assets.errors import InvalidKey, RagError, UnknownBot, UnknownTenant
from rag_assets.ingest.pairs import enable_pair
from rag_assets.ingest.run import ingest
from rag_assets.retrieval import LexicalRetriever, open_scope
from rag_assets.store import erase as erasure
from rag_assets.store.database import Database
from rag_assets.store.erase import erasable, erase
from rag_assets.store.partitions import drop_partition, partition_name
from rag_assets.store.tenants import list_bots, list_tenants
from tests.support.worlds import ingested

FILES = {
    "pump.md": "# Pump\n\nThe PX-4412 cuts in at 1.8 bar.\n",
    "returns.txt": "Thirty days to return goods.\n",
}


@pytest.fixture
def world(database: Database, tmp_path: Path) -> Database:
    """Tenant `acme` with the bots `support` and `sales`, and tenant `other`; all hold the same text."""
    ingested(database, tmp_path / "a", "acme", FILES)
    ingested(database, tmp_path / "b", "acme", FILES, bot="sales")
    ingested(database, tmp_path / "c", "other", FILES)
    return database


def _rows(database: Database) -> dict[str, int]:
    """Rows of every table of the schema, seen past row-level security."""
    with database.connect() as connection:
        tables = connection.execute(
            "SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'rag'::regnamespace "
            "AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relname !~ 'yoyo' ORDER BY 1"
        ).fetchall()
        return {
            name: connection.execute(f"SELECT count(*) FROM rag.{name}").fetchone()[0]  # type: ignore[index]
            for (name,) in tables
        }


def _holding(database: Database, tenant: str, bot: str | None = None) -> Mapping[str, int]:
    return {table: count for table, count in erasable(database, tenant, bot).items() if count}


def _partitions(database: Database) -> set[str]:
    with database.connect() as connection:
        rows = connection.execute("SELECT relname FROM pg_class WHERE relname ~ '^knowledge_chunks_p[0-9]+$'")
        return {row[0] for row in rows}


def _finds(database: Database, tenant: str, bot: str) -> int:
    scope = open_scope(database, tenant, bot)
    return len(LexicalRetriever(database).search("PX-4412", scope))


def test_a_tenant_is_gone_from_every_table_and_the_other_is_untouched(world: Database) -> None:
    other, all_rows, partitions = _holding(world, "other"), _rows(world), _partitions(world)
    report = erase(world, "acme")
    assert report.counts["knowledge_chunks"] == 4
    assert report.counts["bots"] == 2
    assert not any(report.remaining.values())
    assert list_tenants(world) == ["other"]
    assert _holding(world, "other") == other
    assert len(_partitions(world)) == len(partitions) - 2
    assert _finds(world, "other", "support") == 1
    # What is left of each table is the other tenant's, and the catalogue of profiles, which is nobody's.
    left = {table: count for table, count in _rows(world).items() if count and table != "profile_specs"}
    assert left == other
    assert _rows(world)["profile_specs"] == all_rows["profile_specs"]


def test_every_table_that_names_a_tenant_is_counted(world: Database) -> None:
    with world.connect() as connection:
        named = {
            row[0]
            for row in connection.execute(
                "SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid "
                "WHERE c.relnamespace = 'rag'::regnamespace AND c.relkind IN ('r', 'p') "
                "AND NOT c.relispartition AND a.attname = 'tenant_id'"
            )
        }
    assert named | {"tenants"} == set(erasable(world, "acme"))


def test_one_bot_goes_and_the_tenants_other_bot_keeps_answering(world: Database) -> None:
    sales = _holding(world, "acme", "sales")
    report = erase(world, "acme", "support")
    assert report.counts["tenants"] == 0
    assert list_bots(world, "acme") == ["sales"]
    assert _holding(world, "acme", "sales") == sales
    assert _finds(world, "acme", "sales") == 1


def test_what_was_erased_can_be_ingested_again(world: Database, tmp_path: Path) -> None:
    erase(world, "acme", "support")
    ingested(world, tmp_path / "a", "acme", FILES)
    assert _finds(world, "acme", "support") == 1


def test_a_retired_profile_goes_with_its_partition(world: Database) -> None:
    retired = enable_pair(world, "acme", "support", "static-64")
    with world.transaction("ingest", {"tenant": "acme"}) as connection:
        connection.execute("UPDATE rag.embedding_profiles SET status = 'retired' WHERE id = %s", [retired.id])
    erase(world, "acme")
    assert partition_name(retired.id) not in _partitions(world)


@pytest.mark.parametrize("step", ["pointers", "half the partitions", "all partitions"])
def test_an_erasure_that_was_killed_is_finished_by_the_next_one(world: Database, step: str) -> None:
    with world.transaction("ingest", {"tenant": "acme"}) as connection:
        connection.execute("UPDATE rag.knowledge_spaces SET active_profile_id = NULL")
        profiles = [row[0] for row in connection.execute("SELECT id FROM rag.embedding_profiles ORDER BY id")]
    for profile in profiles[: {"pointers": 0, "half the partitions": 1, "all partitions": 2}[step]]:
        drop_partition(world, profile)
    assert not any(erase(world, "acme").remaining.values())
    assert list_tenants(world) == ["other"]


def test_a_partition_that_was_detached_and_not_yet_dropped_goes_too(world: Database) -> None:
    with world.transaction("ingest", {"tenant": "acme"}) as connection:
        (profile,) = connection.execute("SELECT min(id) FROM rag.embedding_profiles").fetchone() or (0,)
    with world.connect("owner", autocommit=True) as connection:
        name = partition_name(profile)
        connection.execute(f"ALTER TABLE rag.knowledge_chunks DETACH PARTITION rag.{name} CONCURRENTLY")  # type: ignore[arg-type]
    erase(world, "acme")
    assert name not in _partitions(world)


def test_rows_that_keep_coming_are_an_error_and_not_a_success(
    world: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = erasure._erase_once

    def with_an_ingest_behind_it(database: Database, tenant: str, bot: str | None) -> None:
        once(database, tenant, bot)
        ingested(database, tmp_path / "a", "acme", FILES)

    monkeypatch.setattr(erasure, "_erase_once", with_an_ingest_behind_it)
    with pytest.raises(RagError, match=r"2 in knowledge_chunks.*ingest is probably running"):
        erase(world, "acme")


def test_a_profile_enabled_in_between_is_taken_along(world: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    dropped = erasure.drop_partition
    late: list[int] = []

    def and_enable_another(database: Database, profile: int) -> None:
        dropped(database, profile)
        if not late:
            late.append(enable_pair(database, "acme", "support", "static-64").id)

    monkeypatch.setattr(erasure, "drop_partition", and_enable_another)
    assert not any(erase(world, "acme").remaining.values())
    assert late
    assert partition_name(late[0]) not in _partitions(world)


def test_erasing_what_does_not_exist_says_so(world: Database) -> None:
    with pytest.raises(UnknownTenant, match="nobody"):
        erase(world, "nobody")
    with pytest.raises(UnknownBot, match="nobody"):
        erase(world, "acme", "nobody")
    with pytest.raises(InvalidKey):
        erase(world, "a|b")


def test_the_pairs_of_an_erased_bot_are_not_built_again(world: Database) -> None:
    erase(world, "acme", "support")
    with pytest.raises(UnknownBot):
        ingest(world, "acme", "support", "hash-64")
