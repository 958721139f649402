"""What runs load on their first use of it, loaded ahead in the process that they are forked from."""

from __future__ import annotations

from contextlib import suppress

import pyarrow.dataset
import pyarrow.parquet  # noqa: F401
import sqlalchemy as sa

import rag_assets.chunking.strategies
import rag_assets.chunking.syntax
import rag_assets.runs.storage  # noqa: F401
from rag_assets.definitions import defs
from rag_assets.embedding.profiles import BUILTIN_PROFILES
from rag_assets.embedding.registry import embedder_for
from rag_assets.errors import EmbeddingError

__all__ = ["defs"]

sa.create_engine("postgresql+psycopg2://")  # SQLAlchemy loads the driver with the first engine
for _profile in BUILTIN_PROFILES.values():
    if not _profile.model_info.ships:
        continue  # a transformer takes 0.3 GB, which only the runs that use it are to pay
    with suppress(EmbeddingError):  # its files are missing: the run that needs them says so
        embedder_for(_profile)
