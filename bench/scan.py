"""A scan of sources of which nothing, or one, has changed: a folder of files, and a file of records.

python -m bench.scan [--sources 100000]

Beside the scan stands the limit that nothing goes below: a bare walk with `os.scandir` and `stat` over the same files,
and for the records one reading of the file. Files opened are counted by the interpreter's own audit events, WAL by the
server. The first scan, which reads everything, is printed too.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psycopg

import rag_assets
from bench import processor
from bench.common import HOME, show, verdict
from rag_assets.ingest.sources import SyncReport, sync_sources
from rag_assets.store.roots import add_root
from rag_assets.store.server import stop_server
from rag_assets.store.set_up import prepare
from rag_assets.store.tenants import add_tenant

BOT = "bench"
_opened = [0]


@dataclass(frozen=True)
class Scanned:
    """What a scan took: seconds, processor time of this process and of the server, source files that were opened, and
    bytes of WAL; and what it found."""

    seconds: float
    own: float
    server: float
    opened: int
    wal: int
    report: SyncReport


def count_opened() -> None:
    """Count each source file that this process opens from now on, whatever it is opened by."""

    def heard(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and str(arguments[0]).endswith((".txt", ".jsonl")):
            _opened[0] += 1

    sys.addaudithook(heard)


def walk(folder: Path) -> int:
    """The files below a folder, each with its state: the bare work of a scan."""
    count = 0
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            count += walk(Path(entry.path))
        else:
            count += entry.stat(follow_symlinks=False).st_size >= 0
    return count


def timed(work: Callable[[], object]) -> float:
    """Seconds of processor time."""
    used = processor.own()
    work()
    return processor.own() - used


def scanned(database: rag_assets.Database, home: Path, tenant: str) -> Scanned:
    """One scan of a tenant's roots."""
    with psycopg.connect(database.url, autocommit=True) as watcher:

        def wal() -> int:
            row = watcher.execute("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()
            assert row is not None
            return int(row[0])

        before = (processor.own(), processor.server(home), _opened[0], wal())
        started = time.perf_counter()
        report = sync_sources(database, tenant, BOT)
        seconds = time.perf_counter() - started
        own, server = processor.own() - before[0], processor.server(home) - before[1]
        return Scanned(seconds, own, server, _opened[0] - before[2], wal() - before[3], report)


def files(folder: Path, sources: int) -> Path:
    """A folder of so many small files, a thousand in each folder; returns one of them."""
    for number in range(sources):
        place = folder / f"{number // 1000:03d}"
        if number % 1000 == 0:
            place.mkdir(parents=True, exist_ok=True)
        (place / f"{number}.txt").write_text(f"Part {number} is kept in rack {number % 97}, shelf {number % 13}.\n")
    return folder / "000" / "7.txt"


def records(folder: Path, sources: int) -> Path:
    """A file of so many records; returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = (
        (number, f"Part {number} is kept in rack {number % 97}, shelf {number % 13}.") for number in range(sources)
    )
    lines = (json.dumps({"id": str(number), "text": text}) + "\n" for number, text in texts)
    (folder / "parts.jsonl").write_text("".join(lines))
    return folder / "parts.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", type=int, default=100_000)
    options = parser.parse_args()
    home = HOME / f"scan-{options.sources}"
    database = rag_assets.Database.from_settings(rag_assets.Settings(home=home))
    prepare(database)
    count_opened()
    try:
        for tenant, make in (("files", files), ("records", records)):
            measure(database, home, tenant, make, options.sources)
    finally:
        database.close()
        stop_server(home)


def measure(
    database: rag_assets.Database, home: Path, tenant: str, make: Callable[[Path, int], Path], sources: int
) -> None:
    """Scan it all, then nothing that has changed, then one that has."""
    folder = home / "sources" / tenant
    some = make(folder, sources)
    add_tenant(database, tenant, BOT)
    add_root(database, tenant, BOT, str(folder))
    rows: dict[str, Scanned] = {"first, all is read": scanned(database, home, tenant)}
    rows["unchanged"] = scanned(database, home, tenant)
    text = some.read_text()
    some.write_text(text.replace("Part 7 is", "Part 7 was", 1))
    rows["one changed"] = scanned(database, home, tenant)
    limit = timed(lambda: walk(folder)) if tenant == "files" else timed(some.read_bytes)
    show(
        f"{sources} {tenant}",
        ["scan", "s", "own processor, s", "server's, s", "files opened", "WAL, kB", "changed"],
        [
            (name, one.seconds, one.own, one.server, one.opened, one.wal / 1000, one.report.changed)
            for name, one in rows.items()
        ],
    )
    print(f"     bare walk, or reading of the file: {limit:.3f} s of processor time")
    unchanged, one_changed = rows["unchanged"], rows["one changed"]
    verdict(f"unchanged scan of {tenant}, s", unchanged.seconds, 10.0, at_least=False)
    verdict("the same, s of processor time", unchanged.own + unchanged.server, 10.0, at_least=False)
    verdict("sources that are written where one has changed", one_changed.report.changed, 1, at_least=False)
    verdict("files opened where one has changed", one_changed.opened, 1, at_least=False)


if __name__ == "__main__":
    main()
