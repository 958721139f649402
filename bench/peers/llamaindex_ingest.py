"""Ingest a BEIR corpus into Postgres with LlamaIndex, and print what it took as one JSON object."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import psycopg
from llama_index.core import Document
from llama_index.core.constants import DEFAULT_CHUNK_SIZE
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.node_parser.text.sentence import SENTENCE_CHUNK_OVERLAP
from llamaindex_common import (
    HNSW_EF_SEARCH,
    WordLlamaEmbedding,
    libpq_url,
    open_store,
    physical_table,
)
from psycopg import sql
from static_model import peak_rss_mb, read_jsonl, text_of


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dsn", required=True, help="a postgresql:// URL; ?host=/folder for a socket")
    parser.add_argument("--corpus", required=True, type=Path, help="corpus.jsonl with _id, title and text")
    parser.add_argument("--table", required=True)
    parser.add_argument("--chunk-size", type=int, default=DEFAULT_CHUNK_SIZE, help="tokens")
    parser.add_argument("--chunk-overlap", type=int, default=SENTENCE_CHUNK_OVERLAP, help="tokens")
    # 64 is WordLlama's own default; LlamaIndex's 10 is for remote services and only slows the peer down.
    parser.add_argument("--embed-batch-size", type=int, default=64, help="texts a call")
    parser.add_argument("--hnsw", action="store_true", help="with an HNSW index, made before the rows")
    parser.add_argument("--replace", action="store_true", help="drop the peer's table of this name first")
    return parser.parse_args()


def splitter(chunk_size: int, chunk_overlap: int) -> SentenceSplitter:
    """SentenceSplitter as it comes: cl100k_base counts the tokens, NLTK's Punkt finds the sentences.

    Both run offline: llama-index-core bundles the tiktoken ranks and the NLTK data under `_static`, so the
    peer keeps the tokenizer its users get. Only an environment that sets TIKTOKEN_CACHE_DIR or NLTK_DATA
    to an empty folder makes it download.
    """
    return SentenceSplitter(chunk_size=chunk_size, chunk_overlap=chunk_overlap)


def read_documents(corpus: Path) -> list[Document]:
    # No metadata: LlamaIndex embeds it in front of the text, and the vectors compared would differ.
    return [Document(id_=row["_id"], text=text_of(row)) for row in read_jsonl(corpus)]


def drop_table(dsn: str, table: str) -> None:
    statement = sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(physical_table(table)))
    with psycopg.connect(libpq_url(dsn)) as connection:
        connection.execute(statement)


def settle(dsn: str, table: str) -> int:
    """Vacuum and analyze, so that no search depends on when autovacuum comes by; returns the rows stored."""
    name = sql.Identifier(physical_table(table))
    with psycopg.connect(libpq_url(dsn), autocommit=True) as connection:
        connection.execute(sql.SQL("VACUUM (ANALYZE) {}").format(name))
        row = connection.execute(sql.SQL("SELECT count(*) FROM {}").format(name)).fetchone()
    return int(row[0]) if row else 0


def ingest(args: argparse.Namespace) -> dict[str, float | int | str]:
    """Run the pipeline; the clock covers reading, splitting, embedding and storing, not loading the model."""
    embedding = WordLlamaEmbedding(embed_batch_size=args.embed_batch_size)
    split = splitter(args.chunk_size, args.chunk_overlap)
    store = open_store(args.dsn, args.table, hnsw=args.hnsw, ef_search=HNSW_EF_SEARCH, setup=True)
    pipeline = IngestionPipeline(transformations=[split, embedding], vector_store=store)
    before_mb = peak_rss_mb()
    started = time.perf_counter()
    documents = read_documents(args.corpus)
    chunks = len(pipeline.run(documents=documents))
    seconds = time.perf_counter() - started
    peak_mb = peak_rss_mb()
    return {
        "documents": len(documents),
        "chunks": chunks,
        "seconds": round(seconds, 2),
        "seconds_embedding": round(embedding.seconds, 2),
        "chunks_per_s": round(chunks / seconds, 1),
        "peak_rss_mb": round(peak_mb, 1),
        "peak_rss_growth_mb": round(peak_mb - before_mb, 1),
        "chunk_size": split.chunk_size,
        "chunk_overlap": split.chunk_overlap,
        "hnsw": args.hnsw,
    }


def main() -> None:
    args = arguments()
    if args.replace:
        drop_table(args.dsn, args.table)
    report = ingest(args)
    stored = settle(args.dsn, args.table)
    if stored != report["chunks"]:
        raise SystemExit(f"{stored} rows stored for {report['chunks']} chunks: use --replace")
    print(json.dumps(report))


if __name__ == "__main__":
    main()
