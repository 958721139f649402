"""Time LlamaIndex's retrievers over what llamaindex_ingest.py stored, and keep the run for scoring."""

from __future__ import annotations

import argparse
import csv
import json
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from llama_index.core import VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.retrievers.fusion_retriever import FUSION_MODES
from llama_index.core.schema import NodeWithScore
from llamaindex_common import HNSW_EF_SEARCH, WordLlamaEmbedding, open_store
from static_model import read_jsonl


@dataclass(frozen=True)
class Measured:
    """One query: milliseconds in all, milliseconds of them in the embedder, and what came back, in order."""

    query_id: str
    total_ms: float
    embed_ms: float
    found: list[NodeWithScore]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dsn", required=True)
    parser.add_argument("--table", required=True)
    parser.add_argument("--queries", required=True, type=Path, help="queries.jsonl with _id and text")
    parser.add_argument("--qrels", type=Path, help="a TSV of judgements: only its queries are asked")
    parser.add_argument("--mode", choices=["hybrid", "default", "sparse", "fusion"], default="hybrid")
    parser.add_argument("--k", type=int, default=10, help="top k of each leg, in chunks")
    parser.add_argument("--ef-search", type=int, default=HNSW_EF_SEARCH)
    parser.add_argument("--limit", type=int, help="ask the first N queries only")
    parser.add_argument("--warmup", type=int, default=5, help="queries asked first and not counted")
    parser.add_argument("--out", type=Path, help="write {query_id: {doc_id: score}} here")
    return parser.parse_args()


def read_queries(queries: Path, qrels: Path | None, limit: int | None) -> list[tuple[str, str]]:
    rows = [(row["_id"], row["text"]) for row in read_jsonl(queries)]
    if qrels is not None:
        with qrels.open(encoding="utf-8", newline="") as lines:
            judged = {row[0] for row in csv.reader(lines, delimiter="\t")}
        rows = [row for row in rows if row[0] in judged]
    return rows[:limit]


def build_retriever(index: VectorStoreIndex, mode: str, k: int) -> BaseRetriever:
    """`hybrid` is the store's own; `fusion` merges the two legs by reciprocal rank.

    The store's own mode lists the k dense results and then the k full-text ones it has not listed yet; it
    does not merge them. Fusing two retrievers is the way LlamaIndex offers to rank them together, with one
    query variant, so that no language model is called.
    """
    if mode != "fusion":
        return index.as_retriever(vector_store_query_mode=mode, similarity_top_k=k, sparse_top_k=k)
    return QueryFusionRetriever(
        [build_retriever(index, leg, k) for leg in ("default", "sparse")],
        llm=MockLLM(),
        mode=FUSION_MODES.RECIPROCAL_RANK,
        similarity_top_k=k,
        num_queries=1,
        use_async=False,
    )


def ask(retriever: BaseRetriever, embedding: WordLlamaEmbedding, query: tuple[str, str]) -> Measured:
    query_id, text = query
    embedded = embedding.seconds
    started = time.perf_counter()
    found = retriever.retrieve(text)
    total_ms = (time.perf_counter() - started) * 1000
    return Measured(query_id, total_ms, (embedding.seconds - embedded) * 1000, found)


def ranked_documents(found: list[NodeWithScore]) -> dict[str, float]:
    """A document stands where its first chunk stands; its score is the reciprocal of that position.

    Not the scores that come back: `hybrid` mixes cosine similarity with ts_rank, so only the order means
    something.
    """
    documents = dict.fromkeys(str(hit.node.ref_doc_id) for hit in found)
    return {document: 1 / position for position, document in enumerate(documents, start=1)}


def summary(mode: str, k: int, measured: list[Measured]) -> dict[str, float | int | str]:
    total = np.array([one.total_ms for one in measured])
    embed = np.array([one.embed_ms for one in measured])
    return {
        "mode": mode,
        "k": k,
        "queries": len(measured),
        "p50_ms": round(float(np.percentile(total, 50)), 2),
        "p95_ms": round(float(np.percentile(total, 95)), 2),
        "mean_ms": round(float(total.mean()), 2),
        "embed_p50_ms": round(float(np.percentile(embed, 50)), 2),
        "embed_mean_ms": round(float(embed.mean()), 2),
        "results_mean": round(float(np.mean([len(one.found) for one in measured])), 1),
    }


def main() -> None:
    args = arguments()
    queries = read_queries(args.queries, args.qrels, args.limit)
    if not queries:
        raise SystemExit("no queries to ask: are --queries and --qrels of the same collection?")
    embedding = WordLlamaEmbedding()
    store = open_store(args.dsn, args.table, hnsw=True, ef_search=args.ef_search, setup=False)
    index = VectorStoreIndex.from_vector_store(store, embed_model=embedding)
    retriever = build_retriever(index, args.mode, args.k)
    for query in queries[: args.warmup]:
        ask(retriever, embedding, query)
    measured = [ask(retriever, embedding, query) for query in queries]
    if args.out is not None:
        run = {one.query_id: ranked_documents(one.found) for one in measured}
        args.out.write_text(json.dumps(run), encoding="utf-8")
    print(json.dumps(summary(args.mode, args.k, measured)))


if __name__ == "__main__":
    main()
