"""The embedding cache of one tenant, in Postgres."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rag_assets.store.database import Connection, Database, as_array, set_scope
from rag_assets.store.sql import query


class PgVectorCache:
    """Vectors by model and content hash, for one tenant; entries carry the bot that paid for them.

    Each `put` is a transaction of its own, so what has been embedded survives a kill. Tenants share
    nothing, so none can learn from a hit that another holds the same text.
    """

    def __init__(self, database: Database, tenant: str, bot: str) -> None:
        self._connection: Connection = database.connect("ingest")
        self._scope = {"tenant": tenant, "bot": bot}

    def get(self, model_key: str, hashes: Sequence[bytes]) -> dict[bytes, NDArray[np.float32]]:
        """The known vectors, each (d,) float32."""
        with self._connection.transaction():
            set_scope(self._connection, self._scope)
            rows = self._connection.cursor(binary=True).execute(
                query("cache_get"), {**self._scope, "model_key": model_key, "hashes": list(hashes)}
            )
            return {bytes(digest): as_array(vector) for digest, vector in rows}

    def put(self, model_key: str, hashes: Sequence[bytes], vectors: NDArray[np.float32]) -> None:
        """Keep vectors (n, d) float32 of n distinct hashes; committed when it returns."""
        with self._connection.transaction():
            set_scope(self._connection, self._scope)
            self._connection.execute(query("staged_vectors_table"))
            with self._connection.cursor().copy(query("copy_staged_vectors")) as copy:
                copy.set_types(["bytea", "vector"])
                for digest, vector in zip(hashes, vectors, strict=True):
                    copy.write_row((digest, vector))
            self._connection.execute(query("cache_put"), {**self._scope, "model_key": model_key})

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> PgVectorCache:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
