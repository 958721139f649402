"""The asynchronous face: the same answers and errors as the other one, and an event loop that is never held up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rag_assets.embedding import registry
from rag_assets.embedding.profiles import make_profile
from rag_assets.embedding.protocol import NOBODY, Caller, Embedded
from rag_assets.errors import (
    DatabaseUnavailable,
    InvalidArgument,
    InvalidKey,
    ProviderUnavailable,
    RagError,
    ScopeError,
    UnknownBot,
)
from rag_assets.ingest.run import ingest
from rag_assets.retrieval import (
    DenseRetriever,
    HybridRetriever,
    LexicalRetriever,
    RetrievalScope,
    aopen_scope,
    open_scope,
)
from rag_assets.store.database import Database
from rag_assets.store.profiles import add_spec
from rag_assets.store.promotion import promote, roll_back
from tests.support.worlds import HASH_PROFILE, ingested

RETRIEVERS = (DenseRetriever, LexicalRetriever, HybridRetriever)
FILES = {f"note{n}.md": f"# Note {n}\n\nThe valve of pump {n} is checked weekly." for n in range(12)}
QUERIES = ("the valve of pump 3", "weekly", "pump", "", "nothing like it", "\x00")
OTHER = make_profile(name="hash-32", provider="hash", model="hash", dimensions=32)


@pytest.fixture(scope="module")
def world(new_database: Callable[[], Database], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Two tenants; acme's bot has a second complete profile."""
    database = new_database()
    add_spec(database, OTHER)
    for tenant in ("acme", "globex"):
        ingested(database, tmp_path_factory.mktemp(tenant), tenant, FILES)
    ingest(database, "acme", "support", OTHER.name)
    yield database
    database.close()


def in_loop(database: Database, work: Callable[[], Any]) -> Any:
    """Run a coroutine function in an event loop of its own, and close what it opened."""

    async def main() -> Any:
        try:
            return await work()
        finally:
            await database.aclose()

    return asyncio.run(main())


@pytest.mark.parametrize("kind", RETRIEVERS)
def test_both_faces_of_one_retriever_give_the_same_answers(world: Database, kind: Any) -> None:
    retriever = kind(world)

    async def answers() -> list[Any]:
        scope = await aopen_scope(world, "acme", "support", request_key="chat")
        assert scope == open_scope(world, "acme", "support", request_key="chat")
        return [await retriever.asearch(query, scope, top_k=5) for query in QUERIES]

    scope = open_scope(world, "acme", "support")
    expected = [retriever.search(query, scope, top_k=5) for query in QUERIES]
    found = in_loop(world, answers)
    assert [list(one) for one in found] == [list(one) for one in expected]
    assert [one.degraded for one in found] == [one.degraded for one in expected]
    assert all(set(one.timings_ms) == {"embed", "search", "total"} for one in found)


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (ScopeError, lambda d: HybridRetriever(d).asearch("valve", None)),  # type: ignore[arg-type]
        (InvalidArgument, lambda d: HybridRetriever(d).asearch("valve", open_scope(d, "acme", "support"), top_k=0)),
        (InvalidArgument, lambda d: HybridRetriever(d).asearch("v", open_scope(d, "acme", "support"), 8, {"x": 1})),
        (InvalidKey, lambda d: aopen_scope(d, "Acme", "support")),
        (UnknownBot, lambda d: aopen_scope(d, "acme", "sales")),
        (DatabaseUnavailable, lambda d: aopen_scope(Database("postgresql://127.0.0.1:1/x"), "acme", "support")),
    ],
)
def test_errors_are_the_same_in_both_faces(world: Database, error: type[RagError], call: Any) -> None:
    with pytest.raises(error):
        in_loop(world, lambda: call(world))


@pytest.mark.slow
def test_a_thousand_searches_at_once_share_few_connections_and_all_are_answered(world: Database) -> None:
    retriever = LexicalRetriever(world)
    watcher = psycopg.connect(world.url, autocommit=True)
    seen: list[int] = []

    async def watch() -> None:
        while True:
            row = await asyncio.to_thread(
                lambda: watcher.execute(
                    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'rag-assets app' "
                    "AND datname = current_database()"
                ).fetchone()
            )
            assert row is not None
            seen.append(row[0])
            await asyncio.sleep(0.02)

    async def storm() -> list[Any]:
        watching = asyncio.create_task(watch())
        scopes = [await aopen_scope(world, tenant, "support") for tenant in ("acme", "globex")]
        found = await asyncio.gather(*(retriever.asearch(f"pump {n % 12}", scopes[n % 2], 3) for n in range(1000)))
        watching.cancel()
        return found

    world.close()  # what threads had is not counted
    found = in_loop(world, storm)
    watcher.close()
    assert [len(one) for one in found] == [3] * 1000
    assert 1 <= max(seen) <= world.search_connections + 1, "one more for the check of the role"


class _Waiting:
    """An embedder that waits for an answer, as one over a network does: here for `together` texts to be asked for."""

    def __init__(self, together: int = 1, error: Exception | None = None) -> None:
        self._inner = registry.embedder_for(HASH_PROFILE)
        self._meeting, self._error = threading.Barrier(together, timeout=60), error

    def embed_query(self, text: str, caller: Caller = NOBODY) -> Embedded:
        self._meeting.wait()
        if self._error:
            raise self._error
        return self._inner.embed_query(text, caller)


def _in_place(monkeypatch: pytest.MonkeyPatch, embedder: _Waiting) -> None:
    registry.embedder_for(HASH_PROFILE)
    monkeypatch.setitem(registry._loaded, registry._asks(HASH_PROFILE), embedder)  # type: ignore[arg-type]


