"""The stages of ingestion as plain functions: sources, chunks, embeddings, publication.

Dagster assets call them one by one with Parquet in between; `run.ingest` calls them in a row, and so does
`rag_assets.ingest(...)`: the package itself can be called, because the front door's function has its name.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rag_assets.ingest.run import IngestReport


class _Ingest(ModuleType):
    def __call__(self, *arguments: Any, **options: Any) -> IngestReport:
        """See `rag_assets.ingest.run.ingest`."""
        from rag_assets.ingest.run import ingest  # its modules import this package

        return ingest(*arguments, **options)


sys.modules[__name__].__class__ = _Ingest
