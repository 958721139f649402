from __future__ import annotations

import pytest

from rag_assets.embedding.models import MODELS, ModelInfo
from rag_assets.embedding.profiles import make_profile
from rag_assets.embedding.registry import batch_embedder_for
from rag_assets.errors import EmbeddingError

EMBEDDING = [info for info in MODELS if info.kind == "embedding" and "*" not in info.model]


@pytest.mark.parametrize("info", EMBEDDING, ids=lambda info: f"{info.provider}/{info.model}")
def test_a_model_has_a_batch_price_if_and_only_if_it_can_be_embedded_by_batch(info: ModelInfo) -> None:
    profile = make_profile(name="a", provider=info.provider, model=info.model, dimensions=max(info.dimensions))
    if info.has_batch_api:
        batches = batch_embedder_for(profile)
        assert batches.sendable("some text")
        batches.close()
    else:
        with pytest.raises(EmbeddingError, match="no batch API"):
            batch_embedder_for(profile)
