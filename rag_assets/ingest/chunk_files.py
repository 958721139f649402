"""Chunks on their way from one stage to the next: a Parquet file that is written and read part by part.

A part holds whole sources, so memory is bounded by the largest source and not by what a run has to do.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from upath import UPath

from rag_assets.ingest.columns import numbers
from rag_assets.private import FILE

PART_ROWS = 2000  # chunks of a part, or those of one source where it has more
UNFINISHED = ".chunks-*.part"
_LEFT_S = 24 * 3600  # what a killed run left behind is no longer being written


@dataclass(frozen=True)
class ChunkFile:
    """Rows of chunks, those of a source together and those of a profile together, in a Parquet file."""

    path: UPath

    @property
    def rows(self) -> int:
        with self._opened() as file:
            return int(file.metadata.num_rows)

    def parts(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The rows in order, in parts of whole sources, whatever the groups of the file are; all columns, or these, of
        which `source_id` has to be one."""
        with self._opened() as file:
            yield from _whole_sources(file, range(file.num_row_groups), columns)
        pa.default_memory_pool().release_unused()

    def parts_of(self, profile: int, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The same of one profile; no group without rows of it is read. `profile_id` has to be one of the columns."""
        wanted = numbers([profile], pa.int64())[0]
        with self._opened() as file:
            groups = [
                group for group in range(file.num_row_groups) if _may_hold(file.metadata.row_group(group), profile)
            ]
            for part in _whole_sources(file, groups, columns):
                mine = part.filter(pc.equal(part["profile_id"], wanted))
                if mine.num_rows:
                    yield mine
        pa.default_memory_pool().release_unused()

    def head(self, rows: int) -> pa.Table:
        """The first rows, at most so many."""
        with self._opened() as file:
            if not file.num_row_groups:
                return file.schema_arrow.empty_table()
            return file.read_row_group(0, use_threads=False).slice(0, rows)

    def rows_by_profile(self) -> Counter[int]:
        """How many rows there are of each profile."""
        counts: Counter[int] = Counter()
        with self._opened() as file:
            for group in range(file.num_row_groups):
                for one in file.read_row_group(group, ["profile_id"], use_threads=False)["profile_id"].value_counts():
                    counts[one["values"].as_py()] += one["counts"].as_py()
        return counts

    def table(self) -> pa.Table:
        """All rows at once."""
        with self._opened() as file:
            return file.read(use_threads=False)

    @contextmanager
    def _opened(self) -> Iterator[pq.ParquetFile]:
        with self.path.open("rb") as file:
            yield pq.ParquetFile(file, pre_buffer=False)


def _whole_sources(file: pq.ParquetFile, groups: Sequence[int], columns: Sequence[str] | None) -> Iterator[pa.Table]:
    rest: pa.Table | None = None
    for group in groups:
        table = file.read_row_group(group, columns, use_threads=False)
        if rest is not None:
            table = pa.concat_tables([rest, table])
        whole = table.num_rows
        if group != groups[-1] and table.num_rows:
            sources = table["source_id"]
            whole = pc.index(sources, sources[-1]).as_py()  # the last one may go on in the next group
        rest = table.slice(whole)
        if whole:
            yield table.slice(0, whole)
        del table


def _may_hold(group: pq.RowGroupMetaData, profile: int) -> bool:
    column = next(one for one in map(group.column, range(group.num_columns)) if one.path_in_schema == "profile_id")
    found = column.statistics
    return found is None or not found.has_min_max or found.min <= profile <= found.max


def spool(parts: Iterable[pa.Table], schema: pa.Schema, folder: Path | None = None) -> ChunkFile:
    """Write parts to a new file of `folder`, by default that of temporary files, which whoever asked for it removes.

    Raises:
        OSError: it cannot be written; names the folder. Nothing is left of it then, nor where a part cannot be made.
    """
    where = folder or Path(tempfile.gettempdir())
    _sweep(where)
    path = where / f".chunks-{uuid4().hex}.part"
    try:
        with open(path, "xb", opener=_private) as file:
            write_parts(parts, schema, file)
    except BaseException as error:
        if isinstance(error, OSError):
            error.filename = error.filename or str(where)  # which disk is full
        path.unlink(missing_ok=True)
        raise
    finally:
        if isinstance(parts, Generator):  # else what it is at, processes among it, ends when the error is forgotten
            parts.close()
    return ChunkFile(UPath(path))


def write_parts(parts: Iterable[pa.Table], schema: pa.Schema, file: BinaryIO) -> None:
    """Write tables as row groups; small ones share a group. Text does not repeat, so it gets no dictionary, and nobody
    asks for the least and the greatest of it. LZ4 is read in half of the time of the default, and no larger."""
    options = {"use_dictionary": False, "write_statistics": ["profile_id"], "compression": "lz4"}
    with pq.ParquetWriter(file, schema, **options) as writer:
        waiting: list[pa.Table] = []
        for part in parts:
            waiting.append(part)
            if sum(one.num_rows for one in waiting) >= PART_ROWS:
                writer.write_table(pa.concat_tables(waiting), row_group_size=PART_ROWS)
                waiting = []
        if waiting:
            writer.write_table(pa.concat_tables(waiting), row_group_size=PART_ROWS)


def _sweep(folder: Path) -> None:
    """Remove what killed runs have left: it holds texts of tenants."""
    for path in folder.glob(UNFINISHED):
        if path.stat().st_mtime < time.time() - _LEFT_S:
            path.unlink(missing_ok=True)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, FILE)
