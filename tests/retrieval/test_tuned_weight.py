"""A weight that was stored for a bot's profile is what its searches use, until it is reset."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag_assets.errors import InvalidArgument
from rag_assets.retrieval import DenseRetriever, HybridRetriever, LexicalRetriever, RetrievalScope, open_scope
from rag_assets.store.database import Database
from rag_assets.store.profiles import built_profile
from rag_assets.store.weights import reset_tuned_weight, set_tuned_weight, tuned_weight
from tests.support.worlds import ingested

QUESTION = "warranty years purchase receipt"
FILES = {
    f"{n}.md": f"The warranty {'years ' * n}needs {'a purchase ' * (5 - n)}of number {n} receipt." for n in range(6)
}


def order(database: Database, scope: RetrievalScope, weight: float | None = None) -> list[tuple[str, float]]:
    found = HybridRetriever(database, dense_weight=weight).search(QUESTION, scope)
    return [(hit.source_name, hit.score) for hit in found]


def tune(database: Database, tenant: str, weight: float | None) -> None:
    with database.work(tenant, "support") as connection:
        built = built_profile(connection, tenant, "support", "hash-64")
        if weight is None:
            assert reset_tuned_weight(connection, built)
        else:
            set_tuned_weight(connection, built, weight, {"queries": 3})


def test_searches_use_the_weight_that_was_stored_from_the_next_scope_on(database: Database, tmp_path: Path) -> None:
    for tenant in ("acme", "umbra"):
        ingested(database, tmp_path / tenant, tenant, FILES)
    before = open_scope(database, "acme", "support")
    usual = order(database, before)
    assert (before.dense_weight, usual) == (None, order(database, before, 0.5))
    for weight, alone in ((1.0, DenseRetriever), (0.0, LexicalRetriever)):
        tune(database, "acme", weight)
        scope = open_scope(database, "acme", "support")
        assert scope.dense_weight == weight
        assert order(database, scope) == order(database, before, weight) != usual
        names = [hit.source_name for hit in alone(database).search(QUESTION, scope)]
        assert [name for name, _ in order(database, scope)] == names
        assert order(database, scope, 0.5) == usual, "what a caller says holds"
    assert order(database, before) == usual, "a scope is one answer"
    assert open_scope(database, "umbra", "support").dense_weight is None
    tune(database, "acme", None)
    assert order(database, open_scope(database, "acme", "support")) == usual


def test_a_weight_is_kept_with_its_evidence_and_goes_with_its_profile(database: Database, tmp_path: Path) -> None:
    from rag_assets.store.erase import erase

    ingested(database, tmp_path, "acme", FILES)
    for weight in (0.2, 0.3):
        tune(database, "acme", weight)
    with database.work("acme", "support") as connection:
        found = tuned_weight(connection, built_profile(connection, "acme", "support", "hash-64"))
    assert found is not None
    assert (found.dense_weight, found.evidence) == (0.3, {"queries": 3})
    assert found.actor
    report = erase(database, "acme")
    assert report.counts["tuned_weights"] == 1
    assert not any(report.remaining.values())


@pytest.mark.parametrize("weight", [1.5, -0.1, float("nan"), "half", True])
def test_a_scope_carries_no_weight_that_is_none(database: Database, tmp_path: Path, weight: object) -> None:
    ingested(database, tmp_path, "acme", FILES)
    scope = open_scope(database, "acme", "support")
    with pytest.raises(InvalidArgument, match="dense_weight"):
        RetrievalScope(
            "acme", "support", scope.knowledge_space_id, scope.profile_id, scope.profile,
            dense_weight=weight,  # type: ignore[arg-type]
        )  # fmt: skip
