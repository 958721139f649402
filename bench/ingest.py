"""Ingestion speed and memory beside LlamaIndex: same collection, same model, same server, HNSW and full-text
indexes included in both.

python -m bench.ingest --data DIR [--repeat 3]

The product's seconds are those of the steps of its two runs; what Dagster takes around them is told apart.
LlamaIndex's are those of IngestionPipeline.run into PGVectorStore(hybrid_search=True, hnsw_kwargs=...).
"""

from __future__ import annotations

import argparse
import os
import uuid
from pathlib import Path
from typing import Any

from bench.common import environment, load_collection, median, peer, rag, show, verdict

PROFILE = "bench-256-hnsw"


def prepare() -> str:
    """Start the server, add a profile that always builds HNSW; returns the URL of the peer's database."""
    os.environ.update(environment())
    rag("up")
    rag(
        "profile", "add", PROFILE, "--provider", "wordllama", "--model", "l2_supercat_256", "--dimensions", "256",
        "--index", "hnsw",
    )  # fmt: skip
    import psycopg

    from rag_assets.settings import load_settings
    from rag_assets.store.database import ensure_database, sqlalchemy_url
    from rag_assets.store.server import start_server

    url = ensure_database(start_server(load_settings().home), "peer")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    return sqlalchemy_url(url).replace("+psycopg2", "")


def ours(corpus: Path) -> dict[str, Any]:
    """Ingest into a tenant that has never been seen, so that no cache helps; then once more, unchanged."""
    tenant = f"t{uuid.uuid4().hex[:12]}"
    where = ("--tenant", tenant, "--bot", "bench", "--profile", PROFILE)
    first, memory = rag("ingest", str(corpus.resolve()), *where)
    again, _ = rag("ingest", *where)
    rag("erase", "--tenant", tenant, "--yes")
    return {**first, "memory": memory, "again": again}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds scifact/")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument(
        "--peer-chunk-size", type=int, default=256, help="tokens; 256 gives LlamaIndex as many chunks as the product"
    )
    options = parser.parse_args()
    collection = load_collection(options.data / "scifact")
    url = prepare()
    mine, peers = [], []
    for _ in range(options.repeat):  # alternating, so that both meet the machine in the same mood
        mine.append(ours(collection.corpus))
        peers.append(
            peer("llamaindex_ingest.py", "--dsn", url, "--corpus", str(collection.corpus), "--table", "scifact",
                 "--chunk-size", str(options.peer_chunk_size), "--chunk-overlap", str(options.peer_chunk_size // 8),
                 "--hnsw", "--replace")
        )  # fmt: skip
    rows: list[tuple[str, float, float, float, float, float]] = [
        (
            "rag-assets",
            median(m["chunks_written"] for m in mine),
            median(m["seconds"] for m in mine),
            median(m["chunks_written"] / m["seconds"] for m in mine),
            median(m["memory"] for m in mine),
            median(m["startup_seconds"] for m in mine),
        ),
        (
            "LlamaIndex",
            median(p["chunks"] for p in peers),
            median(p["seconds"] for p in peers),
            median(p["chunks_per_s"] for p in peers),
            median(p["peak_rss_mb"] for p in peers),
            0.0,
        ),
    ]
    show(
        f"SciFact, medians of {options.repeat}",
        ["", "chunks", "seconds", "chunks/s", "peak MiB", "Dagster start-up s"],
        rows,
    )
    again = mine[-1]["again"]
    print(f"unchanged second run: embedded {again['embedded']}, written {again['chunks_written']}, {again['sources']}")
    verdict("chunks/s, times LlamaIndex's", rows[0][3] / rows[1][3], 3.0)
    verdict("documents/s, times LlamaIndex's", rows[1][2] / rows[0][2], 2.0)
    verdict("peak memory, share of LlamaIndex's", rows[0][4] / rows[1][4], 1.0, at_least=False)
    verdict("embedded in an unchanged second run", again["embedded"], 0, at_least=False)
    verdict("chunks written in an unchanged second run", again["chunks_written"], 0, at_least=False)


if __name__ == "__main__":
    main()
