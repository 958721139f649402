"""Transformer models on processors without torch: ONNX Runtime and the `tokenizers` library. Needs the extra `onnx`.

A model is a folder, a file of one, the packaged all-MiniLM-L6-v2, or one of the hub: `onnx_files.py` tells. The same
text gets the same vector whatever it is batched with.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import chain

from rag_assets.embedding.check import check_texts
from rag_assets.embedding.profiles import EmbeddingProfile
from rag_assets.embedding.protocol import NOBODY, Caller, Embedded, Embedder, Usage
from rag_assets.embedding.providers.onnx_files import find_files
from rag_assets.embedding.providers.onnx_session import OnnxModel, Tokens
from rag_assets.embedding.providers.onnx_texts import ModelTexts
from rag_assets.embedding.providers.windows import check_room, mean_of_windows
from rag_assets.errors import InvalidProfile
from rag_assets.processors import given_processors
from rag_assets.settings import load_settings


class OnnxEmbedder:
    """Vectors of a transformer in ONNX, of its own size or cut to the profile's.

    A text longer than the model's window is embedded in windows of the model's own tokens, each with its prefix, and
    gets their mean, weighted by length: nothing of it is left out. Threads may share it.
    """

    def __init__(self, profile: EmbeddingProfile) -> None:
        self.model_key = profile.model_key
        self.dimensions = profile.dimensions
        self.batch_items = profile.model_info.batch_items
        self._texts = ModelTexts(profile, find_files(profile.model))
        check_room(profile, self._texts.windows, self._texts.prefixes)
        self._model = _load(profile.model, None if profile.origin is None else profile.origin.place)
        if profile.dimensions > self._model.dimensions:
            raise InvalidProfile(
                f"profile {profile.name!r}: {profile.model} makes vectors of {self._model.dimensions} dimensions, "
                f"not {profile.dimensions}"
            )

    def embed_documents(self, texts: Sequence[str], caller: Caller = NOBODY) -> Embedded:
        """See `Embedder.embed_documents`; tokens are those that the model read, prefixes included."""
        return self._embed(texts, self._texts.prefixes.document, caller)

    def embed_query(self, text: str, caller: Caller = NOBODY) -> Embedded:
        """See `Embedder.embed_query`."""
        return self._embed([text], self._texts.prefixes.query, caller)

    def _embed(self, texts: Sequence[str], prefix: str, caller: Caller) -> Embedded:
        check_texts(texts)
        windows = [self._texts.windows.cut(text, prefix) for text in texts]
        parts = [prefix + part.text for part in chain.from_iterable(windows)]
        tokens = [Tokens.of(encoding) for encoding in self._texts.tokenizer.encode_batch_fast(parts)]
        own = self._model.vectors(tokens, usable_threads())[:, : self.dimensions]
        vectors = mean_of_windows(own, windows, self.dimensions)
        read = sum(len(one.ids) for one in tokens)
        return Embedded(vectors, Usage(caller.tenant, caller.bot, len(texts), read))


@cache
def _load(model: str, place: str | None) -> OnnxModel:
    """One copy of the weights in a process, however many profiles use them; `place` is what its files are known by."""
    return OnnxModel(find_files(model), model)


def usable_threads() -> int:
    """How many processors models may use in this process: `RAG_ONNX_THREADS`, else those that it was given."""
    return load_settings().onnx_threads or given_processors()


def build(profile: EmbeddingProfile) -> Embedder:
    """The embedder of a profile whose provider is `onnx`.

    Raises:
        InvalidProfile: a folder that is not there, lacks a file or holds one that cannot be used, a graph of other
            inputs or outputs, more dimensions than it has, or a prefix that fills its window.
        ProviderRefused: the model is not here, and cannot be fetched.
        EmbeddingError: a package is missing, or the `.onnx` file is damaged.
    """
    return OnnxEmbedder(profile)
