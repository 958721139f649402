"""Ingest a BEIR corpus into Postgres with Haystack, and print what it took as one JSON object.

Haystack as its documentation has it: DocumentSplitter, an embedder, DocumentWriter into PgvectorDocumentStore, which
makes its HNSW and its full-text index with the table. It has no component for this model, so the embedder is ours.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")

from haystack import Document, Pipeline, component
from haystack.components.preprocessors import DocumentSplitter
from haystack.components.writers import DocumentWriter
from haystack.utils import Secret
from haystack_integrations.document_stores.pgvector import PgvectorDocumentStore
from static_model import DIMENSIONS, StaticModel, peak_rss_mb, read_jsonl, text_of


@component
class StaticEmbedder:
    """Gives each document its vector."""

    def __init__(self) -> None:
        self.model = StaticModel()

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, Any]:
        vectors = self.model.embed([document.content or "" for document in documents]).tolist()
        return {"documents": [replace(one, embedding=vector) for one, vector in zip(documents, vectors, strict=True)]}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dsn", required=True, help="a postgresql:// URL; ?host=/folder for a socket")
    parser.add_argument("--corpus", required=True, type=Path, help="corpus.jsonl with _id, title and text")
    parser.add_argument("--table", required=True)
    parser.add_argument("--split-length", type=int, default=200, help="words; the default is Haystack's")
    parser.add_argument("--split-overlap", type=int, default=0, help="words")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    store = PgvectorDocumentStore(
        connection_string=Secret.from_token(args.dsn),
        table_name=args.table,
        embedding_dimension=DIMENSIONS,
        search_strategy="hnsw",
        recreate_table=True,
        hnsw_index_name=f"{args.table}_hnsw",
        keyword_index_name=f"{args.table}_keyword",
    )
    embedder = StaticEmbedder()
    pipeline = Pipeline()
    pipeline.add_component(
        "splitter", DocumentSplitter(split_length=args.split_length, split_overlap=args.split_overlap)
    )
    pipeline.add_component("embedder", embedder)
    pipeline.add_component("writer", DocumentWriter(store))
    pipeline.connect("splitter", "embedder")
    pipeline.connect("embedder", "writer")
    started = time.perf_counter()
    documents = [Document(id=row["_id"], content=text_of(row)) for row in read_jsonl(args.corpus)]
    chunks = pipeline.run({"splitter": {"documents": documents}})["writer"]["documents_written"]
    seconds = time.perf_counter() - started
    report = {
        "documents": len(documents),
        "chunks": chunks,
        "seconds": round(seconds, 2),
        "seconds_embedding": round(embedder.model.seconds, 2),
        "chunks_per_s": round(chunks / seconds, 1),
        "peak_rss_mb": round(peak_rss_mb(), 1),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
