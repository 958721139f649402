"""Many clients at once, for every peer: the same loop, the same numbers."""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

WARM_UP = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What each peer is told: where its table is, the queries, and how many clients."""
    parser.add_argument("--dsn", required=True)
    parser.add_argument("--table", required=True)
    parser.add_argument("--queries", required=True, type=Path, help="queries.jsonl with _id and text")
    parser.add_argument("--qrels", required=True, type=Path, help="a TSV of judgements: only its queries are asked")
    parser.add_argument("--clients", required=True, type=int, nargs="+")
    parser.add_argument("--k", type=int, default=10)


def read_texts(queries: Path, qrels: Path) -> list[str]:
    """The texts of the judged queries."""
    with qrels.open(encoding="utf-8", newline="") as lines:
        judged = {row[0] for row in csv.reader(lines, delimiter="\t")}
    with queries.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines if line.strip()]
    return [row["text"] for row in rows if row["_id"] in judged]


def told(latencies: list[float], seconds: float) -> dict[str, float]:
    """Milliseconds of a call, and calls a second; nearest ranks."""
    ordered = sorted(latencies)
    return {
        "p50_ms": 1000 * ordered[len(ordered) // 2],
        "p95_ms": 1000 * ordered[int(0.95 * len(ordered))],
        "qps": len(ordered) / seconds,
    }


def by_threads(call: Callable[[str], object], texts: list[str], clients: int) -> dict[str, float]:
    """Each client is a thread that asks the next query when it has its answer."""
    for text in texts[:WARM_UP]:
        call(text)
    waiting = iter(texts)
    latencies: list[float] = []

    def client() -> None:
        for text in waiting:  # taking from a list's iterator is atomic
            started = time.perf_counter()
            call(text)
            latencies.append(time.perf_counter() - started)

    started = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        for one in [pool.submit(client) for _ in range(clients)]:
            one.result()
    return told(latencies, time.perf_counter() - started)


async def by_tasks(call: Callable[[str], Awaitable[object]], texts: list[str], clients: int) -> dict[str, float]:
    """Each client is a task of one event loop."""
    for text in texts[:WARM_UP]:
        await call(text)
    waiting: Iterator[str] = iter(texts)
    latencies: list[float] = []

    async def client() -> None:
        for text in waiting:
            started = time.perf_counter()
            await call(text)
            latencies.append(time.perf_counter() - started)

    started = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    return told(latencies, time.perf_counter() - started)
