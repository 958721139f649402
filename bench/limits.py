"""How near publication and the indexes are to what stops them: a bare COPY of the same rows, and bare CREATE INDEX.

python -m bench.limits --data DIR [--chunks 10000] [--repeat 3]

`DIR` holds scifact/, or is a folder of `bench.corpus`, of which the first `--chunks` are taken. In each round a tenant
that holds nothing is ingested; then its rows, read out before, are copied in binary form, over one connection and in
one transaction, into a table with the same columns, checks and indexes as the partition had while it was loaded; and
the same two indexes are built over that. A share is bare time by that of the product's step, which also prepares words,
computes weights, replaces old versions and counts words: 1 is the limit.
"""

from __future__ import annotations

import argparse
import os
import re
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import psycopg
from psycopg import sql

from bench.common import median, rag, show, verdict
from bench.ingest import PROFILE, prepare
from bench.measured import Ingested, ingest, roots_of

_BLOCK = 1 << 20
_TABLE = sql.Identifier("bench_limits", "chunks")
_DEFINITION = re.compile(r"CREATE (UNIQUE )?INDEX \S+ ON \S+ (USING .*)", re.DOTALL)
_AFTERWARDS = ("_fts", "_hnsw")  # indexes of a partition that are built when its rows are there
# What is compared, the step of the product that it stands for, and the least share.
_TARGETS = {"COPY": ("knowledge_chunks", 0.8), "GIN": ("gin_index", 0.9), "HNSW": ("hnsw_index", 0.9)}


def bare(connection: psycopg.Connection, partition: str) -> tuple[int, dict[str, float]]:
    """Rows of a partition, and seconds of copying them and of building each index over the copy."""
    source = sql.Identifier("rag", partition)
    connection.execute("DROP SCHEMA IF EXISTS bench_limits CASCADE")
    connection.execute("CREATE SCHEMA bench_limits")
    columns = "INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE"
    connection.execute(sql.SQL("CREATE TABLE {} (LIKE {} {})").format(_TABLE, source, sql.SQL(columns)))
    later = {}
    for name, definition in _indexes(connection, partition):
        if name.endswith(_AFTERWARDS):
            later["GIN" if name.endswith("_fts") else "HNSW"] = definition
        else:
            connection.execute(definition)
    seconds: dict[str, float] = {}
    with TemporaryFile() as rows:
        with connection.cursor().copy(sql.SQL("COPY {} TO STDOUT (FORMAT binary)").format(source)) as copy:
            for block in copy:
                rows.write(block)
        rows.seek(0)
        connection.execute("CHECKPOINT")  # what the product wrote is not written during this
        with _clock(seconds, "COPY"):
            _copy_in(connection, rows)
    # More than the indexes need takes time to be cleared.
    connection.execute(
        "SELECT set_config('maintenance_work_mem', greatest(64, pg_table_size(%s) >> 20) || 'MB', false)",
        [_TABLE.as_string(connection)],
    )
    workers = max(1, min(os.cpu_count() or 1, 8) - 1)
    connection.execute(sql.SQL("SET max_parallel_maintenance_workers = {}").format(sql.Literal(workers)))
    for name, definition in later.items():
        with _clock(seconds, name):
            connection.execute(definition)
    counted = connection.execute(sql.SQL("SELECT count(*) FROM {}").format(_TABLE)).fetchone()
    connection.execute("DROP SCHEMA bench_limits CASCADE")
    assert counted is not None
    return int(counted[0]), seconds


def _indexes(connection: psycopg.Connection, partition: str) -> Iterator[tuple[str, sql.Composed]]:
    """The indexes of a partition, by name, as statements that make the same of the copy."""
    found = connection.execute(
        "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'rag' AND tablename = %s ORDER BY 1", [partition]
    )
    for name, text in found.fetchall():
        parts = _DEFINITION.fullmatch(text)
        assert parts is not None, text
        yield name, sql.SQL("CREATE {}INDEX ON {} {}").format(sql.SQL(parts[1] or ""), _TABLE, sql.SQL(parts[2]))


def _copy_in(connection: psycopg.Connection, rows: IO[bytes]) -> None:
    with connection.cursor().copy(sql.SQL("COPY {} FROM STDIN (FORMAT binary)").format(_TABLE)) as copy:
        while block := rows.read(_BLOCK):
            copy.write(block)


@contextmanager
def _clock(seconds: dict[str, float], name: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    seconds[name] = time.perf_counter() - began


def measure(roots: list[Path]) -> tuple[Ingested, int, dict[str, float]]:
    """One round: what the product did, rows, and the bare seconds."""
    from rag_assets.retrieval import open_scope
    from rag_assets.store.database import Database
    from rag_assets.store.partitions import partition_name

    tenant = f"t{uuid.uuid4().hex[:12]}"
    done = ingest(roots, tenant, "bench", PROFILE)
    database = Database.from_settings()
    scope = open_scope(database, tenant, "bench", PROFILE)
    with psycopg.connect(database.url, autocommit=True) as connection:
        rows, seconds = bare(connection, partition_name(scope.profile_id))
    database.close()
    rag("erase", "--tenant", tenant, "--yes")
    return done, rows, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds scifact/, or one of bench.corpus")
    parser.add_argument("--chunks", type=int, default=10_000, help="of a folder of bench.corpus")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    prepare()
    roots = roots_of(options.data, options.chunks)
    rounds = [measure(roots) for _ in range(options.repeat)]
    rows = []
    shares = {}
    for what, (step, _) in _TARGETS.items():
        ours = median(done.stages[step] for done, _, _ in rounds)
        limit = median(seconds[what] for _, _, seconds in rounds)
        shares[what] = median(seconds[what] / done.stages[step] for done, _, seconds in rounds)
        rows.append([f"{step} / bare {what}", ours, limit, shares[what]])
    show(f"{rounds[0][1]:,} rows, medians of {options.repeat}", ["", "seconds", "bare seconds", "share"], rows)
    for what, (step, least) in _TARGETS.items():
        verdict(f"{step}, share of bare {what}", shares[what], least)


if __name__ == "__main__":
    main()
