"""Ingestion and search by the size of a profile: chunks/s, memory and seconds by stage; latency, idle and under ingest.

python -m bench.scale --data DIR [--sizes 10000,130000,1000000] [--questions 100]

`DIR` is a folder of `bench.corpus`, and each size its first chunks. A line is printed as soon as it is known, and kept
in `.bench/scale.jsonl`: what stands there is not measured again (`--again` forgets it), so that a run that was stopped
goes on with what is missing. An ingest that was stopped is begun anew: its speed would not be that of the whole.

Search is measured in this process, top 10, for questions of three kinds that were made of the texts themselves: titles
(short), sentences (claim) and paragraphs. Under ingest: while `rag ingest` of another tenant, again and again, works on
the same server. What goes on beside on this machine is in every number but the ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any

from bench.common import HOME, environment, load_collection, median, percentile, rag, show, verdict
from bench.corpus_questions import KINDS
from bench.measured import STAGES, ingest, prefix
from rag_assets.store.search import Mode

BOT, TOP_K = "scale", 10
IDLE, BUSY = "idle", "under ingest"
MODES: tuple[Mode, ...] = ("dense", "lexical", "hybrid")
_BESIDE_CHUNKS = 10_000
_WARM = 10
_HYBRID_P95 = {130_000: 40.0, 1_000_000: 100.0}  # ms
_MEMORY = 600.0  # MiB


@dataclass(frozen=True)
class Question:
    """A question, its kind, and the document that it was made of."""

    kind: str
    text: str
    document: str


class Results:
    """What is known, a line each; lines of an earlier run count."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self._known: dict[str, dict[str, Any]] = {row["what"]: row for row in map(json.loads, lines)}

    def get(self, what: str) -> dict[str, Any] | None:
        """What is known under this name."""
        return self._known.get(what)

    def add(self, what: str, row: dict[str, Any]) -> dict[str, Any]:
        """Keep what has been measured."""
        self._known[what] = {"what": what, **row}
        with self._path.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(self._known[what]) + "\n")
        return self._known[what]


def questions_of(folder: Path, most: int) -> list[Question]:
    """Up to so many of each kind."""
    collection = load_collection(folder)
    found: list[Question] = []
    for kind in KINDS:
        keys = [key for key in collection.queries if key.startswith(f"{kind}-")][:most]
        found += [Question(kind, collection.queries[key], next(iter(collection.qrels[key]))) for key in keys]
    return found


def measure_ingest(results: Results, folder: Path, size: int, profile: str) -> dict[str, Any]:
    """Ingest the first chunks into a tenant that holds nothing yet."""
    what, tenant = f"ingest {size}", _tenant(size)
    known = results.get(what)
    if known is None:
        _erase(tenant)
        root = prefix(folder, size, HOME / "scale" / str(size))
        one = ingest([root], tenant, BOT, profile)
        known = results.add(what, {**one.as_json(), "chunks_per_s": one.chunks_per_s})
    stages = ", ".join(f"{name} {known['stages'].get(name, 0):.1f}" for name in STAGES)
    print(
        f"{size:>9,}: {known['chunks']:,} chunks in {known['seconds']:.1f} s, {known['chunks_per_s']:.0f} chunks/s; "
        f"{known['processor_seconds']:.1f} s of processor time; peak {known['process_mib']:.0f} MiB, with its children "
        f"{known['tree_mib']:.0f}; seconds: {stages}",
        flush=True,
    )
    return known


def _tenant(size: int) -> str:
    return f"scale-{size:09}"  # none begins like another


def _erase(prefix: str) -> None:
    """Take away the tenants whose keys begin so."""
    from rag_assets.store.database import Database
    from rag_assets.store.tenants import list_tenants

    database = Database.from_settings()
    known = [tenant for tenant in list_tenants(database) if tenant.startswith(prefix)]
    database.close()
    for tenant in known:
        rag("erase", "--tenant", tenant, "--yes")


