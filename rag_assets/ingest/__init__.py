"""The stages of ingestion as plain functions: sources, chunks, embeddings, publication.

Dagster assets call them one by one with Parquet in between; `run.ingest` calls them in a row, and so does
`rag_assets.ingest(...)`: the package itself can be called, because the front door's function has its name.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rag_assets.ingest.run import IngestReport
    from rag_assets.store.database import Database


class _Ingest(ModuleType):
    def __call__(self, database: Database, tenant: str, bot: str, profile: str, *, batch: bool = False) -> IngestReport:
        """See `rag_assets.ingest.run.ingest`."""
        from rag_assets.ingest.run import ingest  # its modules import this package

        return ingest(database, tenant, bot, profile, batch=batch)


sys.modules[__name__].__class__ = _Ingest
