"""Chunks between stages: whole sources a part, whatever the groups of the file, and nothing left of what failed."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from upath import UPath

from rag_assets.ingest import chunk_files
from rag_assets.ingest.ahead import ahead
from rag_assets.ingest.chunk_files import ChunkFile, spool

SCHEMA = pa.schema([("profile_id", pa.int64()), ("source_id", pa.string()), ("content", pa.string())])


def rows_of(sizes: list[int]) -> pa.Table:
    """A source of each size, one after another."""
    sources = [f"s{number}" for number, size in enumerate(sizes) for _ in range(size)]
    return pa.table([[1] * len(sources), sources, [str(row) for row in range(len(sources))]], schema=SCHEMA)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 9), max_size=12), st.integers(1, 7))
def test_parts_hold_whole_sources_whatever_the_groups_are(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], group: int
) -> None:
    table = rows_of(sizes)
    path = tmp_path_factory.mktemp("groups") / "old.parquet"
    pq.write_table(table, path, row_group_size=group)
    parts = list(ChunkFile(UPath(path)).parts())
    assert pa.concat_tables([SCHEMA.empty_table(), *parts]).equals(table)
    seen = [set(part["source_id"].to_pylist()) for part in parts]
    assert sum(map(len, seen)) == len(sizes), "no source is split over two parts"


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 5)), max_size=10), st.integers(1, 7))
def test_the_parts_of_a_profile_are_its_rows_alone_in_whole_sources(
    tmp_path_factory: pytest.TempPathFactory, sources: list[tuple[int, int]], group: int
) -> None:
    sources.sort()  # the rows of a profile stand together
    table = rows_of([size for _, size in sources])
    profiles = [profile for profile, size in sources for _ in range(size)]
    table = table.set_column(0, "profile_id", pa.array(profiles, pa.int64()))
    path = tmp_path_factory.mktemp("profiles") / "old.parquet"
    pq.write_table(table, path, row_group_size=group)
    for profile in range(6):
        parts = list(ChunkFile(UPath(path)).parts_of(profile))
        mine = table.filter(pc.equal(table["profile_id"], profile))
        assert pa.concat_tables([table.slice(0, 0), *parts]).equals(mine)
        seen = [one for part in parts for one in set(part["source_id"].to_pylist())]
        assert len(seen) == len(set(seen)), "no source is split over two parts"


def test_what_is_spooled_comes_back_in_order(tmp_path: Path) -> None:
    table = rows_of([2, 3, 1])
    made = spool([table.slice(0, 2), table.slice(2, 3), table.slice(5)], SCHEMA, tmp_path)
    assert (made.rows, dict(made.rows_by_profile())) == (6, {1: 6})
    assert made.table().equals(table)
    assert [part.column_names for part in made.parts(["source_id", "content"])] == [["source_id", "content"]]
    assert made.head(2).equals(table.slice(0, 2))
    assert os.stat(made.path.path).st_mode & 0o777 == 0o600


def test_nothing_to_do_is_an_empty_file(tmp_path: Path) -> None:
    made = spool([], SCHEMA, tmp_path)
    assert (made.rows, list(made.parts()), made.head(5).num_rows) == (0, [], 0)
    assert made.table().schema == SCHEMA


def test_where_a_part_cannot_be_made_no_file_is_left(tmp_path: Path) -> None:
    def parts() -> Iterator[pa.Table]:
        yield rows_of([3])
        raise RuntimeError("the provider is away")

    with pytest.raises(RuntimeError, match="away"):
        spool(parts(), SCHEMA, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_run_left_is_removed_by_a_later_one_and_what_is_being_written_is_not(tmp_path: Path) -> None:
    old, new = tmp_path / ".chunks-a.part", tmp_path / ".chunks-b.part"
    for path in (old, new):
        path.write_bytes(b"texts of a tenant")
    os.utime(old, (0, 0))
    spool([], SCHEMA, tmp_path)
    assert (old.exists(), new.exists()) == (False, True)


def test_a_stream_is_worked_on_only_a_little_ahead() -> None:
    begun: list[int] = []

    def items() -> Iterator[int]:
        for number in range(100):
            begun.append(number)
            yield number

    with ThreadPoolExecutor(2) as pool:
        results = ahead(pool, lambda number: number * 2, items(), 4)
        assert [next(results) for _ in range(3)] == [0, 2, 4]
        assert len(begun) <= 7
        assert list(results) == [number * 2 for number in range(3, 100)]


def test_one_error_ends_a_stream_and_what_has_not_begun_is_not_begun() -> None:
    done: list[int] = []
    go_on = Event()

    def work(number: int) -> int:
        if number == 0:
            raise ValueError("broken")
        go_on.wait(5)
        done.append(number)
        return number

    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(ValueError, match="broken"):
            list(ahead(pool, work, range(50), 8))
        go_on.set()
    assert len(done) <= 1


def test_a_file_is_read_where_it_lies_in_an_object_store() -> None:
    table = rows_of([2, 2])
    buffer = io.BytesIO()
    pq.write_table(table, buffer, row_group_size=1)
    path = UPath("memory://chunk-files/acme.parquet")
    path.write_bytes(buffer.getvalue())
    assert [part.num_rows for part in ChunkFile(path).parts()] == [2, 2]


def test_what_makes_the_parts_is_ended_before_the_error_is_told(tmp_path: Path) -> None:
    ended: list[bool] = []

    def parts() -> Iterator[pa.Table]:
        try:
            while True:
                yield pa.table({"profile_id": ["of another kind"]})
        finally:
            ended.append(True)

    made = parts()  # as a traceback keeps it
    with pytest.raises((ValueError, pa.ArrowException)):
        spool(made, pa.schema([("profile_id", pa.int64())]), tmp_path)
    assert ended == [True]
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_is_full_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def written(*_: object) -> None:
        with open("/dev/full", "wb", buffering=0) as full:
            full.write(b"x")

    monkeypatch.setattr(chunk_files, "write_parts", written)
    with pytest.raises(OSError, match=f"No space left on device: '{tmp_path}'"):
        spool([], SCHEMA, tmp_path)
    assert list(tmp_path.iterdir()) == []
