"""Parquet between assets: one file per tenant, profile and asset, on any storage that fsspec knows."""

from __future__ import annotations

import shutil
import time
from collections.abc import Collection
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc
from upath import UPath

from rag_assets.ingest.chunk_files import UNFINISHED, ChunkFile, spool
from rag_assets.keys import check_key
from rag_assets.private import make_private
from rag_assets.runs.reports import add_seconds
from rag_assets.settings import load_settings


class ParquetIOManager(dg.IOManager):
    """Keeps chunks under `<base>/<tenant>/<profile>/<asset>.parquet`, and those of a run for one bot in `bots/<bot>`
    there: runs for several may be under way at once, and none may read what another one has cut. Hands them over as a
    `ChunkFile`, which is read part by part; an input that is annotated as a `pyarrow.Table` gets all of them at once.

    `base` is a folder or an fsspec URL; None means what `RAG_STORAGE` or `RAG_HOME` say when a step runs.
    The tenant comes first, so that erasing one is removing one folder.
    """

    def __init__(self, base: str | None = None) -> None:
        self.base = base

    def handle_output(self, context: dg.OutputContext, obj: ChunkFile | pa.Table) -> None:
        """Keep a file, which is moved, or a table; a reader finds the old file or the new one, never a part of one."""
        path = self._path(context.partition_key, context.asset_key, _bot_of(context))
        began = time.monotonic()
        make_folder(path.parent, staging_base(self.base))
        if isinstance(obj, pa.Table):
            obj = spool([obj], obj.schema, _local(path.parent))
        rows = obj.rows
        _move(obj.path, path)
        took = time.monotonic() - began
        add_seconds(took)
        context.add_output_metadata({"rows": rows, "bytes": path.stat().st_size, "write_seconds": round(took, 3)})

    def load_input(self, context: dg.InputContext) -> ChunkFile | pa.Table:
        """What the upstream asset wrote for the same tenant and profile."""
        kept = ChunkFile(self._path(context.asset_partition_key, context.asset_key, _bot_of(context)))
        if context.dagster_type.typing_type is not pa.Table:
            return kept
        table = kept.table()
        pa.default_memory_pool().release_unused()
        return table

    def _path(self, partition: str, asset: dg.AssetKey, bot: str | None = None) -> UPath:
        if not isinstance(partition, dg.MultiPartitionKey):
            raise TypeError(f"{asset.to_user_string()} is not partitioned by tenant and profile")
        keys = partition.keys_by_dimension
        folder = staging_folder(keys["tenant"], self.base) / check_key(keys["profile"], "profile")
        if bot:
            folder = folder / "bots" / check_key(bot, "bot")
        return folder / f"{asset.to_python_identifier()}.parquet"


def _bot_of(context: dg.InputContext | dg.OutputContext) -> str | None:
    """The bot that a run is limited to."""
    return (context.step_context.op_config or {}).get("bot")


def staging_base(base: str | None = None) -> UPath:
    """The folder, or its like in an object store, that holds the Parquet files of all tenants."""
    return UPath(base or load_settings().storage)


def staging_folder(tenant: str, base: str | None = None) -> UPath:
    """The folder that holds all Parquet files of a tenant.

    Raises:
        InvalidKey: what ought to be a tenant could lead elsewhere; Dagster takes any text as a partition.
    """
    return staging_base(base) / check_key(tenant, "tenant")


def spool_folder(tenant: str, profile: str) -> Path | None:
    """Where a step writes what becomes its file: beside that one, so that it is only renamed; None for a storage of
    another kind."""
    folder = staging_folder(tenant) / check_key(profile, "profile")
    if is_local(folder):
        make_folder(folder, staging_base())
    return _local(folder)


def drop_staged_sources(tenant: str, sources: Collection[str], base: str | None = None) -> int:
    """Take sources out of the Parquet files of a tenant, which hold chunks as text; returns how many files had any."""
    folder, changed = staging_folder(tenant, base), 0
    gone = pa.array(sources, pa.string())
    for path in folder.rglob("*.parquet") if folder.exists() else []:
        kept = ChunkFile(path)
        if not any(pc.any(pc.is_in(part["source_id"], gone)).as_py() for part in kept.parts()):
            continue
        others = (part.filter(pc.invert(pc.is_in(part["source_id"], gone))) for part in kept.parts())
        _move(spool(others, kept.head(0).schema, _local(path.parent)).path, path)
        changed += 1
    return changed


def unfinished_files(tenant: str, base: str | None = None) -> int:
    """How many files of a tenant are being written, or were when their process was killed."""
    folder = staging_folder(tenant, base)
    return sum(1 for _ in folder.rglob(UNFINISHED)) if folder.exists() else 0


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


def _local(folder: UPath) -> Path | None:
    return Path(folder.path) if is_local(folder) else None


def _move(spooled: UPath, path: UPath) -> None:
    """Put a spooled file in the place of `path`; an object appears when its upload is complete."""
    try:
        if is_local(path):
            shutil.move(spooled.path, path.path)  # a rename, where both are of one file system
        else:
            with open(spooled.path, "rb") as source, path.open("wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
    finally:
        spooled.unlink(missing_ok=True)
