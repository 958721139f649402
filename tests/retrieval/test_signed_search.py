"""Everything that searches does so where scopes have to be signed, with a key or with a signature."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import rag_assets as rag
from rag_assets.errors import InvalidArgument, ScopeError, ScopeRefused
from rag_assets.retrieval.scope import with_profile
from rag_assets.retrieval.steps import drive
from rag_assets.signing import new_key, signed
from rag_assets.store.database import Database
from rag_assets.store.scope_keys import retire_scope_key, take_unsigned_scopes
from tests.support.signed_world import BOT, KEY, TENANTS, build, key_of


@pytest.fixture(scope="module")
def world(new_database: Callable[[], Database], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    database = build(new_database, tmp_path_factory.mktemp("files"))
    yield database
    database.close()


@pytest.fixture
def keyless(world: Database) -> Iterator[Database]:
    """A process without the key."""
    database = Database(world.url)
    yield database
    database.close()


def retrievers(database: Database) -> list[Any]:
    return [
        rag.DenseRetriever(database),
        rag.LexicalRetriever(database),
        rag.HybridRetriever(database),
        rag.ExpandedRetriever(rag.HybridRetriever(database), neighbours=1),
        rag.CachedRetriever(rag.LexicalRetriever(database)),
        rag.LadderRetriever(rag.HybridRetriever(database)),
        rag.GraphRetriever(rag.HybridRetriever(database)),
    ]


def test_with_the_key_every_retriever_finds_what_it_found_unsigned_in_both_faces(world: Database) -> None:
    scope = rag.open_scope(world, "alpha", BOT, user_id="ann")
    plain = []
    for retriever in retrievers(world):
        found = retriever.search("valve code", scope, top_k=20)
        assert not any(TENANTS["beta"] in hit.content for hit in found)
        plain.append([hit.chunk_id for hit in found])

    async def search() -> list[Any]:
        opened = await rag.aopen_scope(world, "alpha", BOT, user_id="ann")
        found = [await one.asearch("valve code", opened, top_k=20) for one in retrievers(world)]
        await world.aclose()
        return [[hit.chunk_id for hit in one] for one in found]

    assert asyncio.run(search()) == plain
    assert [len(ids) for ids in plain[:6]] == [10] * 6


def test_without_a_key_a_search_says_what_is_missing_and_not_that_there_is_no_bot(
    world: Database, keyless: Database
) -> None:
    with pytest.raises(ScopeRefused, match="RAG_SCOPE_KEY"):
        rag.open_scope(keyless, "alpha", BOT)
    with pytest.raises(ScopeRefused, match="RAG_SCOPE_KEY"):
        asyncio.run(rag.aopen_scope(keyless, "alpha", BOT))
    scope = rag.open_scope(world, "alpha", BOT)
    for retriever in retrievers(keyless):
        with pytest.raises(ScopeRefused, match="is not signed"):
            retriever.search("valve code", scope)


def test_a_wrong_or_retired_key_is_said_with_the_way_out(world: Database) -> None:
    retired = key_of(world)
    retire_scope_key(world, retired.id)
    for key, words in (
        (new_key(), "not know: RAG_SCOPE_KEY has to be a key that rag scope-key list shows"),
        (retired, "was retired: RAG_SCOPE_KEY has to be"),
        (dataclasses.replace(KEY, secret=bytes(32)), "RAG_SCOPE_KEY is not the key of this id"),
    ):
        database = Database(world.url, scope_key=key)
        with pytest.raises(ScopeRefused, match=words):
            rag.open_scope(database, "alpha", BOT)
        database.close()


def test_a_process_without_the_key_searches_with_a_signature_for_that_scope_alone(keyless: Database) -> None:
    made = rag.sign_scope("alpha", BOT, "ann", key=KEY)
    scope = rag.open_scope(keyless, "alpha", BOT, user_id="ann", signature=made)
    assert made.signature not in repr(scope)
    for retriever in retrievers(keyless)[:6]:
        assert len(retriever.search("valve code", scope, top_k=20)) == 10
    assert drive(keyless, with_profile(scope, "hash-64")).signature == made
    for change in ({"user_id": None}, {"user_id": "bob"}, {"bot_id": "sales"}, {"tenant_id": "beta"}):
        with pytest.raises(ScopeRefused, match="another tenant, bot or user"):
            rag.HybridRetriever(keyless).search("valve code", dataclasses.replace(scope, **change))
    with pytest.raises(ScopeRefused, match=r"expired.*clocks"):
        rag.open_scope(keyless, "alpha", BOT, signature=signed(KEY, "alpha", BOT, "", -1))


def test_an_answer_that_is_kept_is_given_to_the_next_signature_and_to_no_unsigned_scope(keyless: Database) -> None:
    cached = rag.CachedRetriever(rag.LexicalRetriever(keyless))
    scopes = [
        rag.open_scope(keyless, "alpha", BOT, signature=rag.sign_scope("alpha", BOT, key=KEY, seconds=seconds))
        for seconds in (60, 90)
    ]
    assert scopes[0] == scopes[1]
    assert [hit.chunk_id for hit in cached.search("valve", scopes[0])] == [
        hit.chunk_id for hit in cached.search("valve", scopes[1])
    ]
    assert cached.stats["results"].hits == 1
    with pytest.raises(ScopeRefused):
        cached.search("valve", dataclasses.replace(scopes[0], signature=None))


def test_many_threads_search_two_tenants_over_one_connection_and_never_with_each_others_signature(
    world: Database,
) -> None:
    database = Database(world.url, search_connections=1, scope_key=KEY)
    wrong: list[Any] = []

    def search(tenant: str) -> None:
        for _ in range(15):
            found = rag.LexicalRetriever(database).search("valve", rag.open_scope(database, tenant, BOT), top_k=20)
            wrong.extend(hit for hit in found if TENANTS[tenant] not in hit.content)
            wrong.extend([] if len(found) == 9 else [len(found)])

    threads = [threading.Thread(target=search, args=[tenant]) for tenant in TENANTS for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    database.close()
    assert wrong == []


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"tenant": "A"}, "tenant"),
        ({"bot": ""}, "bot"),
        ({"user_id": ""}, "user_id"),
        ({"user_id": 7}, "user_id"),
        ({"key": "short"}, "scope_key"),
        ({"key": "no id!:" + "ab" * 32}, "scope_key"),
        ({"seconds": 0}, "seconds"),
        ({"seconds": True}, "seconds"),
        ({"seconds": 10**6}, "seconds"),
    ],
)
def test_what_cannot_be_signed_is_named(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        rag.sign_scope(**{"tenant": "alpha", "bot": BOT, "key": KEY, **arguments})
    assert refused.value.argument == named


def test_a_signature_of_another_kind_is_refused_before_anything_is_asked(keyless: Database) -> None:
    with pytest.raises(InvalidArgument, match="what sign_scope returns"):
        rag.open_scope(keyless, "alpha", BOT, signature="ab" * 32)  # type: ignore[arg-type]


def test_a_scope_made_by_hand_takes_no_other_signature(world: Database) -> None:
    with pytest.raises(ScopeError, match="what sign_scope returns"):
        dataclasses.replace(rag.open_scope(world, "alpha", BOT), signature="x")  # type: ignore[arg-type]


def test_a_key_does_no_harm_where_scopes_need_no_signature(new_database: Callable[[], Database], tmp_path: Any) -> None:
    database = build(new_database, tmp_path)
    take_unsigned_scopes(database)
    for key in (None, KEY, new_key()):
        other = Database(database.url, scope_key=key)
        assert len(rag.LexicalRetriever(other).search("valve", rag.open_scope(other, "alpha", BOT), top_k=20)) == 9
        other.close()
    database.close()
