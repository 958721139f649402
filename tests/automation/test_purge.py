from __future__ import annotations

import sqlalchemy as sa
from dagster._core.storage.event_log.sql_event_log import SqlEventLogStorage

from rag_assets.runs.purge import purge_tenant
from tests.support.dagster_world import World

SECRET = "plutonium"


def holds(world: World, text: str) -> list[str]:
    """The tables of Dagster's event storage that hold this text anywhere."""
    storage = world.instance.event_log_storage
    assert isinstance(storage, SqlEventLogStorage)
    found = []
    with storage.index_connection() as connection:
        for table in sa.inspect(connection).get_table_names():
            for row in connection.execute(sa.text(f"SELECT * FROM {table}")):
                if text in str(tuple(row)):
                    found.append(table)
                    break
    return found


def test_nothing_of_the_tenant_stays_and_the_other_tenant_keeps_all(world: World) -> None:
    globex, acme = world.tenant("globex"), world.tenant("acme")
    (globex / "b.txt").write_text("The valve is shut.")
    (acme / "a.txt").write_text(f"The {SECRET} pump is dry.")
    (acme / f"{SECRET}.pdf").write_bytes(b"%PDF-1.7 this is not one")
    world.ingest("globex")
    world.ingest("acme")
    assert {"event_logs", "asset_keys", "asset_check_executions"} <= set(holds(world, SECRET))

    counts = purge_tenant(world.instance, "acme")

    assert counts == {"runs": 2, "logs": 0, "partitions": 1}
    assert holds(world, SECRET) == []
    assert holds(world, "acme") == []
    assert world.instance.get_dynamic_partitions("tenant") == ["globex"]
    assert len(world.instance.get_runs()) == 2
    assert purge_tenant(world.instance, "acme") == {"runs": 0, "logs": 0, "partitions": 0}


def test_runs_started_in_the_ui_go_as_well_and_the_partition_may_stay(world: World) -> None:
    root = world.tenant("acme")
    (root / "a.txt").write_text(f"The {SECRET} pump is dry.")
    world.run("ingest_sources", "acme")
    counts = purge_tenant(world.instance, "acme", keep_partition=True)
    assert counts == {"runs": 1, "logs": 0, "partitions": 0}
    assert world.instance.get_dynamic_partitions("tenant") == ["acme"]
