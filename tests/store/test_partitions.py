"""Where the partition of a profile is attached, and what one more of them costs everybody else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

from rag_assets.ingest.pairs import enable_pair
from rag_assets.retrieval import LexicalRetriever, open_scope
from rag_assets.store.database import Database
from rag_assets.store.partitions import GROUP_SIZE, drop_partition, partition_exists, partition_name
from rag_assets.store.tenants import add_tenant
from tests.support.worlds import ingested

FILES = {"a.md": "The main valve is red."}


def as_superuser(database: Database, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(database.url, autocommit=True) as connection:
        return connection.execute(statement).fetchall()  # type: ignore[call-overload,no-any-return]


def parent_of(database: Database, profile: int) -> str:
    ((parent,),) = as_superuser(
        database,
        "SELECT p.relname FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhparent "
        f"WHERE i.inhrelid = 'rag.{partition_name(profile)}'::regclass",
    )
    return str(parent)


def enabled(database: Database, tenant: str) -> int:
    add_tenant(database, tenant, "bot")
    return enable_pair(database, tenant, "bot", "hash-64").id


@pytest.fixture
def world(database: Database, tmp_path: Path) -> Database:
    ingested(database, tmp_path / "docs", "acme", FILES, bot="bot")
    return database


def test_one_more_profile_adds_nothing_to_the_tables_that_every_session_reads(world: Database) -> None:
    enabled(world, "one")
    shared = (
        "SELECT (SELECT count(*) FROM pg_trigger WHERE tgrelid = 'rag.embedding_profiles'::regclass), "
        "(SELECT count(*) FROM pg_inherits WHERE inhparent = 'rag.knowledge_chunks'::regclass)"
    )
    before = as_superuser(world, shared)
    enabled(world, "two")
    assert as_superuser(world, shared) == before


def test_profiles_are_attached_in_groups_of_a_hundred_and_found_and_dropped_there(
    world: Database, tmp_path: Path
) -> None:
    first = open_scope(world, "acme", "bot").profile_id
    as_superuser(world, f"SELECT setval('rag.embedding_profiles_id_seq', {GROUP_SIZE - 1})")
    ingested(world, tmp_path / "late", "late", FILES, bot="bot")
    late = open_scope(world, "late", "bot")
    assert late.profile_id >= GROUP_SIZE
    assert parent_of(world, first) == "knowledge_chunks_g0"
    assert parent_of(world, late.profile_id) == "knowledge_chunks_g1"
    assert len(LexicalRetriever(world).search("valve", late)) == 1
    drop_partition(world, late.profile_id)
    with world.work("late") as connection:
        assert not partition_exists(connection, late.profile_id)
        assert partition_exists(connection, first)
    assert enabled(world, "later") == late.profile_id + 1


def test_a_group_of_which_an_earlier_version_has_attached_some_goes_on_without(world: Database) -> None:
    profile = open_scope(world, "acme", "bot").profile_id
    table = f"rag.{partition_name(profile)}"
    with psycopg.connect(world.url, autocommit=True) as connection:
        connection.execute(f"ALTER TABLE rag.knowledge_chunks_g0 DETACH PARTITION {table}")
        connection.execute("DROP TABLE rag.knowledge_chunks_g0")
        connection.execute(f"ALTER TABLE rag.knowledge_chunks ATTACH PARTITION {table} FOR VALUES IN ({profile})")
    assert parent_of(world, enabled(world, "next")) == "knowledge_chunks"
    drop_partition(world, profile)
    with world.work("acme") as connection:
        assert not partition_exists(connection, profile)


def test_a_group_shows_nothing_even_to_a_role_that_was_granted_it(world: Database) -> None:
    with psycopg.connect(world.url) as connection:
        connection.execute("GRANT SELECT ON rag.knowledge_chunks_g0 TO rag_app")
        connection.execute("SET LOCAL ROLE rag_app")
        assert connection.execute("SELECT count(*) FROM rag.knowledge_chunks_g0").fetchone() == (0,)
        connection.rollback()
