"""Writes one source over and over into a store in a file, each time as another version, until it is killed."""

from __future__ import annotations

import itertools
import sys
from uuid import UUID

import numpy as np

from rag_assets.retrieval import RetrievalScope
from rag_assets.vector_stores.protocol import StoredChunk, StoredSource
from rag_assets.vector_stores.sqlite import SqliteStore
from tests.support.store_world import PROFILE

CHUNKS = 400
SCOPE = RetrievalScope("acme", "support", UUID(int=5), 1, PROFILE)


def versions(number: int) -> list[StoredSource]:
    """Two sources of one version, in which every chunk says so."""
    vectors = np.random.default_rng(number).standard_normal((CHUNKS, PROFILE.dimensions)).astype(np.float32)
    return [
        StoredSource(
            UUID(int=source),
            f"s{source}",
            [
                StoredChunk(UUID(int=(number * 2 + source) * CHUNKS + place), f"version {number}", 2, vector)
                for place, vector in enumerate(vectors)
            ],
        )
        for source in range(2)
    ]


def main(path: str) -> None:
    store = SqliteStore(path)
    for number in itertools.count():
        store.upsert(SCOPE, versions(number))
        print(number, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
