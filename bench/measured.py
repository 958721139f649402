"""One `rag ingest`, measured: chunks/s, the peak memory of its processes, and the seconds of each stage.

And parts of a corpus: a file of rows may be at most 200 MB, so the first N chunks of a large one become files of a few.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psutil

from bench.common import HOME, environment

PART_BYTES = 8_000_000
STAGES = ("sources", "chunks", "profile_embeddings", "knowledge_chunks", "gin_index", "hnsw_index")
_LOOK_S = 0.2


@dataclass(frozen=True)
class Ingested:
    """What one ingest did.

    Attributes:
        seconds: of the assets' own work; `startup_seconds` is what Dagster took around it.
        process_mib: the largest resident set of the process that was started, as the kernel counts it.
        tree_mib: the largest sum, over that process and its children at one moment, of their own share of memory
            (proportional set size, looked at five times a second). Postgres is none of them.
        processor_seconds: what the process and its children have used, Dagster's start included, which does not depend
            on what else the machine does; Postgres is none of them.
        stages: seconds of each step, as Dagster's log has them.
    """

    chunks: int
    seconds: float
    startup_seconds: float
    process_mib: float
    tree_mib: float
    processor_seconds: float
    stages: dict[str, float] = field(default_factory=dict)

    @property
    def chunks_per_s(self) -> float:
        return self.chunks / self.seconds if self.seconds else 0.0

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def ingest(roots: Sequence[Path], tenant: str, bot: str, profile: str) -> Ingested:
    """Run `rag ingest` for a tenant, in a process of its own."""
    paths = [str(root.resolve()) for root in roots]
    command = [sys.executable, "-m", "rag_assets.cli", "ingest", *paths, "--tenant", tenant, "--bot", bot]
    process = subprocess.Popen(
        [*command, "--profile", profile, "--json"], env=environment(), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with _watched(process.pid) as peak:
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"rag ingest of {tenant} failed: {output}")
    answer = json.loads(output)
    return Ingested(
        answer["chunks_written"],
        answer["seconds"],
        answer["startup_seconds"],
        usage.ru_maxrss / 1024,
        peak[0] / (1 << 20),
        usage.ru_utime + usage.ru_stime,
        stage_seconds(answer["run_ids"]),
    )


@contextmanager
def _watched(pid: int) -> Iterator[list[int]]:
    """The largest memory in bytes, so far, of a process with its children."""
    peak, done = [0], Event()

    def watch() -> None:
        while not done.wait(_LOOK_S):
            peak[0] = max(peak[0], _tree_bytes(pid))

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        done.set()
        watcher.join()


def _tree_bytes(pid: int) -> int:
    total = 0
    try:
        parent = psutil.Process(pid)
        for process in chain([parent], parent.children(recursive=True)):
            try:
                total += process.memory_full_info().pss
            except psutil.Error:
                continue  # ended while it was looked at
    except psutil.Error:
        return 0
    return total


def stage_seconds(run_ids: list[str]) -> dict[str, float]:
    """Seconds of each step of some runs."""
    os.environ.update(environment())
    from rag_assets.launch.instance import dagster_instance
    from rag_assets.settings import load_settings

    found: dict[str, float] = {}
    with dagster_instance(load_settings()) as instance:
        for run_id in run_ids:
            for step in instance.get_run_step_stats(run_id):
                if step.start_time is not None and step.end_time is not None:
                    found[step.step_key] = round(step.end_time - step.start_time, 3)
    return found


def prefix(corpus: Path, chunks: int, out: Path) -> Path:
    """The first documents of a folder of `bench.corpus` that have so many chunks, as files of 8 MB each in `out`.

    Done already where `out` holds them. Returns `out`.
    """
    done = out.with_suffix(".done")
    if done.exists():
        return out
    out.mkdir(parents=True, exist_ok=True)
    part, size, seen = 0, 0, 0
    with (
        (corpus / "corpus.jsonl").open(encoding="utf-8") as lines,
        (corpus / "chunks.tsv").open(encoding="utf-8") as counts,
    ):
        file = (out / f"{part:05}.jsonl").open("w", encoding="utf-8")
        for line, count in zip(lines, counts, strict=True):
            if seen >= chunks:
                break
            if size >= PART_BYTES:
                file.close()
                part, size = part + 1, 0
                file = (out / f"{part:05}.jsonl").open("w", encoding="utf-8")
            file.write(line)
            size += len(line)
            seen += int(count.rsplit("\t", 1)[1])
        file.close()
    if seen < chunks:
        raise SystemExit(f"{corpus} has {seen:,} chunks, not {chunks:,}")
    done.touch()
    return out


def roots_of(data: Path, chunks: int) -> list[Path]:
    """What is ingested of a folder with labelled collections: SciFact; of one of `bench.corpus`: the first chunks."""
    if (data / "chunks.tsv").exists():
        return [prefix(data, chunks, HOME / "scale" / str(chunks))]
    return [data / "scifact" / "corpus.jsonl"]


def joined(root: Path) -> Path:
    """The rows of one such root in one file, as the peers read them."""
    if root.is_file():
        return root
    out = root.with_suffix(".jsonl")
    with out.open("wb") as whole:
        for part in sorted(root.glob("*.jsonl")):
            whole.write(part.read_bytes())
    return out
