from __future__ import annotations

from pathlib import Path

import pytest

from rag_assets.errors import InvalidKey, RagError, UnknownBot, UnknownTenant
from rag_assets.ingest.pairs import enable_pair
from rag_assets.ingest.run import ingest
from rag_assets.store import erase as erasure
from rag_assets.store.database import Database
from rag_assets.store.erase import erasable, erase
from rag_assets.store.partitions import drop_partition, partition_name
from rag_assets.store.tenants import list_bots, list_tenants
from tests.support.erasure import FILES, finds, holding, partitions_of_profiles, rows_by_table
from tests.support.worlds import ingested


@pytest.fixture
def world(database: Database, tmp_path: Path) -> Database:
    """Tenant `acme` with the bots `support` and `sales`, and tenant `other`; all hold the same text."""
    ingested(database, tmp_path / "a", "acme", FILES)
    ingested(database, tmp_path / "b", "acme", FILES, bot="sales")
    ingested(database, tmp_path / "c", "other", FILES)
    return database


def test_a_tenant_is_gone_from_every_table_and_the_other_is_untouched(world: Database) -> None:
    other, all_rows, partitions = holding(world, "other"), rows_by_table(world), partitions_of_profiles(world)
    report = erase(world, "acme")
    assert report.counts["knowledge_chunks"] == 4
    assert report.counts["bots"] == 2
    assert not any(report.remaining.values())
    assert list_tenants(world) == ["other"]
    assert holding(world, "other") == other
    assert len(partitions_of_profiles(world)) == len(partitions) - 2
    assert finds(world, "other", "support") == 1
    # What is left of each table is the other tenant's, and the catalogue of profiles, which is nobody's.
    left = {table: count for table, count in rows_by_table(world).items() if count and table != "profile_specs"}
    assert left == other
    assert rows_by_table(world)["profile_specs"] == all_rows["profile_specs"]


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


def test_what_waits_for_a_job_of_an_erased_bot_is_looked_at_again(world: Database) -> None:
    with world.connect() as connection:
        connection.execute(
            "INSERT INTO rag.embedding_jobs (id, tenant_id, bot_id, profile, model_key, route, display_name, items, "
            "tokens, deadline) VALUES (gen_random_uuid(), 'acme', 'support', 'hash-64', 'm', 'r', 'j', 1, 1, now())"
        )
        connection.execute(
            "INSERT INTO rag.embedding_job_sources (embedding_profile_id, source_id, checksum, job_id, tenant_id, "
            "bot_id) SELECT sp.embedding_profile_id, sp.source_id, sp.checksum, j.id, sp.tenant_id, sp.bot_id "
            "FROM rag.source_profiles sp, rag.embedding_jobs j WHERE sp.tenant_id = 'acme'"
        )
    report = erase(world, "acme", "support")
    assert (report.counts["embedding_jobs"], report.counts["embedding_job_sources"]) == (1, 4)
    assert rows_by_table(world)["embedding_job_sources"] == 0
    assert finds(world, "acme", "sales") == 1


def test_a_partition_of_another_tenant_that_is_being_dropped_is_in_nobodys_way(world: Database) -> None:
    with world.connect("owner") as connection:
        parent, profile = connection.execute(
            "SELECT i.inhparent::regclass::text, i.inhrelid::regclass::text FROM pg_inherits i "
            "WHERE i.inhrelid::regclass::text ~ '_p[0-9]+$' ORDER BY 2 DESC"
        ).fetchone() or ("", "")
        connection.execute(f"ALTER TABLE {parent} DETACH PARTITION {profile}")  # type: ignore[arg-type]
    assert not any(erase(world, "acme").remaining.values())
    assert profile.removeprefix("rag.") in partitions_of_profiles(world)


def test_one_bot_goes_and_the_tenants_other_bot_keeps_answering(world: Database) -> None:
    sales = holding(world, "acme", "sales")
    report = erase(world, "acme", "support")
    assert report.counts["tenants"] == 0
    assert list_bots(world, "acme") == ["sales"]
    assert holding(world, "acme", "sales") == sales
    assert finds(world, "acme", "sales") == 1


def test_what_was_erased_can_be_ingested_again(world: Database, tmp_path: Path) -> None:
    erase(world, "acme", "support")
    ingested(world, tmp_path / "a", "acme", FILES)
    assert finds(world, "acme", "support") == 1


def test_a_retired_profile_goes_with_its_partition(world: Database) -> None:
    retired = enable_pair(world, "acme", "support", "static-64")
    with world.work("acme") as connection:
        connection.execute("UPDATE rag.embedding_profiles SET status = 'retired' WHERE id = %s", [retired.id])
    erase(world, "acme")
    assert partition_name(retired.id) not in partitions_of_profiles(world)


@pytest.mark.parametrize("step", ["pointers", "half the partitions", "all partitions"])
def test_an_erasure_that_was_killed_is_finished_by_the_next_one(world: Database, step: str) -> None:
    with world.work("acme") as connection:
        connection.execute("UPDATE rag.knowledge_spaces SET active_profile_id = NULL")
        profiles = [row[0] for row in connection.execute("SELECT id FROM rag.embedding_profiles ORDER BY id")]
    for profile in profiles[: {"pointers": 0, "half the partitions": 1, "all partitions": 2}[step]]:
        drop_partition(world, profile)
    assert not any(erase(world, "acme").remaining.values())
    assert list_tenants(world) == ["other"]


def test_a_partition_that_was_detached_and_not_yet_dropped_goes_too(world: Database) -> None:
    with world.work("acme") as connection:
        (profile,) = connection.execute("SELECT min(id) FROM rag.embedding_profiles").fetchone() or (0,)
    with world.connect("owner", autocommit=True) as connection:
        name = partition_name(profile)
        (group,) = connection.execute(
            "SELECT inhparent::regclass::text FROM pg_inherits WHERE inhrelid = %s::regclass", [f"rag.{name}"]
        ).fetchone() or ("",)
        connection.execute(f"ALTER TABLE {group} DETACH PARTITION rag.{name} CONCURRENTLY")  # type: ignore[arg-type]
    erase(world, "acme")
    assert name not in partitions_of_profiles(world)


def test_rows_that_keep_coming_are_an_error_and_not_a_success(
    world: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = erasure._erase_once

    def with_an_ingest_behind_it(database: Database, tenant: str, bot: str | None) -> None:
        once(database, tenant, bot)
        ingested(database, tmp_path / "a", "acme", FILES)

    monkeypatch.setattr(erasure, "_erase_once", with_an_ingest_behind_it)
    with pytest.raises(RagError, match=r"2 in knowledge_chunks.*ingest that is still running"):
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
    assert partition_name(late[0]) not in partitions_of_profiles(world)


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
