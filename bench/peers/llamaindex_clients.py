"""Ask LlamaIndex's hybrid retriever over what llamaindex_ingest.py stored, by many clients at once."""

from __future__ import annotations

import argparse
import asyncio
import json

from llama_index.core import VectorStoreIndex
from llamaindex_common import HNSW_EF_SEARCH, WordLlamaEmbedding, open_store
from many_clients import add_arguments, by_tasks, by_threads, read_texts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    args = parser.parse_args()
    texts = read_texts(args.queries, args.qrels)
    store = open_store(
        args.dsn, args.table, hnsw=True, ef_search=HNSW_EF_SEARCH, setup=False, connections=max(args.clients)
    )
    index = VectorStoreIndex.from_vector_store(store, embed_model=WordLlamaEmbedding())
    retriever = index.as_retriever(vector_store_query_mode="hybrid", similarity_top_k=args.k, sparse_top_k=args.k)
    found = {text: [str(hit.node.ref_doc_id) for hit in retriever.retrieve(text)] for text in texts}
    answer: dict[str, object] = {"found": found}
    for clients in args.clients:
        answer[f"threads {clients}"] = by_threads(retriever.retrieve, texts, clients)

    async def tasks() -> None:
        for clients in args.clients:
            answer[f"tasks {clients}"] = await by_tasks(retriever.aretrieve, texts, clients)

    asyncio.run(tasks())
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
