"""Put a BEIR corpus into langchain-postgres' PGVectorStore, and ask its hybrid search by many clients at once."""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path

import wordllama
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_postgres import PGEngine, PGVectorStore
from langchain_postgres.v2.hybrid_search_config import HybridSearchConfig
from langchain_postgres.v2.indexes import HNSWIndex, HNSWQueryOptions
from many_clients import add_arguments, by_tasks, by_threads, read_texts

DIMENSIONS = 256
EF_SEARCH = 40  # pgvector's own default


class WordLlamaEmbeddings(Embeddings):
    """The l2_supercat model that ships inside the wordllama wheel, 256 dimensions."""

    def __init__(self) -> None:
        folder = Path(wordllama.__file__).parent
        self._model = wordllama.WordLlama.load(cache_dir=folder, dim=DIMENSIONS, disable_download=True)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        vectors: list[list[float]] = self._model.embed(texts, batch_size=64).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]

    async def aembed_query(self, text: str) -> list[float]:
        return self.embed_query(text)


def hybrid(k: int, text: str = "") -> HybridSearchConfig:
    """Weighted sums of both lists, as they come. One for each call: the store keeps the first query in it."""
    return HybridSearchConfig(
        tsv_column="content_tsv", tsv_lang="pg_catalog.english", fts_query=text, primary_top_k=k, secondary_top_k=k
    )


def documents_of(corpus: Path) -> list[Document]:
    """A document for each row, whole: the abstracts are shorter than what splitters leave together by default."""
    with corpus.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines if line.strip()]
    texts = [f"{row['title']}\n\n{row['text']}" if row.get("title") else row["text"] for row in rows]
    return [
        Document(page_content=text.replace("\0", " "), metadata={"doc_id": row["_id"]})
        for row, text in zip(rows, texts, strict=True)
    ]


def fill(engine: PGEngine, embeddings: Embeddings, table: str, corpus: Path, k: int) -> None:
    """The table anew, with its two indexes, vacuumed by the caller."""
    engine.init_vectorstore_table(table, DIMENSIONS, overwrite_existing=True, hybrid_search_config=hybrid(k))
    store = PGVectorStore.create_sync(engine, embeddings, table, hybrid_search_config=hybrid(k))
    documents = documents_of(corpus)
    for start in range(0, len(documents), 500):
        store.add_documents(documents[start : start + 500])
    store.apply_vector_index(HNSWIndex())
    store.apply_hybrid_search_index()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    parser.add_argument("--corpus", type=Path, help="corpus.jsonl: fill the table with it, and ask nothing")
    args = parser.parse_args()
    most = max(args.clients)
    engine = PGEngine.from_connection_string(
        args.dsn.replace("postgresql://", "postgresql+psycopg://", 1), pool_size=most, max_overflow=0
    )
    embeddings = WordLlamaEmbeddings()
    if args.corpus:
        fill(engine, embeddings, args.table, args.corpus, args.k)
        print("{}")
        return
    store = PGVectorStore.create_sync(
        engine, embeddings, args.table, k=args.k, hybrid_search_config=hybrid(args.k),
        index_query_options=HNSWQueryOptions(ef_search=EF_SEARCH),
    )  # fmt: skip
    texts = read_texts(args.queries, args.qrels)
    found = {
        text: [one.metadata["doc_id"] for one in store.similarity_search(text, hybrid_search_config=hybrid(args.k, text))]
        for text in texts
    }
    answer: dict[str, object] = {"found": found}
    for clients in args.clients:
        answer[f"threads {clients}"] = by_threads(
            lambda text: store.similarity_search(text, hybrid_search_config=hybrid(args.k, text)), texts, clients
        )

    async def tasks() -> None:
        for clients in args.clients:
            answer[f"tasks {clients}"] = await by_tasks(
                lambda text: store.asimilarity_search(text, hybrid_search_config=hybrid(args.k, text)), texts, clients
            )

    asyncio.run(tasks())
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
