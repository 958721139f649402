"""A search that fails comes down rung by rung, in the same scope, and says where it stopped and why."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from rag_assets.embedding import registry
from rag_assets.embedding.protocol import NOBODY, Caller, Embedded
from rag_assets.errors import (
    DatabaseFailed,
    DatabaseRefused,
    DatabaseUnavailable,
    InvalidArgument,
    ProviderUnavailable,
    RagError,
    ScopeError,
    TimeLimitReached,
)
from rag_assets.retrieval import (
    CachedRetriever,
    DenseRetriever,
    HybridRetriever,
    LadderRetriever,
    LexicalRetriever,
    Retrieval,
    RetrievalScope,
    SteppedRetriever,
    TimedRetriever,
    open_scope,
)
from rag_assets.retrieval.ladder import _tried
from rag_assets.retrieval.steps import Steps, call
from rag_assets.store.database import Database
from tests.support.worlds import HASH_PROFILE, ingested

FILES = {f"note{n}.md": f"# Note {n}\n\nThe valve of pump {n} is checked weekly." for n in range(6)}
QUERY = "the valve of pump 3"
AWAY = "postgresql://nobody@127.0.0.1:1/none"


@pytest.fixture(scope="module")
def world(module_database: Database, tmp_path_factory: pytest.TempPathFactory) -> Database:
    for tenant in ("acme", "globex"):
        ingested(module_database, tmp_path_factory.mktemp(tenant), tenant, FILES | {f"{tenant}.md": f"Of {tenant}."})
    return module_database


@pytest.fixture
def scope(world: Database) -> RetrievalScope:
    return open_scope(world, "acme", "support")


class Failing(SteppedRetriever):
    """Fails with the errors it was given, one after the other, and then asks the other one; None: it is slow."""

    def __init__(self, inner: SteppedRetriever, *errors: Exception | None) -> None:
        super().__init__(inner.database, inner.scored_by)
        self._inner, self._errors = inner, list(errors)
        self.asked: list[tuple[Any, ...]] = []

    def steps(
        self, query: str, scope: RetrievalScope, top_k: int = 8, filters: Mapping[str, Any] | None = None
    ) -> Steps[Retrieval]:
        self.asked.append((query, scope, top_k, filters))
        if self._errors:
            error = self._errors.pop(0)
            if error is not None:
                raise error
            yield from call(lambda: time.sleep(3), lambda: asyncio.sleep(3))
        return (yield from self._inner.steps(query, scope, top_k, filters))


def both(retriever: LadderRetriever, *arguments: Any) -> Retrieval:
    return retriever.search(*arguments)


def awaited(retriever: LadderRetriever, *arguments: Any) -> Retrieval:
    async def main() -> Retrieval:
        try:
            if retriever.database is not None and retriever.database.url != AWAY:
                await retriever.database.aask({}, [])  # a loop's first connection takes its time
            return await retriever.asearch(*arguments)
        finally:
            if retriever.database is not None:
                await retriever.database.aclose()

    return asyncio.run(main())


FACES = pytest.mark.parametrize("ask", [both, awaited], ids=["blocking", "awaited"])
FAULTS: tuple[RagError, ...] = (
    DatabaseFailed("a bad day"), DatabaseUnavailable("away"), ProviderUnavailable("silent"), TimeLimitReached("late"),
)  # fmt: skip


@FACES
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
@pytest.mark.parametrize("times", [0, 1, 2])
def test_each_rung_answers_what_the_one_above_could_not(
    world: Database, scope: RetrievalScope, ask: Callable[..., Retrieval], fault: RagError, times: int
) -> None:
    filters = {"source_types": ["file"]}
    inner = Failing(HybridRetriever(world), *[fault] * times)
    found = ask(LadderRetriever(inner), QUERY, scope, 3, filters)
    last = times and isinstance(fault, TimeLimitReached)  # what was late is not waited for again
    by_words = "none" if isinstance(fault, DatabaseUnavailable) else "words"
    assert found.rung == ("full" if not times else "retry" if times == 1 and not last else by_words)
    expected = {"full": HybridRetriever, "retry": HybridRetriever, "words": LexicalRetriever}
    if found.rung == "none":
        assert len(found) == 0
    else:
        plain = expected[found.rung](world).search(QUERY, scope, 3, filters)
        assert [(one.chunk_id, one.score) for one in found] == [(one.chunk_id, one.score) for one in plain]
    assert (found.degraded is None) == (not times)
    assert not times or str(fault) in str(found.degraded)
    assert found.trace[-1]["stage"] == "ladder"
    assert found.trace[-1]["rung"] == found.rung
    assert len(found.trace[-1]["failed"]) == (1 if last else times)
    assert {"embed", "search", "total"} <= set(found.timings_ms)
    assert all(asked == (QUERY, scope, 3, filters) for asked in inner.asked), "no rung asks for anything else"


class NoEmbedder:
    """A provider that is down, or slow."""

    def __init__(self, pause_s: float) -> None:
        self._pause_s, self._inner = pause_s, registry.embedder_for(HASH_PROFILE)

    def embed_query(self, text: str, caller: Caller = NOBODY) -> Embedded:
        time.sleep(self._pause_s)
        if not self._pause_s:
            raise ProviderUnavailable("no answer")
        return self._inner.embed_query(text, caller)


@FACES
@pytest.mark.parametrize("pause_s", [0.0, 3.0], ids=["down", "slow"])
@pytest.mark.parametrize("kind", [DenseRetriever, HybridRetriever])
def test_without_an_embedder_words_alone_answer(
    world: Database,
    scope: RetrievalScope,
    monkeypatch: pytest.MonkeyPatch,
    ask: Callable[..., Retrieval],
    pause_s: float,
    kind: Any,
) -> None:
    monkeypatch.setitem(registry._loaded, registry._asks(HASH_PROFILE), NoEmbedder(pause_s))  # type: ignore[arg-type]
    found = ask(LadderRetriever(kind(world), limit_s=1.8), QUERY, scope)
    assert found.rung == "words"
    assert found.degraded
    assert [one.chunk_id for one in found] == [one.chunk_id for one in LexicalRetriever(world).search(QUERY, scope)]


@FACES
def test_a_database_that_nobody_reaches_leaves_no_context_and_no_error(
    scope: RetrievalScope, ask: Callable[..., Retrieval]
) -> None:
    away = Database(AWAY)
    found = ask(LadderRetriever(HybridRetriever(away), retries=0, limit_s=0.5), QUERY, scope)
    assert (found.rung, len(found)) == ("none", 0)
    assert "no context" in str(found.degraded)


@FACES
@pytest.mark.parametrize(
    "mistake", [ScopeError("no scope"), InvalidArgument("a bound", "top_k"), DatabaseRefused("not with this login")]
)
def test_a_mistake_of_the_caller_is_never_swallowed(
    world: Database, scope: RetrievalScope, ask: Callable[..., Retrieval], mistake: RagError
) -> None:
    inner = Failing(HybridRetriever(world), mistake, mistake)
    with pytest.raises(type(mistake)):
        ask(LadderRetriever(inner), QUERY, scope)
    assert len(inner.asked) == 1
    for arguments in ((QUERY, None), (QUERY, scope, 0), (QUERY, scope, 8, {"sources": []})):
        with pytest.raises(InvalidArgument):
            ask(LadderRetriever(HybridRetriever(world)), *arguments)


def test_a_scope_of_two_profiles_is_refused_on_every_rung(world: Database, scope: RetrievalScope) -> None:
    mixed = replace(scope, profile=HASH_PROFILE.model_copy(update={"name": "hash-32", "dimensions": 32}))
    with pytest.raises(ScopeError):
        LadderRetriever(Failing(HybridRetriever(world), DatabaseFailed("a"), DatabaseFailed("b"))).search(QUERY, mixed)


def test_no_rung_finds_what_another_tenant_has(world: Database, scope: RetrievalScope) -> None:
    for errors in ((), (DatabaseFailed("a"),), (DatabaseFailed("a"), DatabaseFailed("b"))):
        found = LadderRetriever(Failing(HybridRetriever(world), *errors)).search("globex", scope, 50)
        assert all("globex" not in one.content for one in found)


@FACES
def test_the_whole_ladder_ends_in_time_and_a_timed_search_by_itself_says_so(
    world: Database, scope: RetrievalScope, ask: Callable[..., Retrieval]
) -> None:
    slow = Failing(HybridRetriever(world), None)
    found = ask(LadderRetriever(slow, limit_s=1.8), QUERY, scope)
    assert found.rung == "words"
    assert found.trace[-1]["failed"] == [{"rung": "full", "error": "TimeLimitReached"}]
    with pytest.raises(TimeLimitReached):
        ask(TimedRetriever(Failing(HybridRetriever(world), None), 0.1), QUERY, scope)  # type: ignore[arg-type]
    assert len(ask(TimedRetriever(HybridRetriever(world), 30), QUERY, scope)) == 7  # type: ignore[arg-type]


def test_a_rung_without_time_left_is_not_begun(world: Database, scope: RetrievalScope) -> None:
    from rag_assets.retrieval.ladder import _Climb
    from rag_assets.retrieval.steps import drive

    inner, climb = Failing(HybridRetriever(world)), _Climb(time.perf_counter() - 1)
    assert drive(world, _tried(climb, "words", inner.steps(QUERY, scope), climb.left())) is None
    assert inner.asked == []
    assert isinstance(climb.last_error, TimeLimitReached)


@pytest.mark.parametrize("kind", [DenseRetriever, LexicalRetriever, HybridRetriever])
def test_what_is_below_the_floor_is_no_reliable_source(world: Database, scope: RetrievalScope, kind: Any) -> None:
    best = kind(world).search(QUERY, scope)[0].score
    for floor, rung in ((best, "full"), (best - 0.01, "full"), (min(1.0, best + 1e-6), "no_reliable_source")):
        given = LadderRetriever(kind(world), floor=floor)
        carried = replace(scope, floors={kind(world).mode: floor, "other": 1.0})
        for ladder, where in ((given, scope), (LadderRetriever(kind(world)), carried)):
            found = ladder.search(QUERY, where)
            assert (found.rung, bool(len(found))) == (rung, rung == "full")
            assert found.trace[-1]["floor"] == floor
            assert found.trace[-1]["best"] == best
    assert "below the floor" in str(found.degraded)


def test_words_alone_have_a_floor_of_their_own(world: Database, scope: RetrievalScope) -> None:
    def failing() -> Failing:
        return Failing(HybridRetriever(world), DatabaseFailed("a"), DatabaseFailed("b"))

    carried = replace(scope, floors={"hybrid": 1.0, "lexical": 0.0})
    assert LadderRetriever(failing()).search(QUERY, carried).rung == "words"
    carried = replace(scope, floors={"hybrid": -1.0, "lexical": 1.0})
    assert LadderRetriever(failing()).search("weekly nonsense nowhere", carried).rung == "no_reliable_source"
    assert LadderRetriever(failing(), words_floor=0.0).search("weekly nonsense nowhere", carried).rung == "words"


def test_a_floor_is_for_the_scores_that_it_was_found_with(world: Database, scope: RetrievalScope) -> None:
    carried = replace(scope, floors={"hybrid": 1.0, "dense": 1.0})
    kept = [
        HybridRetriever(world, fusion="rrf"),
        HybridRetriever(world, dense_weight=0.5),
        LexicalRetriever(world),
    ]
    for inner in kept:
        assert LadderRetriever(inner).search(QUERY, carried).rung == "full", inner
    for inner in (HybridRetriever(world), CachedRetriever(HybridRetriever(world))):
        assert LadderRetriever(inner).search("a valve", carried).rung == "no_reliable_source", inner


def test_where_nothing_is_found_there_is_no_reliable_source(world: Database, scope: RetrievalScope) -> None:
    found = LadderRetriever(HybridRetriever(world)).search(QUERY, scope, 8, {"source_types": ["faq"]})
    assert (found.rung, len(found)) == ("no_reliable_source", 0)


@pytest.mark.parametrize(
    ("name", "value"),
    [("floor", 2), ("words_floor", float("nan")), ("retries", -1), ("retries", 6), ("limit_s", 0), ("retriever", None)],
)
def test_a_wrong_setting_is_refused_by_name(world: Database, name: str, value: object) -> None:
    settings: dict[str, Any] = {"retriever": HybridRetriever(world), name: value}
    with pytest.raises(InvalidArgument) as refused:
        LadderRetriever(**settings)
    assert refused.value.argument == name
