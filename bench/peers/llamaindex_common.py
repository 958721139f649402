"""What the LlamaIndex ingest and search measurements share: the embedder, the store and the input files."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.vector_stores.postgres import PGVectorStore
from sqlalchemy.engine import make_url
from static_model import DIMENSIONS, StaticModel

# pgvector's own defaults, which are also the values of the integration's documentation.
HNSW_M = 16
HNSW_EF_CONSTRUCTION = 64
HNSW_EF_SEARCH = 40


class WordLlamaEmbedding(BaseEmbedding):
    """The l2_supercat model that ships inside the wordllama wheel, 256 dimensions, not normalised.

    `seconds` adds up the wall-clock time spent inside the model, for documents and queries alike.
    """

    _model: StaticModel = PrivateAttr()

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(model_name="wordllama/l2_supercat_256", **kwargs)
        self._model = StaticModel()

    @property
    def seconds(self) -> float:
        return self._model.seconds

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        vectors: list[list[float]] = self._model.embed(texts, self.embed_batch_size).tolist()
        return vectors

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embeddings([query])[0]

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)


def connection_strings(dsn: str) -> tuple[str, str]:
    """The psycopg2 and asyncpg forms of a libpq URL; `?host=/folder` names a unix socket in both.

    Strings and not URL objects: PGVectorStore calls str() on what it is given, and SQLAlchemy then
    prints the password as `***`.
    """
    url = make_url(dsn)
    sync, asynchronous = (url.set(drivername=f"postgresql+{driver}") for driver in ("psycopg2", "asyncpg"))
    return sync.render_as_string(hide_password=False), asynchronous.render_as_string(hide_password=False)


def libpq_url(dsn: str) -> str:
    """The same address for psycopg, which knows no driver suffix."""
    return make_url(dsn).set(drivername="postgresql").render_as_string(hide_password=False)


def physical_table(table: str) -> str:
    """The name PGVectorStore gives the table it makes for `table`."""
    return f"data_{table.lower()}"


def open_store(
    dsn: str, table: str, *, hnsw: bool, ef_search: int, setup: bool, connections: int = 5
) -> PGVectorStore:
    """A store with the `english` full-text column; `setup` lets it create the table and its indexes."""
    sync, asynchronous = connection_strings(dsn)
    hnsw_kwargs = {
        "hnsw_m": HNSW_M,
        "hnsw_ef_construction": HNSW_EF_CONSTRUCTION,
        "hnsw_ef_search": ef_search,
        "hnsw_dist_method": "vector_cosine_ops",
    }
    return PGVectorStore(
        connection_string=sync,
        async_connection_string=asynchronous,
        table_name=table,
        embed_dim=DIMENSIONS,
        hybrid_search=True,
        text_search_config="english",
        hnsw_kwargs=hnsw_kwargs if hnsw else None,
        perform_setup=setup,
        create_engine_kwargs={"pool_size": connections, "max_overflow": 0},
        # Otherwise a failed CREATE is a log line, and the measurement goes on without the index.
        initialization_fail_on_error=True,
    )
