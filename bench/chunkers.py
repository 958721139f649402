"""What each chunker, and a context header in front of its chunks, does to retrieval.

python -m bench.chunkers --data DIR [--collections quarrowby orrelune scifact stackfaq cosqa] [--only TEXT] [--size N]

Every row is a profile of its own, ingested and searched through the product; only the chunking differs.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

from bench.common import REPOSITORY, environment, show
from evals.datasets import EvalSet, load_evalset
from evals.metrics import evaluate
from evals.runner import run_queries
from rag_assets.chunking import ChunkingSpec
from rag_assets.chunking.spec import Strategy
from rag_assets.embedding.profiles import EmbeddingProfile, make_profile
from rag_assets.ingest.run import ingest
from rag_assets.ingest.start import remember_roots
from rag_assets.store.database import Database
from rag_assets.store.migrate import migrate
from rag_assets.store.profiles import add_spec
from rag_assets.store.search import Mode

BUNDLED = REPOSITORY / "evals" / "data"
_CHARACTERS: tuple[Strategy, ...] = (
    "recursive", "character", "sentence", "paragraph", "markdown", "faq", "code", "hybrid",
)  # fmt: skip
_MODES: tuple[Mode, ...] = ("dense", "hybrid")


def chunkings(size: int) -> Iterator[tuple[str, ChunkingSpec]]:
    """The chunkings that are compared, by name; `size` in characters, a quarter of it in tokens."""
    overlap = size // 8
    for header in (False, True):
        suffix = "-context" if header else ""
        for strategy in _CHARACTERS:
            spec = ChunkingSpec(strategy=strategy, size=size, overlap=overlap, context_header=header)
            yield f"{strategy}-{size}{suffix}", spec
        yield (
            f"token-{size // 4}{suffix}",
            ChunkingSpec(strategy="token", size=size // 4, overlap=overlap // 4, context_header=header),
        )


def profile_of(name: str, chunking: ChunkingSpec, base: str) -> EmbeddingProfile:
    """The base profile's model with another chunking, always searched exactly."""
    dimensions = int(base.rpartition("-")[2])
    return make_profile(
        name=name, provider="wordllama", model="l2_supercat_256", dimensions=dimensions, chunking=chunking,
        index={"kind": "exact"},
    )  # fmt: skip


def measure(database: Database, tenant: str, evalset: EvalSet, profile: EmbeddingProfile) -> list[object]:
    """Chunks, and nDCG@10 and Recall@5 in each mode."""
    add_spec(database, profile)
    report = ingest(database, tenant, "bench", profile.name)
    row: list[object] = [report.publication.serving_chunks]
    for mode in _MODES:
        run = run_queries(database, tenant, "bench", profile.name, evalset, mode)
        means = dict(evaluate(evalset, run).means)
        row += [means["ndcg@10"], means["recall@5"]]
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds the collections")
    parser.add_argument("--collections", nargs="+", default=["quarrowby", "orrelune", "scifact", "stackfaq", "cosqa"])
    parser.add_argument("--only", default="", help="only chunkings whose name holds this text")
    parser.add_argument("--size", type=int, default=1200, help="largest chunk in characters")
    parser.add_argument("--profile", default="static-256", help="whose model is used")
    options = parser.parse_args()
    os.environ.update(environment())
    database = Database.from_settings()
    migrate(database)
    for name in options.collections:
        bundled = (BUNDLED / name).is_dir()
        folder = BUNDLED / name if bundled else options.data / name
        corpus = folder / "sources" if bundled else folder / "corpus.jsonl"
        tenant = f"chunkers-{name}"
        remember_roots(database, tenant, "bench", [str(corpus.resolve())])
        evalset = load_evalset(folder) if bundled else load_evalset(folder, split="test")
        rows = [
            [label, *measure(database, tenant, evalset, profile_of(label, chunking, options.profile))]
            for label, chunking in chunkings(options.size)
            if options.only in label
        ]
        columns = ["chunking", "chunks", "dense nDCG@10", "Recall@5", "hybrid nDCG@10", "Recall@5"]
        show(f"{name}, {options.profile}", columns, rows)
    database.close()


if __name__ == "__main__":
    main()
