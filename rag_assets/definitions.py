"""The code location: assets, jobs, sensors and resources, put together."""

from __future__ import annotations

import warnings

import dagster as dg

# Asset checks with partitions are a preview in Dagster 1.13, and warn wherever one is defined.
warnings.filterwarnings("ignore", category=dg.PreviewWarning)
# Where Dagster itself copies a sensor it names this parameter, which no sensor here has.
warnings.filterwarnings("ignore", "Parameter `owners` of initializer `SensorDefinition", dg.BetaWarning)

from evals.assets import active_profile, evaluation  # noqa: E402
from rag_assets.assets.chunks import chunks  # noqa: E402
from rag_assets.assets.embeddings import profile_embeddings  # noqa: E402
from rag_assets.assets.indexes import gin_index, hnsw_index  # noqa: E402
from rag_assets.assets.publication import knowledge_chunks  # noqa: E402
from rag_assets.assets.sources import sources  # noqa: E402
from rag_assets.automation.embedding_batches import embedding_batches, watch_batches  # noqa: E402
from rag_assets.automation.jobs import (  # noqa: E402
    eval_gate,
    ingest_pair,
    ingest_sources,
    promote_profile,
    purge_query_log,
)
from rag_assets.automation.new_sources import new_sources  # noqa: E402
from rag_assets.automation.schedules import nightly_eval, purge_nightly  # noqa: E402
from rag_assets.io_managers import ParquetIOManager  # noqa: E402
from rag_assets.resources import Postgres, fixed  # noqa: E402
from rag_assets.runs.logs import console  # noqa: E402

defs = dg.Definitions(
    assets=[sources, chunks, profile_embeddings, knowledge_chunks, gin_index, hnsw_index, evaluation, active_profile],
    jobs=[ingest_sources, ingest_pair, eval_gate, promote_profile, purge_query_log, watch_batches],
    schedules=[nightly_eval, purge_nightly],
    sensors=[new_sources, embedding_batches],
    resources={"postgres": fixed(Postgres()), "io_manager": fixed(ParquetIOManager())},
    loggers={"console": console},
    # A process for each step costs seconds and saves nothing here.
    executor=dg.in_process_executor,
)
