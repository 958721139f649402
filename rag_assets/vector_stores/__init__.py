"""Where a profile's chunks are searched by their vectors: in Postgres, or copied elsewhere for development.

`SqliteStore` and `ChromaStore` stand in the modules `sqlite` and `chroma` of this package, which need
packages that not everybody has.
"""

from rag_assets.vector_stores.load import LoadReport, load
from rag_assets.vector_stores.memory import MemoryStore
from rag_assets.vector_stores.postgres import PostgresStore
from rag_assets.vector_stores.protocol import StoredChunk, StoredSource, VectorStore, WritableStore
from rag_assets.vector_stores.retriever import StoreRetriever

__all__ = [
    "LoadReport",
    "MemoryStore",
    "PostgresStore",
    "StoreRetriever",
    "StoredChunk",
    "StoredSource",
    "VectorStore",
    "WritableStore",
    "load",
]
