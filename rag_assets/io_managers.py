"""Parquet between assets: one file per tenant, profile and asset, on any storage that fsspec knows."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from pathlib import Path
from uuid import uuid4

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from upath import UPath

from rag_assets.keys import check_key
from rag_assets.private import FILE, make_private
from rag_assets.runs.reports import add_seconds
from rag_assets.settings import load_settings

_ROW_GROUP = 2000  # rows that are encoded at a time; text does not repeat, so it gets no dictionary


class ParquetIOManager(dg.IOManager):
    """Keeps `pyarrow.Table` under `<base>/<tenant>/<profile>/<asset>.parquet`.

    `base` is a folder or an fsspec URL; None means what `RAG_STORAGE` or `RAG_HOME` say when a step runs.
    The tenant comes first, so that erasing one is removing one folder.
    """

    def __init__(self, base: str | None = None) -> None:
        self.base = base

    def handle_output(self, context: dg.OutputContext, obj: pa.Table) -> None:
        """Write the table; a reader finds the old file or the new one, never a part of one."""
        path = self._path(context.partition_key, context.asset_key)
        rows, began = obj.num_rows, time.monotonic()
        make_folder(path.parent, staging_base(self.base))
        _write(obj, path)
        del obj
        pa.default_memory_pool().release_unused()
        took = time.monotonic() - began
        add_seconds(took)
        context.add_output_metadata({"rows": rows, "bytes": path.stat().st_size, "write_seconds": round(took, 3)})

    def load_input(self, context: dg.InputContext) -> pa.Table:
        """Read the table that the upstream asset wrote for the same tenant and profile."""
        path = self._path(context.asset_partition_key, context.asset_key)
        with path.open("rb") as file:
            table = pq.read_table(file, use_threads=False, pre_buffer=False)
        pa.default_memory_pool().release_unused()
        return table

    def _path(self, partition: str, asset: dg.AssetKey) -> UPath:
        if not isinstance(partition, dg.MultiPartitionKey):
            raise TypeError(f"{asset.to_user_string()} is not partitioned by tenant and profile")
        keys = partition.keys_by_dimension
        base = staging_folder(keys["tenant"], self.base)
        return base / check_key(keys["profile"], "profile") / f"{asset.to_python_identifier()}.parquet"


def staging_base(base: str | None = None) -> UPath:
    """The folder, or its like in an object store, that holds the Parquet files of all tenants."""
    return UPath(base or load_settings().storage)


def staging_folder(tenant: str, base: str | None = None) -> UPath:
    """The folder that holds all Parquet files of a tenant.

    Raises:
        InvalidKey: what ought to be a tenant could lead elsewhere; Dagster takes any text as a partition.
    """
    return staging_base(base) / check_key(tenant, "tenant")


def drop_staged_sources(tenant: str, sources: Collection[str], base: str | None = None) -> int:
    """Take sources out of the Parquet files of a tenant, which hold chunks as text; returns how many files had any."""
    folder, changed = staging_folder(tenant, base), 0
    for path in folder.rglob("*.parquet") if folder.exists() else []:
        with path.open("rb") as file:
            table = pq.read_table(file, use_threads=False, pre_buffer=False)
        others = pc.invert(pc.is_in(table["source_id"], pa.array(sources, pa.string())))
        if not pc.all(others).as_py():
            _write(table.filter(others), path)
            changed += 1
    return changed


def make_folder(folder: UPath, base: UPath) -> None:
    """Make a folder under `base`, for nobody else where it is one of this machine."""
    if not is_local(folder):
        folder.mkdir(parents=True, exist_ok=True)
        return
    for part in reversed([folder, *folder.parents]):
        if part.is_relative_to(base) and part != base:
            make_private(Path(part.path))


def is_local(path: UPath) -> bool:
    """Whether a path is in this machine's file system."""
    return path.protocol in ("", "file", "local")


def _write(table: pa.Table, path: UPath) -> None:
    if not is_local(path):
        # An object appears when its upload is complete.
        with path.open("wb") as file:
            pq.write_table(table, file, use_dictionary=False, row_group_size=_ROW_GROUP)
        return
    part = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        with open(part.path, "wb", opener=_private) as file:
            pq.write_table(table, file, use_dictionary=False, row_group_size=_ROW_GROUP)
        os.replace(part.path, path.path)
    finally:
        part.unlink(missing_ok=True)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, FILE)
