from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa
import pytest

from rag_assets.ingest.chunk_files import ChunkFile, spool
from rag_assets.ingest.embeddings import vectors_of, with_vectors
from rag_assets.io_managers import ParquetIOManager
from rag_assets.partitions import ensure_partitions, pair_key, tenant_profile

received: list[ChunkFile | pa.Table] = []


def table(rows: int) -> pa.Table:
    vectors = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
    return with_vectors(pa.table({"id": [str(row) for row in range(rows)]}), vectors)


def pass_on(instance: dg.DagsterInstance, base: str, value: Any, tenant: str = "acme", wanted: Any = ChunkFile) -> Any:
    """One run in which an asset makes `value`, and the next one reads it as what it wants."""

    @dg.asset(partitions_def=tenant_profile)
    def vectors() -> Any:
        return value

    def read(vectors: Any) -> None:
        received.append(vectors)

    read.__annotations__["vectors"] = wanted

    reader = dg.asset(partitions_def=tenant_profile, name="reader")(read)
    ensure_partitions(instance, [tenant], ["hash-64"])
    return dg.materialize(
        [vectors, reader],
        instance=instance,
        partition_key=pair_key(tenant, "hash-64"),
        resources={"io_manager": ParquetIOManager(base=base)},
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
        selection=["vectors", "reader"],
        raise_on_error=False,
    )


@pytest.fixture
def instance() -> Any:
    received.clear()
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.mark.parametrize("rows", [0, 1, 1000])
def test_a_table_comes_back_as_it_was_with_its_vectors(instance: dg.DagsterInstance, tmp_path: Path, rows: int) -> None:
    result = pass_on(instance, str(tmp_path), table(rows))
    assert result.success
    found = received[-1].table()
    assert found.schema == table(rows).schema
    assert found.equals(table(rows))
    assert vectors_of(found).shape == (rows, 3)
    (event,) = result.asset_materializations_for_node("vectors")
    size = (tmp_path / "acme" / "hash-64" / "vectors.parquet").stat().st_size
    assert (event.metadata["rows"].value, event.metadata["bytes"].value) == (rows, size)


def test_a_failed_write_leaves_the_old_table_and_no_rest(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    assert pass_on(instance, str(tmp_path), table(5)).success
    before = (tmp_path / "acme" / "hash-64" / "vectors.parquet").read_bytes()
    assert not pass_on(instance, str(tmp_path), "not a table").success
    assert [path.name for path in (tmp_path / "acme" / "hash-64").iterdir()] == ["vectors.parquet"]
    assert (tmp_path / "acme" / "hash-64" / "vectors.parquet").read_bytes() == before


def test_object_stores_work_by_their_url(instance: dg.DagsterInstance) -> None:
    assert pass_on(instance, "memory://staging", table(4)).success
    assert received[-1].table().equals(table(4))


def test_who_asks_for_a_table_gets_one(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    assert pass_on(instance, str(tmp_path), table(4), wanted=pa.Table).success
    assert received[-1].equals(table(4))


def test_a_file_that_a_stage_wrote_is_moved_and_private(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    rows = table(3)
    made = spool([rows.slice(0, 2), rows.slice(2)], rows.schema, tmp_path)
    assert pass_on(instance, str(tmp_path), made).success
    path = tmp_path / "acme" / "hash-64" / "vectors.parquet"
    assert received[-1].table().equals(rows)
    assert path.stat().st_mode & 0o777 == 0o600
    assert not Path(made.path.path).exists()


def test_tenants_do_not_share_files(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    pass_on(instance, str(tmp_path), table(1), "acme")
    pass_on(instance, str(tmp_path), table(2), "globex")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["acme", "globex"]
    assert [one.rows for one in received] == [1, 2]
