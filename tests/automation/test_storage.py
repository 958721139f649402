"""Dagster's storage keeps its connections, and gets over the loss of them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import dagster as dg
import psycopg
import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from rag_assets.launch.ingest import materialize_ingest
from rag_assets.launch.instance import dagster_environment, dagster_instance
from rag_assets.settings import load_settings
from tests.support.dagster_world import PROFILE, World

pytestmark = pytest.mark.slow


@pytest.fixture
def opened() -> Iterator[list[object]]:
    """The connections that Dagster has opened."""
    connections: list[object] = []

    def note(connection: object, _: object) -> None:
        connections.append(connection)

    event.listen(Engine, "connect", note)
    yield connections
    event.remove(Engine, "connect", note)


def _database() -> str:
    return dagster_environment(load_settings())["DAGSTER_PG_URL"].split("?")[0].rsplit("/", 1)[1]


def cut(world: World) -> int:
    """Break every connection to Dagster's database; returns how many there were."""
    with psycopg.connect(world.database.url, autocommit=True) as connection:
        ended = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()",
            [_database()],
        )
        return len(ended.fetchall())


def test_an_ingest_opens_a_few_connections_and_not_one_for_each_statement(world: World, opened: list[object]) -> None:
    (world.tenant("acme") / "a.txt").write_text("The pump is dry.")
    materialize_ingest(world.database, load_settings(), "acme", "help", PROFILE.name)  # makes the tables, too
    opened.clear()
    materialize_ingest(world.database, load_settings(), "acme", "help", PROFILE.name)
    assert len(opened) <= 4


def test_a_connection_that_broke_is_replaced_without_an_error(world: World) -> None:
    with dagster_instance(load_settings()) as instance:
        instance.add_dynamic_partitions("tenant", ["acme"])
        assert cut(world) > 0
        assert instance.get_dynamic_partitions("tenant") == ["acme"]
        assert instance.get_runs() == []


def test_threads_share_the_connections_and_an_instance_that_is_closed_leaves_none(
    world: World, opened: list[object]
) -> None:
    with dagster_instance(load_settings()) as instance:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda number: instance.add_dynamic_partitions("tenant", [f"t{number}"]), range(40)))
        assert len(instance.get_dynamic_partitions("tenant")) == 40
    assert opened
    assert cut(world) == 0


def test_an_instance_finds_its_storage_again_by_its_reference(world: World) -> None:
    with dagster_instance(load_settings()) as instance:
        instance.add_dynamic_partitions("tenant", ["acme"])
        with dg.DagsterInstance.from_ref(instance.get_ref()) as again:
            assert again.get_dynamic_partitions("tenant") == ["acme"]