def measure_search(results: Results, questions: Sequence[Question], size: int, profile: str, state: str) -> None:
    """p50 and p95 in ms, and the share of questions whose document is among the ten, by mode and kind."""
    from rag_assets.retrieval import open_scope
    from rag_assets.retrieval.retrievers import RETRIEVERS
    from rag_assets.store.database import Database

    database = Database.from_settings()
    scope = open_scope(database, _tenant(size), BOT, profile)
    for mode in MODES:
        retriever = RETRIEVERS[mode](database)
        for kind in KINDS:
            what = f"search {size} {mode} {kind} {state}"
            known = results.get(what)
            if known is None:
                mine = [one for one in questions if one.kind == kind]
                times, hits = [], 0
                for number, one in enumerate([*mine[:_WARM], *mine]):
                    began = time.perf_counter()
                    found = retriever.search(one.text, scope, top_k=TOP_K)
                    if number >= min(_WARM, len(mine)):
                        times.append(1000 * (time.perf_counter() - began))
                        hits += any(hit.citation["document"] == one.document for hit in found)
                row = {"p50": median(times), "p95": percentile(times, 0.95), "found": hits / len(times)}
                known = results.add(what, row)
            print(
                f"{size:>9,} {state:<12} {mode:<8} {kind:<10} p50 {known['p50']:7.1f}  p95 {known['p95']:7.1f} ms  "
                f"found {known['found']:.2f}",
                flush=True,
            )
    database.close()


@contextmanager
def ingesting(folder: Path, profile: str) -> Iterator[None]:
    """Another tenant is ingested beside, and once it is done the next; the first has begun to write."""
    _erase("beside-")  # of a run that was stopped
    root = prefix(folder, _BESIDE_CHUNKS, HOME / "scale" / "beside")
    done, begun = Event(), Event()

    def work() -> None:
        number = 0
        while not done.is_set():
            begun.set()
            ingest([root], f"beside-{os.getpid()}-{number}", BOT, profile)
            number += 1

    worker = Thread(target=work)
    worker.start()
    begun.wait()
    time.sleep(8)  # Dagster's start
    try:
        yield
    finally:
        done.set()
        worker.join()
        _erase("beside-")


def _summary(results: Results, sizes: Sequence[int]) -> None:
    rows = []
    for size in sizes:
        for mode in MODES:
            for kind in KINDS:
                idle, busy = (results.get(f"search {size} {mode} {kind} {state}") for state in (IDLE, BUSY))
                if idle is None or busy is None:
                    continue
                ratio = busy["p95"] / idle["p95"]
                times = [idle["p50"], idle["p95"], busy["p50"], busy["p95"], ratio]
                rows.append([f"{size:,} {mode} {kind}", *times, idle["found"]])
    show("search, ms", ["", "p50", "p95", "p50 under ingest", "p95", "times idle", "found"], rows)
    ingested = {size: known for size in sizes if (known := results.get(f"ingest {size}")) is not None}
    for size, known in ingested.items():
        verdict(f"peak of own processes at {size:,} chunks, MiB", known["tree_mib"], _MEMORY, at_least=False)
        if size > min(ingested):
            speed = known["chunks_per_s"] / ingested[min(ingested)]["chunks_per_s"]
            verdict(f"chunks/s at {size:,}, share of that at {min(ingested):,}", speed, 0.85)
        for kind in KINDS:
            found = [results.get(f"search {size} hybrid {kind} {state}") for state in (IDLE, BUSY)]
            if found[0] is not None and size in _HYBRID_P95:
                verdict(f"hybrid p95 at {size:,}, {kind}, ms", found[0]["p95"], _HYBRID_P95[size], at_least=False)
            if found[0] is not None and found[1] is not None:
                times = found[1]["p95"] / found[0]["p95"]
                verdict(f"hybrid p95 under ingest at {size:,}, {kind}, times idle", times, 2.0, at_least=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder of bench.corpus")
    parser.add_argument("--sizes", default="10000,130000,1000000", help="chunks")
    parser.add_argument("--questions", type=int, default=100, help="of each kind")
    parser.add_argument("--profile", default="static-256")
    parser.add_argument("--again", action="store_true", help="measure anew what is known")
    options = parser.parse_args()
    os.environ.update(environment())
    sizes = [int(size) for size in options.sizes.split(",")]
    (HOME / "scale").mkdir(parents=True, exist_ok=True)
    path = HOME / "scale.jsonl"
    if options.again:
        path.unlink(missing_ok=True)
    results = Results(path)
    rag("up")
    questions = questions_of(options.data, options.questions)
    for size in sizes:
        measure_ingest(results, options.data, size, options.profile)
        measure_search(results, questions, size, options.profile, IDLE)
        known = all(results.get(f"search {size} {mode} {kind} {BUSY}") for mode in MODES for kind in KINDS)
        with nullcontext() if known else ingesting(options.data, options.profile):
            measure_search(results, questions, size, options.profile, BUSY)
    _summary(results, sizes)


if __name__ == "__main__":
    main()