def test_a_provider_that_is_waited_for_holds_up_neither_the_loop_nor_the_other_searches(
    world: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    _in_place(monkeypatch, _Waiting(together=41))  # one more than are asked for: the loop itself asks for the last

    async def storm() -> None:
        scope = await aopen_scope(world, "acme", "support", HASH_PROFILE.name)
        retriever = HybridRetriever(world)
        searches = [asyncio.create_task(retriever.asearch(f"pump {n}", scope)) for n in range(40)]
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(await LexicalRetriever(world).asearch("pump", scope)) == 8, "words need no provider"
        searches.append(asyncio.create_task(retriever.asearch("pump 40", scope)))
        found = await asyncio.gather(*searches)
        assert all(len(one) == 8 and not one.degraded for one in found)

    in_loop(world, storm)


def test_a_provider_that_fails_degrades_hybrid_search_and_fails_dense_search(
    world: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    _in_place(monkeypatch, _Waiting(error=ProviderUnavailable("no answer")))
    scope = open_scope(world, "acme", "support", HASH_PROFILE.name)
    found = in_loop(world, lambda: HybridRetriever(world).asearch("pump", scope))
    assert found
    assert "no answer" in found.degraded
    with pytest.raises(ProviderUnavailable):
        in_loop(world, lambda: DenseRetriever(world).asearch("pump", scope))


def test_a_search_that_is_cancelled_gives_its_connection_back(world: Database) -> None:
    retriever = LexicalRetriever(world)

    async def storm() -> int:
        scope = await aopen_scope(world, "acme", "support")
        await retriever.asearch("pump", scope)
        for _ in range(5):
            tasks = [asyncio.create_task(retriever.asearch("valve of the pump", scope)) for _ in range(30)]
            await asyncio.sleep(0.005)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        found = await asyncio.gather(*(retriever.asearch("pump", scope) for _ in range(50)))
        return sum(len(one) for one in found)

    assert in_loop(world, storm) == 50 * 8


def test_connections_that_the_server_breaks_off_are_replaced(world: Database) -> None:
    retriever = LexicalRetriever(world)

    async def work() -> list[int]:
        scope = await aopen_scope(world, "acme", "support")
        counts = [len(await retriever.asearch("pump", scope))]
        for _ in range(3):
            with psycopg.connect(world.url, autocommit=True) as admin:
                admin.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'rag-assets app'"
                )
            counts.append(len(await retriever.asearch("pump", scope)))
        return counts

    assert in_loop(world, work) == [8] * 4


def test_each_event_loop_has_its_own_connections_and_a_closed_one_leaves_none(world: Database) -> None:
    retriever = LexicalRetriever(world)

    async def work() -> int:
        return len(await retriever.asearch("pump", await aopen_scope(world, "acme", "support")))

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(lambda _: in_loop(world, work), range(6))) == [8] * 6
    world.close()
    assert world._app._loops == {}


def test_tasks_that_wait_while_it_is_closed_leave_no_connection_behind(world: Database) -> None:
    narrow = Database(world.url, search_connections=2)
    retriever = LexicalRetriever(narrow)

    async def storm() -> int:
        scope = await aopen_scope(narrow, "acme", "support")
        tasks = [asyncio.create_task(retriever.asearch("pump", scope)) for _ in range(40)]
        await asyncio.sleep(0.01)
        await narrow.aclose()
        found = await asyncio.gather(*tasks)
        await narrow.aclose()
        with psycopg.connect(world.url) as connection:
            row = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'rag-assets app' "
                "AND datname = current_database()"
            ).fetchone()
        assert row is not None
        assert row[0] == 0
        return sum(len(one) for one in found)

    world.close()
    assert asyncio.run(storm()) == 40 * 8


def test_of_tasks_in_two_tenants_scopes_none_sees_the_others_words(world: Database, tmp_path: Path) -> None:
    own = {"acme": "AAA-111", "globex": "BBB-222"}
    for tenant, code in own.items():
        ingested(world, tmp_path / tenant, tenant, {"code.md": f"The recovery code is {code}."})
    retriever = HybridRetriever(world)

    async def ask(tenant: str) -> str:
        scope = await aopen_scope(world, tenant, "support", HASH_PROFILE.name)
        return " ".join(one.content for one in await retriever.asearch("recovery code AAA-111 BBB-222", scope, 50))

    async def both() -> list[str]:
        return await asyncio.gather(*(ask(tenant) for _ in range(50) for tenant in own))

    for number, text in enumerate(in_loop(world, both)):
        mine, other = list(own.values())[:: 1 if number % 2 == 0 else -1]
        assert mine in text
        assert other not in text


def test_tasks_during_promotions_and_rollbacks_get_one_whole_profile_each(world: Database) -> None:
    retriever = HybridRetriever(world)
    served: dict[int, set[Any]] = {}
    with psycopg.connect(world.url) as connection:
        for profile, chunk in connection.execute("SELECT embedding_profile_id, id FROM rag.knowledge_chunks"):
            served.setdefault(profile, set()).add(chunk)

    async def read(stop: asyncio.Event) -> set[int]:
        met = set()
        while not stop.is_set():
            scope: RetrievalScope = await aopen_scope(world, "acme", "support")
            found = await retriever.asearch("valve of the pump", scope, top_k=200)
            assert {one.chunk_id for one in found} == served[scope.profile_id]
            met.add(scope.profile_id)
        return met

    async def storm() -> set[int]:
        stop = asyncio.Event()
        readers = [asyncio.create_task(read(stop)) for _ in range(3)]
        for _ in range(10):
            await asyncio.to_thread(promote, world, "acme", "support", OTHER.name, force=True, reason="a test")
            await asyncio.to_thread(roll_back, world, "acme", "support")
        stop.set()
        return set().union(*await asyncio.gather(*readers))

    assert len(in_loop(world, storm)) == 2, "readers should have met both profiles"
