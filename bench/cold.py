"""A shell in which nothing runs yet: what `rag search` and `rag ingest` of one small file take, and where that goes.

python -m bench.cold [--times 5]

Each command is a new process, by turns with `python -c pass` and with one that imports Dagster alone, which stand for
what no command goes below. The database runs: starting it is printed apart. Processor time is that of the process, and
of the server where it works for it; it says more than the seconds where the machine is busy. The parts are those of one
process that does the same, in processor time: what is imported, and what is done then.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from bench import processor
from bench.common import HOME, environment, median, rag, show, verdict

TENANT, BOT = "cold", "bench"
_RAG = ["-m", "rag_assets.cli"]
_SEARCH = [*_RAG, "search", "how long is the warranty", "--tenant", TENANT, "--bot", BOT]
# Printed by a process that searches as the command does: seconds of processor time by part.
_SEARCH_PARTS = f"""
import json, time; clock = time.process_time; marks = [("python", clock())]
import rag_assets.commands.search, rag_assets.commands.session as session; marks.append(("imports", clock()))
from rag_assets.retrieval import HybridRetriever, open_scope
with session.ready_database() as database:
    marks.append(("database, schema looked at", clock()))
    scope = open_scope(database, "{TENANT}", "{BOT}"); marks.append(("scope", clock()))
    from rag_assets.embedding.registry import embedder_for
    embedder_for(scope.profile).embed_query("text"); marks.append(("model", clock()))
    HybridRetriever(database).search("how long is the warranty", scope); marks.append(("search", clock()))
print(json.dumps([(name, at - before) for (name, at), before in zip(marks, [0.0] + [at for _, at in marks])]))
"""
_INGEST_PARTS = f"""
import json, time; clock = time.process_time; marks = [("python", clock())]
import rag_assets.commands.ingest, dagster; marks.append(("imports of the command, Dagster", clock()))
import rag_assets.launch.ingest; marks.append(("imports of definitions", clock()))
from rag_assets.store.database import Database
import rag_assets
database = Database.from_settings(operator=True)
rag_assets.ingest(database, "{TENANT}", "{BOT}"); marks.append(("stages, without Dagster", clock()))
print(json.dumps([(name, at - before) for (name, at), before in zip(marks, [0.0] + [at for _, at in marks])]))
"""


@dataclass
class Command:
    """A command, and what each of its processes took: seconds, their processor time, and the server's."""

    name: str
    arguments: list[str]
    seconds: list[float] = field(default_factory=list)
    own: list[float] = field(default_factory=list)
    server: list[float] = field(default_factory=list)

    def run(self) -> None:
        """One process more."""
        used, started = (_children(), processor.server(HOME)), time.perf_counter()
        subprocess.run([sys.executable, *self.arguments], env=environment(), check=True, capture_output=True)
        self.seconds.append(time.perf_counter() - started)
        self.own.append(_children() - used[0])
        self.server.append(processor.server(HOME) - used[1])


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def parts(title: str, code: str) -> None:
    """Print what a process took by part."""
    output = subprocess.run([sys.executable, "-c", code], env=environment(), check=True, capture_output=True, text=True)
    show(f"{title}: processor time by part, s", ["part", "s"], json.loads(output.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args()
    os.environ.update(environment())
    folder = HOME / "cold"
    folder.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    rag("up")
    print(f"     the database started, or found running, in {time.perf_counter() - started:.1f} s")
    _change(folder, 0)
    rag("ingest", str(folder), "--tenant", TENANT, "--bot", BOT)
    bare = Command("python -c pass", ["-c", "pass"])
    dagster = Command("python -c 'import dagster'", ["-c", "import dagster"])
    search = Command("rag search", _SEARCH)
    ingest = Command(
        "rag ingest, one changed file", ["-m", "rag_assets.cli", "ingest", "--tenant", TENANT, "--bot", BOT]
    )
    for number in range(options.times):
        _change(folder, number + 1)
        for command in (bare, dagster, search, ingest):
            command.run()
    parts("rag search", _SEARCH_PARTS)
    parts("rag ingest", _INGEST_PARTS)
    report(bare, dagster, search, ingest)


def _change(folder: Path, number: int) -> None:
    (folder / "warranty.txt").write_text(f"The warranty of device {number} is two years from the day of purchase.\n")


def report(bare: Command, dagster: Command, search: Command, ingest: Command) -> None:
    """The table, and what is promised."""
    rows = [
        (one.name, median(one.seconds), median(one.own), median(one.server)) for one in (bare, dagster, search, ingest)
    ]
    show("a new process", ["", "s, p50", "its processor, s", "the server's, s"], rows)
    verdict("rag search, s", median(search.seconds), 1.0, at_least=False)
    verdict("rag search, s of processor time", median(search.own) + median(search.server), 1.0, at_least=False)
    verdict("rag ingest, s", median(ingest.seconds), 5.0, at_least=False)
    verdict("rag ingest, s of processor time", median(ingest.own) + median(ingest.server), 5.0, at_least=False)
    print(f"     rag ingest takes {median(ingest.own) / median(dagster.own):.1f} times what importing Dagster does")


if __name__ == "__main__":
    main()
