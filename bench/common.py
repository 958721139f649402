"""A home of its own for the benchmarks, labelled collections, and how results are printed."""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

from ranx import Qrels, Run, evaluate
from rich.console import Console
from rich.table import Table

REPOSITORY = Path(__file__).resolve().parent.parent
HOME = REPOSITORY / ".bench"
METRICS = ("ndcg@10", "recall@5", "hit_rate@5", "mrr@10")


@dataclass(frozen=True)
class Collection:
    """A BEIR collection: its files, the texts of its judged queries, and their relevant documents."""

    corpus: Path
    queries_file: Path
    qrels_file: Path
    queries: Mapping[str, str]
    qrels: Mapping[str, Mapping[str, int]]


def load_collection(folder: Path, split: str = "test") -> Collection:
    """Read a collection; queries without a relevant document are left out."""
    texts = {}
    with (folder / "queries.jsonl").open(encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            texts[row["_id"]] = row["text"]
    qrels: dict[str, dict[str, int]] = {}
    qrels_file = folder / "qrels" / f"{split}.tsv"
    for line in qrels_file.read_text(encoding="utf-8").splitlines()[1:]:
        query, document, grade = line.split("\t")
        if int(grade) > 0:
            qrels.setdefault(query, {})[document] = int(grade)
    queries = {query: texts[query] for query in qrels}
    return Collection(folder / "corpus.jsonl", folder / "queries.jsonl", qrels_file, queries, qrels)


def environment() -> dict[str, str]:
    """The environment of a product that lives under `.bench`, whatever the shell has set: nor does each process compile
    our code anew."""
    left_out = ("DATABASE_URL", "RAG_STORAGE", "PYTHONDONTWRITEBYTECODE")
    values = {name: value for name, value in os.environ.items() if name not in left_out}
    return {**values, "RAG_HOME": str(HOME)}


def rag(*arguments: str) -> tuple[dict[str, object], float]:
    """Run a `rag` command with --json; its answer, and the peak memory of its process in MiB."""
    command = [sys.executable, "-m", "rag_assets.cli", *arguments, "--json"]
    process = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"rag {' '.join(arguments)} failed: {output}")
    return json.loads(output), usage.ru_maxrss / 1024


def peer(script: str, *arguments: str) -> dict[str, Any]:
    """Run one of the peers in its own environment; its JSON answer."""
    own = script.split("_")[0]
    name = f".venv-bench-{own}" if own in ("langchain", "haystack", "cocoindex") else ".venv-bench"
    python = REPOSITORY / name / "bin" / "python"
    if not python.exists():
        raise SystemExit("the peers are not installed: make bench-install")
    output = subprocess.run(
        [str(python), str(REPOSITORY / "bench" / "peers" / script), *arguments],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    answer: dict[str, Any] = json.loads(output.strip().splitlines()[-1])
    return answer


@dataclass(frozen=True)
class Served:
    """A running `rag serve`: its address, its process, and a token for each tenant."""

    address: str
    pid: int
    tokens: Mapping[str, str]


@contextmanager
def serving(bots: Mapping[str, str], clients: int) -> Iterator[Served]:
    """Start `rag serve` with a token for the bot of each tenant, and limits that so many clients never meet."""
    added = {tenant: rag("token", "add", "bench", "--tenant", tenant, "--bot", bot, "--expires", "1d")[0]
             for tenant, bot in bots.items()}  # fmt: skip
    limits = {"RAG_SERVE_RATE": "100000", "RAG_SERVE_CONCURRENT": str(2 * clients)}
    command = [sys.executable, "-m", "rag_assets.cli", "serve", "--port", "0"]
    with subprocess.Popen(
        command, env={**environment(), **limits}, stderr=subprocess.PIPE, text=True, errors="replace"
    ) as process:
        assert process.stderr is not None
        found = next(filter(None, (re.search(r"http://[\d.]+:\d+", line) for line in process.stderr)), None)
        if found is None:
            raise SystemExit("rag serve did not start")
        reader = Thread(target=process.stderr.read, daemon=True)  # a full pipe would hold the server up
        reader.start()
        try:
            yield Served(found[0], process.pid, {tenant: str(one["token"]) for tenant, one in added.items()})
        finally:
            process.terminate()
            reader.join()
    for one in added.values():
        rag("token", "revoke", str(one["id"]))


def score(collection: Collection, run: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Mean metrics of ranked documents by query; a query without an answer counts 0."""
    scored = {
        query: {document: 1.0 / (rank + 1) for rank, document in enumerate(run.get(query, ()))} or {"-": 0.0}
        for query in collection.qrels
    }
    values = evaluate(Qrels({q: dict(d) for q, d in collection.qrels.items()}), Run(scored), list(METRICS))
    return {name: float(value) for name, value in dict(values).items()}


def percentile(values: Iterable[float], share: float) -> float:
    """The value that `share` of all values do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def median(values: Iterable[float]) -> float:
    return statistics.median(values)


def show(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table."""
    table = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right")
    for row in rows:
        table.add_row(*[f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in row])
    Console(width=120).print(table)


def verdict(what: str, value: float, limit: float, *, at_least: bool = True) -> bool:
    """Print whether a measured value keeps its limit."""
    kept = value >= limit if at_least else value <= limit
    sign = ">=" if at_least else "<="
    print(f"{'ok  ' if kept else 'MISS'} {what}: {value:.3f} ({sign} {limit})")
    return kept
