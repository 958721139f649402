from __future__ import annotations

from pathlib import Path

import dagster as dg
import numpy as np
import pyarrow as pa
import pytest

from rag_assets.ingest.embeddings import vectors_of, with_vectors
from rag_assets.io_managers import ParquetIOManager
from rag_assets.partitions import pair_key, tenant_profile

KEY = pair_key("acme", "hash-64")


def output_context(key: str = KEY) -> dg.OutputContext:
    return dg.build_output_context(asset_key=dg.AssetKey("vectors"), partition_key=key)


def input_context(key: str = KEY) -> dg.InputContext:
    return dg.build_input_context(
        asset_key=dg.AssetKey("vectors"),
        partition_key=key,
        asset_partition_key_range=dg.PartitionKeyRange(key, key),
        asset_partitions_def=tenant_profile,
        upstream_output=output_context(key),
    )


def table(rows: int) -> pa.Table:
    vectors = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
    return with_vectors(pa.table({"id": [str(row) for row in range(rows)]}), vectors)


@pytest.mark.parametrize("rows", [0, 1, 1000])
def test_a_table_comes_back_as_it_was_with_its_vectors(tmp_path: Path, rows: int) -> None:
    manager, context = ParquetIOManager(base=str(tmp_path)), output_context()
    manager.handle_output(context, table(rows))
    back = manager.load_input(input_context())
    assert back.schema == table(rows).schema
    assert back.equals(table(rows))
    assert vectors_of(back).shape == (rows, 3)
    size = (tmp_path / "acme" / "hash-64" / "vectors.parquet").stat().st_size
    assert context.get_logged_metadata() == {"rows": rows, "bytes": size}


def test_a_failed_write_leaves_the_old_table_and_no_rest(tmp_path: Path) -> None:
    manager = ParquetIOManager(base=str(tmp_path))
    manager.handle_output(output_context(), table(5))
    with pytest.raises(AttributeError):
        manager.handle_output(output_context(), "not a table")
    assert manager.load_input(input_context()).num_rows == 5
    assert [path.name for path in (tmp_path / "acme" / "hash-64").iterdir()] == ["vectors.parquet"]


def test_object_stores_work_by_their_url() -> None:
    manager = ParquetIOManager(base="memory://staging")
    manager.handle_output(output_context(), table(4))
    assert manager.load_input(input_context()).equals(table(4))


def test_an_asset_without_a_pair_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="not partitioned by tenant and profile"):
        ParquetIOManager(base=str(tmp_path)).handle_output(output_context("acme"), table(1))
