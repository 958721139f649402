"""What the other tenants of a database cost one of them: a new tenant's ingestion, and searches.

python -m bench.tenants [--tenants 1,100,1000] [--documents 5] [--new 10] [--searches 100]

Each number of tenants is a database of its own under `.bench`, which is kept and filled up by the next run: 5,000
tenants take half an hour to make. A new tenant is ingested in each of them by turns, through the library and as
`rag.ingest` does it; then one tenant is searched in each, by turns too. Processor time is that of this process and of
the server together, and counts where the machine is busy with other things.
"""

from __future__ import annotations

import argparse
import random
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import rag_assets
from bench import processor
from bench.common import HOME, median, percentile, show, verdict
from rag_assets.store.server import stop_server
from rag_assets.store.tenants import list_tenants

BOT, MOST = "bench", 1.3
_WORDS = [f"word{n}" for n in range(2000)]


@dataclass
class World:
    """A database of so many tenants, and what was measured in it."""

    tenants: int
    home: Path
    database: rag_assets.Database
    ingests: list[float] = field(default_factory=list)  # seconds
    processor: list[float] = field(default_factory=list)  # seconds of each
    searches: list[float] = field(default_factory=list)  # milliseconds

    def ingest(self, tenant: str, documents: Path) -> None:
        rag_assets.ingest(self.database, tenant, BOT, roots=[documents])


def documents_of(tenant: str, folder: Path, count: int) -> Path:
    """Some small files that no other tenant has."""
    chosen, target = random.Random(tenant), folder / tenant
    target.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        (target / f"{number}.txt").write_text(f"{tenant} part {number}. {' '.join(chosen.choices(_WORDS, k=120))}\n")
    return target


def world_of(tenants: int, documents: int) -> World:
    """A database with at least so many tenants less one, which is the one that is measured."""
    home = HOME / f"tenants-{tenants}"
    database = rag_assets.Database.from_settings(rag_assets.Settings(home=home))
    world = World(tenants, home, database)
    world.ingest("first", documents_of("first", home / "sources", documents))
    missing = tenants - 1 - len(list_tenants(database))
    names = [f"other-{uuid.uuid4().hex[:12]}" for _ in range(missing)]
    started = time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        made = pool.map(lambda name: world.ingest(name, documents_of(name, home / "sources", documents)), names)
        for number, _ in enumerate(made, start=1):
            if number % 250 == 0:
                print(f"     {number} of {missing} tenants made in {time.monotonic() - started:.0f} s", flush=True)
    return world


def measured(world: World, work: Callable[[], object]) -> tuple[float, float]:
    """Seconds, and seconds of processor time, that something takes."""
    used, started = processor.own() + processor.server(world.home), time.perf_counter()
    work()
    return time.perf_counter() - started, processor.own() + processor.server(world.home) - used


def ingest_by_turns(worlds: list[World], new: int, documents: int) -> None:
    """New tenants, one after the other in each database; the first of each is not counted."""
    for turn in range(new + 1):
        for world in worlds:
            name = f"new-{uuid.uuid4().hex[:12]}"
            folder = documents_of(name, world.home / "sources", documents)
            seconds, used = measured(world, lambda: world.ingest(name, folder))  # noqa: B023 # called at once
            if turn:
                world.ingests.append(seconds)
                world.processor.append(used)


def search_by_turns(worlds: list[World], searches: int) -> None:
    """One tenant in each database, ten searches at a time; the first ten are not counted."""
    retrievers = [rag_assets.HybridRetriever(world.database) for world in worlds]
    chosen = random.Random(1)
    for turn in range(searches // 10 + 1):
        queries = [" ".join(chosen.choices(_WORDS, k=4)) for _ in range(10)]
        for world, retriever in zip(worlds, retrievers, strict=True):
            scope = rag_assets.open_scope(world.database, "first", BOT)
            for query in queries:
                started = time.perf_counter()
                retriever.search(query, scope)
                if turn:
                    world.searches.append(1000 * (time.perf_counter() - started))


def report(worlds: list[World]) -> None:
    """The table, and what is promised: each beside the first."""
    rows = [
        (
            f"{world.tenants} tenants",
            *(percentile(world.ingests, share) for share in (0.5, 0.95)),
            sum(world.processor) / len(world.processor),
            *(percentile(world.searches, share) for share in (0.5, 0.95)),
        )
        for world in worlds
    ]
    columns = ["", "new tenant, s p50", "p95", "processor, s mean", "search, ms p50", "p95"]
    show("one tenant among others", columns, rows)
    alone = worlds[0]
    for world in worlds[1:]:
        among = f"among {world.tenants}, times that among {alone.tenants}"
        used = sum(world.processor) / sum(alone.processor)
        verdict(f"processor time of a new tenant {among}", used, MOST, at_least=False)
        verdict(f"a new tenant's p50 {among}", median(world.ingests) / median(alone.ingests), MOST, at_least=False)
        for share in (0.5, 0.95):
            ratio = percentile(world.searches, share) / percentile(alone.searches, share)
            verdict(f"search, p{100 * share:.0f} {among}", ratio, MOST, at_least=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenants", default="1,100,1000", help="numbers of tenants, the first of which is the measure")
    parser.add_argument("--documents", type=int, default=5)
    parser.add_argument("--new", type=int, default=10)
    parser.add_argument("--searches", type=int, default=100)
    options = parser.parse_args()
    worlds = [world_of(int(number), options.documents) for number in options.tenants.split(",")]
    try:
        ingest_by_turns(worlds, options.new, options.documents)
        search_by_turns(worlds, options.searches)
        report(worlds)
    finally:
        for world in worlds:
            world.database.close()
            stop_server(world.home)


if __name__ == "__main__":
    main()
