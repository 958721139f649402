"""An ingest in a process of its own that kills itself, or Postgres, with SIGKILL at a named point.

Run as a script with an `Errand` as JSON for its only argument; prints what was embedded if it survives.
"""

from __future__ import annotations

import functools
import json
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa

from rag_assets.ingest import chunk_files, chunks, publication, run
from rag_assets.ingest.chunk_files import ChunkFile
from rag_assets.ingest.chunks import CHUNK_SCHEMA
from rag_assets.store import indexes
from rag_assets.store.cache import PgVectorCache
from rag_assets.store.database import Database
from rag_assets.store.limits import PgGate
from rag_assets.store.publication import Publisher, _Transaction

# In the order in which an ingest passes them. Those in the middle of a stage are passed several times.
POINTS = (
    "sources", "a part of chunks", "chunks", "cached", "a part of embeddings", "embeddings", "inside a publication",
    "after a publication", "publication", "lexical", "hnsw",
)  # fmt: skip
REPEATED = ("a part of chunks", "cached", "a part of embeddings", "inside a publication", "after a publication")
SMALL_BATCH = 60  # chunks in a transaction and in a call of the embedder, so that there are several
SMALL_PORTION = 15  # sources that are cut together


@dataclass(frozen=True)
class Errand:
    """What to ingest, and who is killed where: `victim` is "worker", "" or one of `kill_postgres`."""

    url: str
    tenant: str
    bot: str
    profile: str
    data: str = ""
    victim: str = ""
    point: str = ""
    passes: int = 1

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def kill_postgres(data: Path, victim: str, rng: random.Random) -> None:
    """SIGKILL the server that runs in `data`: its "postmaster", "all" its processes, or one "backend", which
    makes the postmaster throw out the others and recover."""
    postmaster = psutil.Process(int((data / "postmaster.pid").read_text().split()[0]))
    children = postmaster.children()
    doomed = {"postmaster": [postmaster], "all": [postmaster, *children]}.get(victim) or [rng.choice(children)]
    for process in doomed:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue


class Fate:
    """Counts the points that the ingest passes, and strikes at the chosen one."""

    def __init__(self, errand: Errand) -> None:
        self._errand = errand
        self._passed: Counter[str] = Counter()

    def passes(self, point: str) -> None:
        self._passed[point] += 1
        if self._errand.victim and point == self._errand.point and self._passed[point] == self._errand.passes:
            if self._errand.victim == "worker":
                os.kill(os.getpid(), signal.SIGKILL)
            kill_postgres(Path(self._errand.data), self._errand.victim, random.Random(self._errand.passes))

    def after(self, owner: Any, name: str, point: str) -> None:
        """Pass `point` whenever the function has returned."""
        real: Callable[..., Any] = getattr(owner, name)

        @functools.wraps(real)
        def then_pass(*args: Any, **values: Any) -> Any:
            result = real(*args, **values)
            self.passes(point)
            return result

        setattr(owner, name, then_pass)

    def in_streams(self) -> None:
        """Pass after each part of what a stage hands over, and at its end."""
        real = run.spool

        def then_pass(parts: Iterable[pa.Table], schema: pa.Schema, folder: Path) -> ChunkFile:
            stage = "chunks" if schema is CHUNK_SCHEMA else "embeddings"
            result = real(self._counted(parts, f"a part of {stage}"), schema, folder)
            self.passes(stage)
            return result

        setattr(run, "spool", then_pass)  # noqa: B010 - assigned plainly, mypy takes it for unbound

    def _counted(self, parts: Iterable[pa.Table], point: str) -> Iterator[pa.Table]:
        for part in parts:
            yield part
            self.passes(point)

    def inside_publications(self) -> None:
        """Pass between the statements that exchange a source's chunks and the one that says it is ready."""
        real = _Transaction.execute

        def pass_then(transaction: _Transaction, name: str, **values: Any) -> Any:
            if name == "publish_sources":
                self.passes("inside a publication")
            return real(transaction, name, **values)

        setattr(_Transaction, "execute", pass_then)  # noqa: B010 - assigned plainly, mypy takes it for unbound


def main(errand: Errand) -> None:
    publication.TRANSACTION_CHUNKS = indexes.ONLINE_CHUNKS = SMALL_BATCH
    chunks._PORTION_SOURCES, chunk_files.PART_ROWS = SMALL_PORTION, SMALL_BATCH
    setattr(PgGate, "batch_items", lambda *_: SMALL_BATCH)  # noqa: B010 - assigned plainly, mypy takes it for a method
    fate = Fate(errand)
    fate.after(run, "sync_sources", "sources")
    fate.in_streams()
    fate.after(PgVectorCache, "put", "cached")
    fate.inside_publications()
    fate.after(Publisher, "publish", "after a publication")
    fate.after(run, "publish_chunks", "publication")
    fate.after(run, "refresh_lexical", "lexical")
    fate.after(run, "ensure_hnsw", "hnsw")
    report = run.ingest(Database(errand.url), errand.tenant, errand.bot, errand.profile)
    print(json.dumps({"embedded": report.embeddings.embedded, "written": report.publication.chunks_written}))


if __name__ == "__main__":
    main(Errand(**json.loads(sys.argv[1])))
