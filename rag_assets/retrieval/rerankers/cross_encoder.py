"""A cross-encoder on this machine: one model reads query and passage together, which finds what vectors cannot tell.

Needs the extra `local`. `RAG_DEVICE` says where it runs.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any

from rag_assets.chunking.plain import read_as_text
from rag_assets.embedding.protocol import Caller
from rag_assets.embedding.providers.local import end_between_passes, usable_device, without_progress_bars
from rag_assets.embedding.providers.local_weights import check_installed, find_model
from rag_assets.errors import EmbeddingError, TimeLimitReached
from rag_assets.retrieval.arguments import check_text
from rag_assets.retrieval.rerankers.protocol import Scores
from rag_assets.settings import load_settings

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

NAMES = {"mini_lm": "cross-encoder/ms-marco-MiniLM-L-6-v2", "bge_base": "BAAI/bge-reranker-base"}

# Passages of one pass: after each one the time is looked at.
_PASS_CPU, _PASS_GPU = 8, 64
_LOADING = Lock()  # two threads that ask at once load the weights once


@dataclass(frozen=True)
class _Loaded:
    """A model, and the lock under which it runs: its tokenizer holds state that two threads must not share."""

    model: CrossEncoder
    lock: Lock = field(default_factory=Lock)


class CrossEncoderReranker:
    """Scores of a sentence-transformers cross-encoder, by the sigmoid of its one output.

    The weights are read by the first query, or by `load`. What is beyond the model's window, query and passage
    together, is not read. One pass runs at a time in a process.
    """

    def __init__(self, model: str = "mini_lm") -> None:
        """`model`: `mini_lm` (English, 23 million parameters), `bge_base` (English and Chinese, 278 million), a name
        of the hub, or a folder (`./reranker`, or its whole path).

        Raises:
            InvalidArgument: the name is no text.
            EmbeddingError: the extra `local` is not installed.
        """
        self._model = NAMES.get(check_text(model, "model"), model)
        check_installed()

    @property
    def name(self) -> str:
        """See `Reranker.name`."""
        return f"cross_encoder/{self._model}"

    def load(self) -> None:
        """Read the weights now, so that no query waits for them.

        Raises:
            ProviderRefused: the model is not here, and cannot be fetched; says the ways out.
            InvalidProfile: the folder is not there, or holds no model.
            EmbeddingError: it is damaged, or no reranker.
            UsageError: `RAG_DEVICE` names a device that this machine lacks.
        """
        with _LOADING:
            _load(self._model, load_settings().device)

    def score(self, query: str, texts: Sequence[str], caller: Caller) -> Scores:
        """See `Reranker.score`."""
        deadline = None if caller.wait_s is None else time.monotonic() + caller.wait_s
        with _Held(_LOADING, deadline):
            loaded = _load(self._model, load_settings().device)
        size = _PASS_CPU if loaded.model.device.type == "cpu" else _PASS_GPU
        # Alike in length, or most of a pass is padding.
        order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        pairs: list[tuple[object, object]] = []
        for start in range(0, len(order), size):
            indices = order[start : start + size]
            with _Held(loaded.lock, deadline):
                scores = self._run(loaded.model, [(query, texts[index]) for index in indices])
            pairs.extend(zip(indices, scores, strict=True))
        return Scores(pairs)

    def _run(self, model: CrossEncoder, pairs: list[tuple[str, str]]) -> list[float]:
        import torch

        try:
            # Of a model that ends in a sigmoid by itself this is that one; some rerankers are published without.
            answer: Any = model.predict(
                pairs, batch_size=len(pairs), activation_fn=torch.nn.Sigmoid(), show_progress_bar=False
            )
        except RuntimeError as error:  # torch's base class, that of "out of memory" too
            raise EmbeddingError(f"{self._model} failed on {model.device}: {error}") from error
        return [float(score) for score in answer]


class _Held:
    """A lock that is waited for until a deadline, and not taken after it: whoever asked has gone."""

    def __init__(self, lock: Lock, deadline: float | None) -> None:
        self._lock, self._deadline = lock, deadline

    def __enter__(self) -> None:
        left = None if self._deadline is None else self._deadline - time.monotonic()
        if (left is not None and left <= 0) or not self._lock.acquire(timeout=-1 if left is None else left):
            raise TimeLimitReached("the cross-encoder was not done in time")

    def __exit__(self, *_: object) -> None:
        self._lock.release()


@cache
def _load(name: str, device: str) -> _Loaded:
    """One copy of the weights in a process, however many rerankers use them."""
    loaded = _Loaded(find_model(name, lambda source, local: _construct(name, source, device, local), "reranker"))
    end_between_passes(loaded.lock)
    return loaded


def _construct(name: str, source: str, device: str, local: bool) -> CrossEncoder:
    from sentence_transformers import CrossEncoder

    with without_progress_bars():
        try:
            model = CrossEncoder(source, device=usable_device(device), local_files_only=local)
        except (ImportError, RuntimeError, ValueError, TypeError, KeyError) as error:
            raise EmbeddingError(f"{name} could not be loaded from {source}: {error}") from error
    if model.num_labels != 1:
        raise EmbeddingError(f"{name} says {model.num_labels} numbers of a passage: a reranker says one")
    read_as_text(model.tokenizer)
    return model
