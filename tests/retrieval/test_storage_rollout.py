"""Profiles that differ in how their index keeps vectors alone: each serves, is copied and is promoted as any other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import get_args

import pytest

from rag_assets.chunking import ChunkingSpec
from rag_assets.embedding.profiles import IndexSpec, Storage, make_profile
from rag_assets.ingest.run import IngestReport, ingest
from rag_assets.retrieval import DenseRetriever, HybridRetriever, open_scope
from rag_assets.store.database import Database
from rag_assets.store.promotion import promote, roll_back
from rag_assets.vector_stores import MemoryStore, PostgresStore, load
from rag_assets.vector_stores.retriever import StoreRetriever
from tests.support.worlds import rooted

STORAGES: tuple[Storage, ...] = get_args(Storage)
FILES = {
    f"note{n}.md": "\n\n".join(f"The valve of pump {n} was changed in week {w}, by crew {n * w % 7}." for w in range(9))
    for n in range(6)
}
QUESTIONS = ("who changed the valve of pump 3 in week 5", "pump 2", "crew 4 week 8")


def profile_of(storage: Storage) -> str:
    return f"of-{storage}"


@pytest.fixture(scope="module")
def world(
    new_database: Callable[[], Database], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Database, dict[Storage, IngestReport]]]:
    """One bot with a profile of each storage; the first serves."""
    database = new_database()
    rooted(database, tmp_path_factory.mktemp("docs"), "acme", FILES)
    reports = {}
    for storage in STORAGES:
        profile = make_profile(
            name=profile_of(storage), provider="hash", model="hash", dimensions=128,
            chunking=ChunkingSpec(size=200, overlap=20), index=IndexSpec(kind="hnsw", storage=storage),
        )  # fmt: skip
        reports[storage] = ingest(database, "acme", "support", profile)
    yield database, reports
    database.close()


def answers(database: Database, storage: Storage | None = None) -> list[list[tuple[str, float]]]:
    scope = open_scope(database, "acme", "support", storage and profile_of(storage))
    retriever = DenseRetriever(database)
    return [[(one.content, round(one.score, 5)) for one in retriever.search(asked, scope, 5)] for asked in QUESTIONS]


def test_an_ingest_says_what_its_index_finds_and_embeds_once_for_all(
    world: tuple[Database, dict[Storage, IngestReport]],
) -> None:
    for storage, report in world[1].items():
        assert report.recall is not None
        assert (report.hnsw.storage, report.recall.storage, report.recall.recall) == (storage, storage, 1.0)
        assert (report.embeddings.embedded > 0) is (storage == STORAGES[0])


def test_each_storage_gives_the_same_answers(world: tuple[Database, dict[Storage, IngestReport]]) -> None:
    database, _ = world
    first, *others = (answers(database, storage) for storage in STORAGES)
    assert all(len(found) == 5 for found in first)
    assert all(found == first for found in others)


@pytest.mark.parametrize("storage", STORAGES)
def test_each_storage_is_copied_into_other_stores(
    world: tuple[Database, dict[Storage, IngestReport]], storage: Storage
) -> None:
    database, _ = world
    scope = open_scope(database, "acme", "support", profile_of(storage))
    memory, postgres = MemoryStore(), PostgresStore(database)
    assert load(database, scope, memory).chunks > 6
    found = [
        [(one.chunk_id, round(one.score, 5)) for one in StoreRetriever(store).search(QUESTIONS[0], scope, 5)]
        for store in (memory, postgres)
    ]
    assert found[0] == found[1]


def test_a_promotion_changes_the_storage_and_a_rollback_changes_it_back(
    world: tuple[Database, dict[Storage, IngestReport]],
) -> None:
    database, _ = world
    before = answers(database)
    for storage in ("bit", "halfvec"):
        promote(database, "acme", "support", profile_of(storage), force=True, reason="smaller")
        scope = open_scope(database, "acme", "support")
        assert scope.profile.index.storage == storage
        assert answers(database) == before
        assert HybridRetriever(database).search(QUESTIONS[1], scope, 3)
    roll_back(database, "acme", "support")
    assert open_scope(database, "acme", "support").profile.index.storage == "bit"
    assert answers(database) == before
