"""Models in ONNX that lie on the hub: what is fetched of a repository, and those whose repository does not say itself
how they are used."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class Listed:
    """Where a model lies, which of the repository's files holds its weights, and how its tokens become a vector, where
    the repository does not tell; None: its graph does that."""

    repository: str
    file: str
    pooling: Literal["cls", "mean", "lasttoken"] | None


_PLAIN, _ONNX, _OPTIMIZED = "model.onnx", "onnx/model.onnx", "model_optimized.onnx"

# The catalogue of fastembed 0.9 by its names: dense models for texts whose graph takes nothing but tokens.
LISTED = {
    "BAAI/bge-small-en-v1.5": Listed("Qdrant/bge-small-en-v1.5-onnx-Q", _OPTIMIZED, "cls"),
    "BAAI/bge-base-en-v1.5": Listed("Qdrant/bge-base-en-v1.5-onnx-Q", _OPTIMIZED, "cls"),
    "BAAI/bge-large-en-v1.5": Listed("Qdrant/bge-large-en-v1.5-onnx", _PLAIN, "cls"),
    "BAAI/bge-small-en": Listed("Qdrant/bge-small-en", _OPTIMIZED, "cls"),
    "BAAI/bge-base-en": Listed("Qdrant/fast-bge-base-en", _OPTIMIZED, "cls"),
    "BAAI/bge-small-zh-v1.5": Listed("Qdrant/bge-small-zh-v1.5", _OPTIMIZED, "cls"),
    "mixedbread-ai/mxbai-embed-large-v1": Listed("mixedbread-ai/mxbai-embed-large-v1", _ONNX, "cls"),
    **{
        f"snowflake/snowflake-arctic-embed-{size}": Listed(f"Snowflake/snowflake-arctic-embed-{size}", _ONNX, "cls")
        for size in ("xs", "s", "m", "m-long", "l")
    },
    "nomic-ai/nomic-embed-text-v1": Listed("nomic-ai/nomic-embed-text-v1", _ONNX, "mean"),
    "nomic-ai/nomic-embed-text-v1.5": Listed("nomic-ai/nomic-embed-text-v1.5", _ONNX, "mean"),
    "nomic-ai/nomic-embed-text-v1.5-Q": Listed("nomic-ai/nomic-embed-text-v1.5", "onnx/model_quantized.onnx", "mean"),
    "sentence-transformers/all-MiniLM-L6-v2": Listed("Qdrant/all-MiniLM-L6-v2-onnx", _PLAIN, "mean"),
    "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2": Listed(
        "Qdrant/paraphrase-multilingual-MiniLM-L12-v2-onnx-Q", _OPTIMIZED, "mean"
    ),
    "sentence-transformers/paraphrase-multilingual-mpnet-base-v2": Listed(
        "Xenova/paraphrase-multilingual-mpnet-base-v2", _ONNX, "mean"
    ),
    "intfloat/multilingual-e5-large": Listed("Qdrant/multilingual-e5-large-onnx", _PLAIN, "mean"),
    "thenlper/gte-base": Listed("thenlper/gte-base", _ONNX, "mean"),
    "thenlper/gte-large": Listed("Qdrant/gte-large-onnx", _PLAIN, "mean"),
    "jinaai/jina-embeddings-v2-small-en": Listed("Xenova/jina-embeddings-v2-small-en", _ONNX, "mean"),
    "jinaai/jina-embeddings-v2-base-en": Listed("Xenova/jina-embeddings-v2-base-en", _ONNX, "mean"),
    **{
        f"jinaai/jina-embeddings-v2-base-{kind}": Listed(f"jinaai/jina-embeddings-v2-base-{kind}", _ONNX, "mean")
        for kind in ("de", "code", "zh", "es")
    },
    "Qwen/Qwen3-Embedding-0.6B": Listed("Qdrant/Qwen3-Embedding-0.6B-onnx", _ONNX, "lasttoken"),
    "google/embeddinggemma-300m": Listed("onnx-community/embeddinggemma-300m-ONNX", _ONNX, None),
    "ibm-granite/granite-embedding-small-english-r2": Listed(
        "onnx-community/granite-embedding-small-english-r2-ONNX", _ONNX, None
    ),
}


def fetch(repository: str, file: str | None, local: bool) -> Path:
    """The folder of a repository in the hub's cache, with its files that a model in ONNX needs. `file`: the weights;
    None for `model.onnx`, there or in `onnx/`. `local`: ask nobody.

    Raises:
        OSError: with `local`, not all of it is here; else the hub did not give it.
    """
    from huggingface_hub import snapshot_download

    weights = [_PLAIN, _ONNX] if file is None else [file]
    wanted = ["*.json", "vocab.txt", *weights, *(f"{name}_data" for name in weights)]
    folder = Path(snapshot_download(repository, allow_patterns=wanted, local_files_only=local))
    if local and not any((folder / name).is_file() for name in weights):  # the rest is, by another library
        raise FileNotFoundError(f"{folder} holds no {' or '.join(weights)}")
    return folder
