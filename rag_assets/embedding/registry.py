"""From a profile to its embedder. A provider's module, and with it its libraries, loads on first use."""

from __future__ import annotations

from importlib import import_module
from threading import Lock

from rag_assets.embedding.profiles import EmbeddingProfile
from rag_assets.embedding.protocol import BatchEmbedder, Embedder
from rag_assets.errors import EmbeddingError, InvalidProfile

_MODULES = {
    "wordllama": "rag_assets.embedding.providers.wordllama",
    "hash": "rag_assets.embedding.providers.hashing",
    "sentence-transformers": "rag_assets.embedding.providers.local",
    "onnx": "rag_assets.embedding.providers.onnx",
    "openai-compatible": "rag_assets.embedding.providers.openai",
    "google": "rag_assets.embedding.providers.google",
}
# Of the providers whose models have a batch price.
_BATCH_MODULES = {"google": "rag_assets.embedding.providers.google_batch"}
_loaded: dict[str, Embedder] = {}
_loading = Lock()


def embedder_for(profile: EmbeddingProfile) -> Embedder:
    """The embedder of a profile's documents and queries; one in a process for all profiles that ask alike.

    Raises:
        InvalidProfile: no module implements the profile's provider.
        EmbeddingError: the provider's files or packages are missing.
    """
    embedder = loaded_embedder(profile)
    if embedder is not None:
        return embedder
    with _loading:  # two threads that ask at once load the weights once
        asks = _asks(profile)
        embedder = _loaded.get(asks)
        if embedder is None:
            embedder = _loaded[asks] = _build(profile)
        return embedder


def loaded_embedder(profile: EmbeddingProfile) -> Embedder | None:
    """The embedder of a profile if this process has loaded it; at once, and without waiting for anybody."""
    return _loaded.get(_asks(profile))


def _asks(profile: EmbeddingProfile) -> str:
    # Two profiles that make the same vectors may still pay with different keys.
    return f"{profile.model_key} {profile.options.model_dump_json(exclude_defaults=True)}"


def _build(profile: EmbeddingProfile) -> Embedder:
    module = _MODULES.get(profile.provider)
    if module is None:
        raise InvalidProfile(f"no embedder for provider {profile.provider!r}: known are {', '.join(_MODULES)}")
    require_packages(profile)
    embedder: Embedder = import_module(module).build(profile)
    return embedder


def require_packages(profile: EmbeddingProfile) -> None:
    """Refuse a profile whose model cannot be loaded here.

    Raises:
        EmbeddingError: names the packages that are missing.
    """
    if missing := profile.model_info.missing_packages():
        raise EmbeddingError(
            f"profile {profile.name!r}: {profile.provider}/{profile.model} needs what is not installed here: "
            f"pip install {' '.join(missing)}"
        )


def batch_embedder_for(profile: EmbeddingProfile) -> BatchEmbedder:
    """The batch jobs of a profile whose model `has_batch_api`; to be closed by who asked for it.

    Raises:
        EmbeddingError: the model has no batch API, or the provider's packages are missing.
    """
    module = _BATCH_MODULES.get(profile.provider)
    if module is None or not profile.model_info.has_batch_api:
        raise EmbeddingError(f"{profile.provider}/{profile.model} has no batch API")
    batches: BatchEmbedder = import_module(module).build_batches(profile)
    return batches
