"""A cache holds no more than it may, and is refused where nobody could tell that it is old."""

from __future__ import annotations

import random
from typing import Any

import pytest

from rag_assets.errors import InvalidArgument
from rag_assets.retrieval import CachedRetriever, LexicalRetriever, Retrieval
from rag_assets.retrieval.caches import _Cache
from rag_assets.retrieval.protocol import Retriever
from rag_assets.store.database import Database


def test_a_cache_holds_no_more_than_it_may() -> None:
    rng = random.Random(3)
    cache: _Cache[int] = _Cache(20, 9_000)
    for number in range(5_000):
        tenant, version = f"t{rng.randrange(4)}", str(rng.randrange(2) if number % 50 == 0 else 0)
        key = bytes([rng.randrange(60)])
        if cache.get(tenant, version, key + tenant.encode()) is None:
            cache.put(tenant, version, key + tenant.encode(), number, rng.choice([10, 500, 2_000, 20_000]))
        stats = cache.stats()
        assert stats.entries <= 20
        assert stats.bytes <= 9_000
        assert (stats.bytes == 0) == (stats.entries == 0)
    assert stats.hits > 0
    assert stats.evicted > 0
    assert stats.outdated > 0
    assert sum(len(keys) for _, keys in cache._of_tenant.values()) == stats.entries


@pytest.mark.parametrize(
    ("name", "value"), [("results", 0), ("vectors", True), ("results_mb", 0), ("vectors_mb", 10**9), ("retriever", 3)]
)
def test_a_wrong_bound_is_refused_by_name(database: Database, name: str, value: object) -> None:
    settings: dict[str, Any] = {"retriever": LexicalRetriever(database), name: value}
    with pytest.raises(InvalidArgument) as refused:
        CachedRetriever(**settings)
    assert refused.value.argument == name


class Nobody:
    def search(self, *_: Any) -> Retrieval:
        return Retrieval((), {})

    async def asearch(self, *_: Any) -> Retrieval:
        return Retrieval((), {})


def test_answers_that_nobody_could_tell_to_be_old_are_not_cached() -> None:
    inner: Retriever = Nobody()
    with pytest.raises(InvalidArgument, match="no database"):
        CachedRetriever(inner)
