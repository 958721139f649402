"""A thousand searches at once over one pool of eight connections: by tasks of an event loop, and by threads.

python -m bench.concurrency --data DIR [--calls 1000] [--repeat 3]

Latency is that of one call from the moment when all are let go, so the last one waits for all others. The two ways
alternate within one run.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import rag_assets
from bench.common import environment, load_collection, median, percentile, rag, show, verdict
from bench.ingest import PROFILE, prepare

TENANT, BOT, TOP_K, CONNECTIONS = "concurrency", "bench", 8, 8
Latencies = list[float]  # milliseconds


def by_threads(database: rag_assets.Database, retriever: rag_assets.HybridRetriever, texts: list[str]) -> Latencies:
    """A thread for each call."""
    together = Barrier(len(texts))
    scope = rag_assets.open_scope(database, TENANT, BOT, PROFILE)

    def call(text: str) -> float:
        together.wait()
        started = time.perf_counter()
        assert len(retriever.search(text, scope, TOP_K)) == TOP_K
        return 1000 * (time.perf_counter() - started)

    with ThreadPoolExecutor(len(texts)) as pool:
        return list(pool.map(call, texts))


def by_tasks(database: rag_assets.Database, retriever: rag_assets.HybridRetriever, texts: list[str]) -> Latencies:
    """A task for each call, in one event loop."""

    async def call(text: str, scope: rag_assets.RetrievalScope) -> float:
        started = time.perf_counter()
        assert len(await retriever.asearch(text, scope, TOP_K)) == TOP_K
        return 1000 * (time.perf_counter() - started)

    async def all_of_them() -> Latencies:
        try:
            scope = await rag_assets.aopen_scope(database, TENANT, BOT, PROFILE)
            return await asyncio.gather(*(call(text, scope) for text in texts))
        finally:
            await database.aclose()

    return asyncio.run(all_of_them())


WAYS: dict[str, Callable[[rag_assets.Database, rag_assets.HybridRetriever, list[str]], Latencies]] = {
    "threads": by_threads,
    "tasks": by_tasks,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds scifact/")
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    os.environ.update(environment())
    collection = load_collection(options.data / "scifact")
    prepare()
    rag("ingest", str(collection.corpus.resolve()), "--tenant", TENANT, "--bot", BOT, "--profile", PROFILE)
    questions = list(collection.queries.values())
    texts = [questions[number % len(questions)] for number in range(options.calls)]
    settled = rag_assets.Database.from_settings()
    database = rag_assets.Database(settled.url, settled.app_url, search_connections=CONNECTIONS)
    retriever = rag_assets.HybridRetriever(database)
    measured: dict[str, list[tuple[float, float, float]]] = {name: [] for name in WAYS}
    for turn in range(options.repeat + 1):
        for name, way in WAYS.items():
            latencies = way(database, retriever, texts)
            if turn:  # the first warms up
                searches_per_second = 1000 * len(texts) / max(latencies)  # starting a thousand threads is not counted
                measured[name].append((median(latencies), percentile(latencies, 0.95), searches_per_second))
    database.close()
    rows = {name: [median(column) for column in zip(*turns, strict=True)] for name, turns in measured.items()}
    show(
        f"{options.calls} hybrid searches at once, {CONNECTIONS} connections, median of {options.repeat}",
        ["", "p50 ms", "p95 ms", "searches/s"],
        [[name, *row] for name, row in rows.items()],
    )
    verdict("searches/s of tasks, times threads", rows["tasks"][2] / rows["threads"][2], 0.9)


if __name__ == "__main__":
    main()
