"""What the check of an index says."""

from __future__ import annotations

import pytest

from rag_assets.assets.indexes import recall_check
from rag_assets.store.overview import BotIndexes


def indexed(recall: float | None, storage: str) -> BotIndexes:
    return BotIndexes("support", 9000, 100, 50.0, 1, 1, "hnsw", 800, storage, 80, recall, None, "default")


@pytest.mark.parametrize(
    ("storage", "way_out"),
    [("bit", "--index-storage halfvec"), ("halfvec", "--index exact"), ("vector", "--index exact")],
)
def test_an_index_that_finds_too_little_however_far_it_looks_fails_with_the_way_out(storage: str, way_out: str) -> None:
    check = recall_check([indexed(0.999, storage), indexed(0.931, storage)], queries=60)
    assert not check.passed
    assert check.description is not None
    assert "93.1%" in check.description
    assert way_out in check.description
    told = {name: value.value for name, value in check.metadata.items()}
    assert (told["storage"], told["oversampling"], told["ef_search"], told["recall"]) == (storage, 80, 800, 0.931)


def test_one_that_finds_enough_passes() -> None:
    check = recall_check([indexed(0.99, "bit"), indexed(None, "bit")], queries=30)
    assert (check.passed, check.description) == (True, None)
