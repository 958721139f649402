"""From a profile to its embedder. A provider's module, and with it its libraries, loads on first use."""

from __future__ import annotations

from importlib import import_module
from threading import Lock

from rag_assets.embedding.profiles import EmbeddingProfile
from rag_assets.embedding.protocol import Embedder
from rag_assets.errors import InvalidProfile

_MODULES = {
    "wordllama": "rag_assets.embedding.wordllama",
    "hash": "rag_assets.embedding.hashing",
}
_loaded: dict[str, Embedder] = {}
_loading = Lock()


def embedder_for(profile: EmbeddingProfile) -> Embedder:
    """The embedder of a profile's documents and queries; one per `model_key` and process.

    Raises:
        InvalidProfile: no module implements the profile's provider.
        EmbeddingError: the provider's files or packages are missing.
    """
    with _loading:  # two threads that ask at once load the weights once
        embedder = _loaded.get(profile.model_key)
        if embedder is None:
            embedder = _loaded[profile.model_key] = _build(profile)
        return embedder


def _build(profile: EmbeddingProfile) -> Embedder:
    module = _MODULES.get(profile.provider)
    if module is None:
        raise InvalidProfile(f"no embedder for provider {profile.provider!r}: known are {', '.join(_MODULES)}")
    embedder: Embedder = import_module(module).build(profile)
    return embedder
