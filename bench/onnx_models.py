"""One model by two libraries: what it finds, what it takes, and what is installed for it. For `bench.providers`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bench.common import Collection, load_collection, score, show, verdict
from rag_assets.embedding.profiles import BUILTIN_PROFILES, make_profile
from rag_assets.embedding.protocol import Embedder
from rag_assets.embedding.registry import embedder_for

TORCH = {"provider": "sentence-transformers", "model": "all-MiniLM-L6-v2", "dimensions": 384}
DEPTH = 50  # documents
CHUNK = 1200  # characters
CHUNKS = 512
_OURS = "rag-assets"


def onnx_beside_torch(data: Path, every: int = 1) -> None:
    """Print quality over whole abstracts, chunks a second, and megabytes. Of the abstracts that answer no query only
    one of `every` is taken: the whole collection is 20 minutes of a processor's work for each model."""
    os.environ["RAG_DEVICE"] = "cpu"
    collection = load_collection(data / "scifact")
    models = {
        "sentence-transformers": embedder_for(make_profile(name="torch", **TORCH)),
        "onnx, int8 weights": embedder_for(BUILTIN_PROFILES["minilm"]),
    }
    _show_sizes({"sentence-transformers": "local", "onnx, int8 weights": "onnx"})
    _show_speed(collection, models)
    _show_quality(collection, models, every)


def _show_quality(collection: Collection, models: dict[str, Embedder], every: int) -> None:
    judged = {document for labels in collection.qrels.values() for document in labels}
    documents = dict(
        row for number, row in enumerate(_documents(collection)) if row[0] in judged or number % every == 0
    )
    found = {name: _ranked(collection, documents, embedder) for name, embedder in models.items()}
    scores = {name: score(collection, run) for name, run in found.items()}
    columns = list(next(iter(scores.values())))
    show(
        f"SciFact, {len(documents)} abstracts, {len(collection.queries)} queries, dense",
        ["model", *columns], [[name, *values.values()] for name, values in scores.items()],
    )  # fmt: skip
    torch, onnx = scores.values()
    for metric in ("ndcg@10", "recall@5"):
        verdict(f"{metric} lost to torch", torch[metric] - onnx[metric], 0.005, at_least=False)


def _ranked(collection: Collection, documents: dict[str, str], embedder: Embedder) -> dict[str, list[str]]:
    names = np.array(list(documents))
    vectors = embedder.embed_documents(list(documents.values())).vectors
    run = {}
    for query, text in collection.queries.items():
        scores: NDArray[np.float32] = vectors @ embedder.embed_query(text).vectors[0]
        run[query] = names[np.argsort(-scores, kind="stable")[:DEPTH]].tolist()
    return run


def _show_speed(collection: Collection, models: dict[str, Embedder]) -> None:
    """By turns, so that what else runs on the machine slows both; seconds of processors beside those of the clock."""
    texts = [text for _, text in _documents(collection)]
    chunks = [text[start : start + CHUNK] for text in texts for start in range(0, len(text), CHUNK)][:CHUNKS]
    wall, own = dict.fromkeys(models, 0.0), dict.fromkeys(models, 0.0)
    for start in range(0, len(chunks), 64):
        for name, embedder in models.items():
            began, worked = time.monotonic(), time.process_time()
            embedder.embed_documents(chunks[start : start + 64])
            if start:  # the first time warms up
                wall[name] += time.monotonic() - began
                own[name] += time.process_time() - worked
    measured = len(chunks) - 64
    rows = [[name, measured / wall[name], measured / own[name]] for name in models]
    title = f"{measured} chunks of {CHUNK} characters, by turns"
    show(title, ["model", "chunks/s", "chunks per processor second"], rows)
    torch, onnx = models
    print(f"onnx / sentence-transformers: {wall[torch] / wall[onnx]:.2f} times its chunks/s, "
          f"{own[torch] / own[onnx]:.2f} times its chunks per processor second")  # fmt: skip


def _show_sizes(extras: dict[str, str]) -> None:
    """What each extra installs beyond the package without extras, where it is installed; torch may be with CUDA or not.

    all-MiniLM-L6-v2 for torch, 88 MB, comes from the hub or a package beside these.
    """
    base = _closure([_OURS], "")
    rows = []
    for name, extra in extras.items():
        more = _closure([_OURS], extra) - base
        rows.append([name, extra, sum(map(_megabytes, more)), ", ".join(sorted(more, key=_megabytes)[:-5:-1])])
    show("installed by each extra", ["model", "extra", "MB", "the largest"], rows)


def _closure(names: Iterable[str], extra: str) -> set[str]:
    """All that is installed for these, by their metadata."""
    found: set[str] = set()
    waiting = [(name, {extra}) for name in names]
    while waiting:
        name, extras = waiting.pop()
        for text in _requirements(name):
            one = Requirement(text)
            wanted = one.marker is None or any(one.marker.evaluate({"extra": given}) for given in extras | {""})
            key = canonicalize_name(one.name)
            if wanted and key not in found:
                found.add(key)
                waiting.append((key, set(one.extras)))
    return found


def _requirements(name: str) -> list[str]:
    try:
        return distribution(name).requires or []
    except PackageNotFoundError:
        return []


def _megabytes(name: str) -> float:
    try:
        files = distribution(name).files or []
    except PackageNotFoundError:
        return 0.0
    paths = (Path(str(file.locate())) for file in files)
    return sum(path.stat().st_size for path in paths if path.is_file()) / 1e6


def _documents(collection: Collection) -> Iterator[tuple[str, str]]:
    with collection.corpus.open(encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            yield row["_id"], f"{row['title']}\n\n{row['text']}".strip()
