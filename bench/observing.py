"""What it costs a search that somebody may watch it: processor time of the thread that searches.

python -m bench.observing --data DIR [--rounds 3]

The same hybrid searches take turns of ten within one run: without the hook, with nobody listening, with metrics, with
metrics and the query log.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import rag_assets
from bench.common import environment, load_collection, median, rag, show, verdict
from bench.ingest import PROFILE, prepare
from rag_assets.observing.started import start
from rag_assets.retrieval.steps import drive
from rag_assets.settings import Settings

TENANT, BOT, TOP_K, BLOCK = "observed", "bench", 8, 10
LIMIT = 0.01  # of a search, while nobody listens


@contextmanager
def listening(query_log: bool = False) -> Iterator[None]:
    """Metrics are collected, and queries kept if they are to be."""
    with start("bench", Settings(query_log=query_log)):
        yield


@contextmanager
def nobody() -> Iterator[None]:
    yield


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds scifact/")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    os.environ.update(environment())
    collection = load_collection(options.data / "scifact")
    prepare()
    rag("ingest", str(collection.corpus.resolve()), "--tenant", TENANT, "--bot", BOT, "--profile", PROFILE)
    database = rag_assets.Database.from_settings()
    scope = rag_assets.open_scope(database, TENANT, BOT, PROFILE)
    retriever = rag_assets.HybridRetriever(database)

    def bare(text: str) -> object:
        return drive(database, retriever.steps(text, scope, TOP_K))

    def search(text: str) -> object:
        return retriever.search(text, scope, TOP_K)

    ways: dict[str, tuple[Callable[[str], object], Callable[[], AbstractContextManager[None]]]] = {
        "no hook": (bare, nobody),
        "nobody listens": (search, nobody),
        "metrics": (search, listening),
        "metrics and query log": (search, lambda: listening(True)),
    }
    texts = list(collection.queries.values())
    cpu: dict[str, list[float]] = {name: [] for name in ways}
    wall: dict[str, list[float]] = {name: [] for name in ways}
    for begin in range(0, options.rounds * len(texts), BLOCK):
        block = [texts[number % len(texts)] for number in range(begin, begin + BLOCK)]
        for name, (ask, watched) in ways.items():
            with watched():
                ask(block[0])
                for text in block:
                    started = time.perf_counter(), time.thread_time()
                    ask(text)
                    wall[name].append(1000 * (time.perf_counter() - started[0]))
                    cpu[name].append(1000 * (time.thread_time() - started[1]))
    database.close()
    bare_ms, whole_ms = median(cpu["no hook"]), median(wall["no hook"])
    more = {name: median(times) - bare_ms for name, times in cpu.items()}
    rows = [[name, median(cpu[name]), more[name], median(wall[name]), more[name] / whole_ms] for name in ways]
    columns = ["", "cpu ms", "more than without", "wall ms", "more, as a share of a search"]
    show(f"SciFact, top {TOP_K}, median of {options.rounds} rounds", columns, rows)
    verdict("nobody listens, as a share of a search", more["nobody listens"] / whole_ms, LIMIT, at_least=False)


if __name__ == "__main__":
    main()
