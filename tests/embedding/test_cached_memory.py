"""What a part was embedded with is gone when it is done, without a collector."""

from __future__ import annotations

import gc

from rag_assets.embedding.cached import embed_documents_cached
from rag_assets.embedding.profiles import make_profile
from rag_assets.embedding.registry import embedder_for
from tests.support.memory_cache import MemoryCache


def test_nothing_refers_to_itself() -> None:
    embedder = embedder_for(make_profile(name="hash", provider="hash", model="hash", dimensions=64))
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        embed_documents_cached(embedder, ["pump", "valve", "\0"], MemoryCache())
        gc.collect()
        left = [one for one in gc.garbage if type(one).__module__.startswith("rag_assets")]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert left == []
