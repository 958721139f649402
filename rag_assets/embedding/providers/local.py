"""Models that run here: any sentence-transformers model, from the hub's cache, a folder, or a package.

A profile remembers a model by its name, so that the files under a name must not change: give another model another
folder. Needs the extra `local`. torch takes seconds to import, so that it and its companions load with the first model.
`RAG_DEVICE` says where models run: `cpu`, `cuda`, `cuda:1`, `mps`, or `auto` (the default: a GPU if there is one).
"""

from __future__ import annotations

import atexit
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from math import isfinite
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from rag_assets.chunking.plain import read_as_text
from rag_assets.embedding.check import check_texts
from rag_assets.embedding.profiles import EmbeddingProfile
from rag_assets.embedding.protocol import NOBODY, Caller, Embedded, Embedder, Usage
from rag_assets.embedding.providers.families import prefixes_of, shipped_prefixes
from rag_assets.embedding.providers.local_weights import find_model
from rag_assets.embedding.providers.windows import TokenWindows, check_room, mean_of_windows
from rag_assets.errors import EmbeddingError, InvalidProfile, UsageError
from rag_assets.settings import load_settings

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

# Texts of one pass, sorted by length before: on a CPU large passes spend a quarter more on padding and gain nothing.
_PASS_CPU, _PASS_GPU = 16, 64
_LAST_PASS_S = 60.0  # how long a process that ends waits for a pass under way


@dataclass(frozen=True)
class _Loaded:
    """A model, and the lock under which it runs: its tokenizer holds state that two threads must not share."""

    model: SentenceTransformer
    tokenizer: Tokenizer
    dimensions: int
    lock: Lock = field(default_factory=Lock)


class LocalEmbedder:
    """Vectors of a sentence-transformers model, of its own size or cut to the profile's.

    A text longer than the model's window is embedded in windows of the model's own tokens, each with its prefix, and
    gets their mean, weighted by length: nothing of it is left out.
    """

    def __init__(self, profile: EmbeddingProfile) -> None:
        self.model_key = profile.model_key
        self.dimensions = profile.dimensions
        self.batch_items = profile.model_info.batch_items
        self._name = profile.model
        self._loaded = _load(profile.model, load_settings().device)
        if profile.dimensions > self._loaded.dimensions:
            raise InvalidProfile(
                f"profile {profile.name!r}: {profile.model} makes vectors of {self._loaded.dimensions} dimensions, "
                f"not {profile.dimensions}"
            )
        self._prefixes = prefixes_of(profile, shipped_prefixes(self._loaded.model.prompts))
        limit = _window_limit(self._loaded.model, profile.options.max_input_tokens)
        self._windows = TokenWindows(self._loaded.tokenizer, limit)
        check_room(profile, self._windows, self._prefixes)

    def embed_documents(self, texts: Sequence[str], caller: Caller = NOBODY) -> Embedded:
        """See `Embedder.embed_documents`; tokens are those that the model read, prefixes included."""
        return self._embed(texts, self._prefixes.document, caller)

    def embed_query(self, text: str, caller: Caller = NOBODY) -> Embedded:
        """See `Embedder.embed_query`."""
        return self._embed([text], self._prefixes.query, caller)

    def _embed(self, texts: Sequence[str], prefix: str, caller: Caller) -> Embedded:
        check_texts(texts)
        windows = [self._windows.cut(text, prefix) for text in texts]
        parts = list(chain.from_iterable(windows))
        vectors = mean_of_windows(self._encode([part.text for part in parts], prefix), windows, self.dimensions)
        return Embedded(vectors, Usage(caller.tenant, caller.bot, len(texts), sum(part.size for part in parts)))

    def _encode(self, texts: list[str], prefix: str) -> NDArray[np.float32]:
        vectors = np.empty((len(texts), self.dimensions), dtype=np.float32)
        for start in range(0, len(texts), self.batch_items):
            batch = texts[start : start + self.batch_items]
            # Once a batch, so that a query waits for one batch of a document run and not for all of them.
            with self._loaded.lock:
                vectors[start : start + len(batch)] = self._run(batch, prefix)[:, : self.dimensions]
        return vectors

    def _run(self, batch: list[str], prefix: str) -> NDArray[np.float32]:
        model = self._loaded.model
        size = _PASS_CPU if model.device.type == "cpu" else _PASS_GPU
        try:
            # The prefix goes by its own argument, for the models whose mean leaves its tokens out; an empty one
            # keeps the model from adding its default.
            answer: NDArray[np.float32] = model.encode(
                batch, prompt=prefix, batch_size=size, show_progress_bar=False, convert_to_numpy=True
            )
        except RuntimeError as error:  # torch's base class, that of "out of memory" too
            raise EmbeddingError(f"{self._name} failed on {model.device}: {error}") from error
        return answer


