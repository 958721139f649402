"""Ingestion speed and memory beside LlamaIndex, Haystack and CocoIndex: same texts, same model, same server.

python -m bench.ingest --data DIR [--chunks 10000] [--repeat 3] [--peers llamaindex haystack cocoindex]

`DIR` holds scifact/, or is a folder of `bench.corpus`, of which the first `--chunks` are taken. The product's seconds
are those of the steps of its two runs; what Dagster takes around them is told apart; its memory is that of its process
and its children. The peers' seconds are those of their pipelines into Postgres, with the HNSW index that each makes by
itself; all but CocoIndex, which has none, make a full-text index too. They cut pieces of about the product's size, so
that the numbers of chunks are alike.
"""

from __future__ import annotations

import argparse
import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.common import environment, median, peer, rag, show, verdict
from bench.measured import ingest, joined, roots_of

PROFILE = "bench-256-hnsw"
_NAMES = {"llamaindex": "LlamaIndex", "haystack": "Haystack", "cocoindex": "CocoIndex"}
_LEAST = {"llamaindex": 3.0, "haystack": 2.0, "cocoindex": 1.0}  # times the chunks/s of each
# Of the pieces: words, and bytes; those of LlamaIndex are counted in tokens, and may be chosen.
_PIECES = {
    "llamaindex": ("--hnsw", "--replace"),
    "haystack": ("--split-length", "160", "--split-overlap", "20"),
    "cocoindex": ("--chunk-size", "1200", "--chunk-overlap", "150"),
}


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


def ours(roots: Sequence[Path]) -> dict[str, Any]:
    """Ingest into a tenant that has never been seen, so that no cache helps; then once more, unchanged."""
    tenant = f"t{uuid.uuid4().hex[:12]}"
    where = ("--tenant", tenant, "--bot", "bench", "--profile", PROFILE)
    first = ingest(roots, tenant, "bench", PROFILE)
    again, _ = rag("ingest", *where)
    rag("erase", "--tenant", tenant, "--yes")
    print(f"rag-assets: {first}", flush=True)
    return {**first.as_json(), "again": again}


def compare(roots: Sequence[Path], url: str, names: Sequence[str], repeat: int, tokens: int) -> None:
    """Ingest by turns, and print the table and what is promised of it."""
    corpus = str(joined(roots[0]))
    mine: list[dict[str, Any]] = []
    peers: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    pieces = {**_PIECES, "llamaindex": (*_PIECES["llamaindex"], "--chunk-size", str(tokens),
                                        "--chunk-overlap", str(tokens // 8))}  # fmt: skip
    for _ in range(repeat):  # alternating, so that all meet the machine in the same mood
        mine.append(ours(roots))
        for name in names:
            where = ("--dsn", url, "--corpus", corpus, "--table", f"ingest_{name}")
            peers[name].append(peer(f"{name}_ingest.py", *where, *pieces[name]))
            print(f"{_NAMES[name]}: {peers[name][-1]}", flush=True)
    rows = [
        _row("rag-assets", mine, {"tree_mib": "peak_rss_mb"}),
        *(_row(_NAMES[name], answers, {}) for name, answers in peers.items()),
    ]
    columns = ["", "chunks", "seconds", "chunks/s", "peak MiB", "Dagster start-up s"]
    show(f"{corpus}, medians of {repeat}", columns, rows)
    again = mine[-1]["again"]
    print(f"unchanged second run: embedded {again['embedded']}, written {again['chunks_written']}, {again['sources']}")
    for name, row in zip(names, rows[1:], strict=True):
        verdict(f"chunks/s, times {_NAMES[name]}'s", rows[0][3] / row[3], _LEAST[name])
        verdict(f"peak memory, share of {_NAMES[name]}'s", rows[0][4] / row[4], 1.0, at_least=False)
    verdict("embedded in an unchanged second run", again["embedded"], 0, at_least=False)
    verdict("chunks written in an unchanged second run", again["chunks_written"], 0, at_least=False)


def _row(
    name: str, answers: Sequence[Mapping[str, Any]], called: Mapping[str, str]
) -> tuple[str, float, float, float, float, float]:
    """Medians of what one of them answered; `called` has the product's names of what is counted."""
    named = [{called.get(key, key): value for key, value in one.items()} for one in answers]
    return (
        name,
        median(one["chunks"] for one in named),
        median(one["seconds"] for one in named),
        median(one["chunks"] / one["seconds"] for one in named),
        median(one["peak_rss_mb"] for one in named),
        median(one.get("startup_seconds", 0.0) for one in named),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds scifact/, or one of bench.corpus")
    parser.add_argument("--chunks", type=int, default=10_000, help="of a folder of bench.corpus")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument(
        "--peer-chunk-size", type=int, default=256, help="tokens; 256 gives LlamaIndex as many chunks as the product"
    )
    parser.add_argument("--peers", nargs="*", choices=_NAMES, default=list(_NAMES))
    options = parser.parse_args()
    url = prepare()
    compare(roots_of(options.data, options.chunks), url, options.peers, options.repeat, options.peer_chunk_size)


if __name__ == "__main__":
    main()