def _window_limit(model: SentenceTransformer, chosen: int | None) -> int | None:
    # A tokenizer without a limit says so with infinity or 1e30.
    own = model.max_seq_length
    limits = [int(limit) for limit in (own, chosen) if limit and isfinite(limit) and limit < 1e9]
    return min(limits, default=None)


@cache
def _load(name: str, device: str) -> _Loaded:
    """One copy of the weights in a process, however many profiles use them."""
    model = find_model(name, lambda source, local: _construct(name, source, usable_device(device), local))
    dimensions = model.get_embedding_dimension() or len(model.encode("size", show_progress_bar=False))
    read_as_text(model.tokenizer)
    loaded = _Loaded(model, _plain_tokenizer(name, model), dimensions)
    end_between_passes(loaded.lock)
    return loaded


def end_between_passes(lock: Lock) -> None:
    """Have the process end while nobody runs the model under this lock, and nobody start again. A thread that was not
    waited for may still compute: it would meet the end of the interpreter inside torch, which aborts the process."""
    atexit.register(lock.acquire, timeout=_LAST_PASS_S)


def _construct(name: str, source: str, device: str, local: bool) -> SentenceTransformer:
    from sentence_transformers import SentenceTransformer

    with without_progress_bars():
        try:
            return SentenceTransformer(source, device=device, local_files_only=local)
        except (ImportError, RuntimeError, ValueError, TypeError, KeyError) as error:
            raise EmbeddingError(f"{name} could not be loaded from {source}: {error}") from error


@contextmanager
def without_progress_bars() -> Iterator[None]:
    """What is loaded in here draws nothing on the terminal."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _plain_tokenizer(name: str, model: SentenceTransformer) -> Tokenizer:
    """A copy of the model's tokenizer that counts a text to its end."""
    own = getattr(model.tokenizer, "backend_tokenizer", model.tokenizer)
    if not isinstance(own, Tokenizer):
        raise EmbeddingError(f"{name} has no fast tokenizer, and without one its windows cannot be counted")
    copy = Tokenizer.from_str(own.to_str())
    read_as_text(copy)
    copy.no_truncation()
    copy.no_padding()
    return copy


def usable_device(wanted: str) -> str:
    """The device of `RAG_DEVICE`; of `auto` the best that this machine has.

    Raises:
        UsageError: this machine has no such device.
    """
    import torch

    kind = wanted.partition(":")[0]
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if kind == "auto":
        return next((name for name in ("cuda", "mps") if there[name]), "cpu")
    if not there.get(kind):
        choice = ", ".join(["auto", *(name for name, is_there in there.items() if is_there)])
        raise UsageError(f"RAG_DEVICE={wanted}: no such device on this machine, which has {choice}")
    return wanted


def build(profile: EmbeddingProfile) -> Embedder:
    """The embedder of a profile whose provider is `sentence-transformers`.

    Raises:
        InvalidProfile: more dimensions than the model has, or a prefix that fills its window.
        ProviderRefused: the model is not here, and cannot be fetched.
        EmbeddingError: the extra `local` is not installed, or the model's files are damaged.
        UsageError: `RAG_DEVICE` names a device that this machine lacks.
    """
    return LocalEmbedder(profile)
