"""A cache answers as the database would at this moment, or not at all."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rag_assets.embedding import registry
from rag_assets.embedding.profiles import make_profile
from rag_assets.embedding.protocol import NOBODY, Caller, Embedded
from rag_assets.errors import DatabaseUnavailable, ProviderUnavailable
from rag_assets.ingest.run import ingest
from rag_assets.retrieval import (
    CachedRetriever,
    HybridRetriever,
    LexicalRetriever,
    Retrieval,
    RetrievalScope,
    SteppedRetriever,
    open_scope,
)
from rag_assets.retrieval.steps import Branch, Steps, together
from rag_assets.store.database import Database
from rag_assets.store.erase import erase
from rag_assets.store.profiles import add_spec
from rag_assets.store.promotion import promote, roll_back
from rag_assets.store.retirement import retire
from tests.support.worlds import HASH_PROFILE, ingested, rewrite

FILES = {f"note{n}.md": f"# Note {n}\n\nThe valve of pump {n} is checked weekly." for n in range(6)}
QUERY = "the valve of pump 3"
OTHER = make_profile(name="hash-32", provider="hash", model="hash", dimensions=32)


@pytest.fixture
def root(database: Database, tmp_path: Path) -> Path:
    ingested(database, tmp_path / "acme", "acme", FILES)
    return tmp_path / "acme"


def told(found: Retrieval) -> list[tuple[Any, ...]]:
    return [(one.chunk_id, one.score, one.content, one.source_name, one.metadata) for one in found]


def was_hit(found: Retrieval) -> bool:
    return bool(next(one["hit"] for one in found.trace if one["stage"] == "cache"))


class Counting:
    """An embedder that counts what it is asked, and can fail."""

    def __init__(self) -> None:
        self._inner = registry.embedder_for(HASH_PROFILE)
        self.asked: list[str] = []
        self.fails = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def embed_query(self, text: str, caller: Caller = NOBODY) -> Embedded:
        self.asked.append(text)
        if self.fails:
            raise ProviderUnavailable("no answer")
        return self._inner.embed_query(text, caller)


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Counting:
    embedder = Counting()
    monkeypatch.setitem(registry._loaded, registry._asks(HASH_PROFILE), embedder)  # type: ignore[arg-type]
    return embedder


def test_an_answer_is_given_again_as_it_was_in_both_faces(database: Database, root: Path, counting: Counting) -> None:
    cached, plain = CachedRetriever(HybridRetriever(database)), HybridRetriever(database)
    scope = open_scope(database, "acme", "support")
    first, second = cached.search(QUERY, scope), cached.search(QUERY, scope)

    async def awaited() -> Retrieval:
        try:
            return await cached.asearch(QUERY, scope)
        finally:
            await database.aclose()

    third = asyncio.run(awaited())
    assert told(first) == told(second) == told(third) == told(plain.search(QUERY, scope))
    assert [was_hit(one) for one in (first, second, third)] == [False, True, True]
    assert (first.rung, second.rung, second.usage) == ("full", "full", None)
    assert set(second.timings_ms) == {"embed", "search", "cache", "total"}
    stats = cached.stats["results"]
    assert (stats.hits, stats.misses, stats.entries) == (2, 1, 1)
    assert stats.hit_rate == pytest.approx(2 / 3)


def test_what_a_caller_does_to_an_answer_is_not_in_the_next_one(database: Database, root: Path) -> None:
    cached, scope = CachedRetriever(LexicalRetriever(database)), open_scope(database, "acme", "support")
    for _ in range(3):
        found = cached.search(QUERY, scope)
        assert "spoilt" not in found[0].citation
        found[0].citation["spoilt"] = True  # type: ignore[index]


def _rewritten(database: Database, root: Path) -> None:
    rewrite(root / "note3.md", "# Note 3\n\nThe valve of pump 3 is gone.")
    ingest(database, "acme", "support", HASH_PROFILE.name)


def _deleted(database: Database, root: Path) -> None:
    (root / "note3.md").unlink()
    ingest(database, "acme", "support", HASH_PROFILE.name, confirm_loss=True)


def _made_private(database: Database, root: Path) -> None:
    with database.work("acme", "support") as connection:
        connection.execute(
            "UPDATE rag.knowledge_sources SET scope_type = 'user', scope_user_id = 'u' WHERE name = 'note3.md'"
        )


def _renamed(database: Database, root: Path) -> None:
    with database.work("acme", "support") as connection:
        connection.execute("UPDATE rag.knowledge_sources SET name = 'other.md' WHERE name = 'note3.md'")


def _withdrawn(database: Database, root: Path) -> None:
    with database.work("acme", "support") as connection:
        connection.execute("DELETE FROM rag.source_profiles")


def _erased(database: Database, root: Path) -> None:
    erase(database, "acme", "support")


def _erased_tenant(database: Database, root: Path) -> None:
    erase(database, "acme")


def _closed_space(database: Database, root: Path) -> None:
    with database.work("acme", "support") as connection:
        connection.execute("UPDATE rag.knowledge_spaces SET visibility_scope = 'user'")


def _reweighed(database: Database, root: Path) -> None:
    with database.work("acme", "support") as connection:
        connection.execute("UPDATE rag.index_state SET average_length = 99, dense_floor = 0.3")


CHANGES = (
    _rewritten, _deleted, _made_private, _renamed, _withdrawn, _erased, _erased_tenant, _closed_space, _reweighed,
)  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__.strip("_"))
def test_after_any_change_the_answer_is_the_one_that_the_database_gives(
    database: Database, root: Path, change: Callable[[Database, Path], None]
) -> None:
    cached, plain = CachedRetriever(HybridRetriever(database)), HybridRetriever(database)
    scope = open_scope(database, "acme", "support")
    before = told(cached.search(QUERY, scope))
    assert was_hit(cached.search(QUERY, scope))
    change(database, root)
    after = cached.search(QUERY, scope)
    assert not was_hit(after), "the version should be another one"
    assert told(after) == told(plain.search(QUERY, scope))
    if change is not _reweighed:
        assert told(after) != before


def test_a_source_that_is_chosen_by_when_it_was_changed_here_is_found_when_only_that_changes(
    database: Database, root: Path
) -> None:
    cached, scope = CachedRetriever(LexicalRetriever(database)), open_scope(database, "acme", "support")
    filters = {"since": "2099-01-01"}
    assert len(cached.search(QUERY, scope, filters=filters)) == 0
    with database.work("acme", "support") as connection:
        connection.execute("UPDATE rag.knowledge_sources SET updated_at = '2099-06-01'")
    assert len(cached.search(QUERY, scope, filters=filters)) > 0


def test_a_change_that_is_taken_back_and_one_of_another_tenant_leave_answers_alone(
    database: Database, root: Path, tmp_path: Path
) -> None:
    cached, scope = CachedRetriever(LexicalRetriever(database)), open_scope(database, "acme", "support")
    cached.search(QUERY, scope)
    with database.work("acme", "support") as connection, connection.transaction(force_rollback=True):
        connection.execute("UPDATE rag.knowledge_sources SET name = name || '2'")
    ingested(database, tmp_path / "globex", "globex", FILES)
    ingest(database, "acme", "support", HASH_PROFILE.name)  # nothing has changed
    assert was_hit(cached.search(QUERY, scope))


def test_promotion_rollback_and_retirement_are_answered_from_what_serves(database: Database, root: Path) -> None:
    add_spec(database, OTHER)
    ingest(database, "acme", "support", OTHER.name)
    cached, plain = CachedRetriever(HybridRetriever(database)), HybridRetriever(database)
    for step in (None, promote, roll_back):
        if step is promote:
            promote(database, "acme", "support", OTHER.name, force=True, reason="a test")
        elif step is roll_back:
            roll_back(database, "acme", "support")
        scope = open_scope(database, "acme", "support")
        for _ in range(2):
            assert told(cached.search(QUERY, scope)) == told(plain.search(QUERY, scope))
    candidate = open_scope(database, "acme", "support", OTHER.name)
    assert len(cached.search(QUERY, candidate))
    retire(database, "acme", "support", OTHER.name, force=True)
    assert told(cached.search(QUERY, candidate)) == told(plain.search(QUERY, candidate)) == []


def test_nobody_is_given_what_another_asked_for(database: Database, root: Path, tmp_path: Path) -> None:
    ingested(database, tmp_path / "globex", "globex", {"g.md": "The valve of pump 3 is of globex."})
    with database.work("acme", "support") as connection:
        connection.execute(
            "UPDATE rag.knowledge_sources SET scope_type = 'user', scope_user_id = 'ann' WHERE name = 'note3.md'"
        )
    cached, plain = CachedRetriever(HybridRetriever(database)), HybridRetriever(database)
    calls = [
        (open_scope(database, tenant, "support", user_id=user), top_k, filters, query)
        for tenant in ("acme", "globex")
        for user in (None, "ann", "bob")
        for top_k in (1, 3)
        for filters in (None, {"source_types": ["file"]}, {"source_types": ["faq"]})
        for query in (QUERY, "weekly")
    ]  # fmt: skip
    rng = random.Random(7)
    for _ in range(2):
        rng.shuffle(calls)
        for scope, top_k, filters, query in calls:
            assert told(cached.search(query, scope, top_k, filters)) == told(plain.search(query, scope, top_k, filters))
    stats = cached.stats["results"]
    assert (stats.entries, stats.misses, stats.hits) == (len(calls), len(calls), len(calls))


class Publishing(SteppedRetriever):
    """Something is published after the version was read, before or after what is found."""

    def __init__(self, inner: LexicalRetriever, publish: Callable[[], None], *, first: bool) -> None:
        super().__init__(inner.database)
        self._inner, self._publish, self._first = inner, publish, first

    def steps(
        self, query: str, scope: RetrievalScope, top_k: int = 8, filters: Mapping[str, Any] | None = None
    ) -> Steps[Retrieval]:
        if self._first:
            self._publish()
        found = yield from self._inner.steps(query, scope, top_k, filters)
        if not self._first:
            self._publish()
        return found


@pytest.mark.parametrize("first", [True, False])
def test_what_is_published_during_a_search_is_in_the_next_one(database: Database, root: Path, first: bool) -> None:
    cached = CachedRetriever(Publishing(LexicalRetriever(database), lambda: _renamed(database, root), first=first))
    scope = open_scope(database, "acme", "support")
    cached.search(QUERY, scope)
    assert told(cached.search(QUERY, scope)) == told(LexicalRetriever(database).search(QUERY, scope))


def test_less_than_was_asked_for_is_not_kept(database: Database, root: Path, counting: Counting) -> None:
    cached, scope = CachedRetriever(HybridRetriever(database)), open_scope(database, "acme", "support")
    counting.fails = True
    assert [cached.search(QUERY, scope).rung for _ in range(2)] == ["words", "words"]
    counting.fails = False
    assert [cached.search(QUERY, scope).rung for _ in range(2)] == ["full", "full"]
    assert cached.stats["results"].hits == 1


def test_a_database_that_is_away_is_not_answered_for(database: Database, root: Path) -> None:
    cached, scope = CachedRetriever(LexicalRetriever(database)), open_scope(database, "acme", "support")
    cached.search(QUERY, scope)
    gone = Database("postgresql://nobody@127.0.0.1:1/none")
    cached.database = gone
    with pytest.raises(DatabaseUnavailable):
        cached.search(QUERY, scope)


def test_a_query_is_embedded_once_for_a_bot_whatever_it_is_asked_with(
    database: Database, root: Path, counting: Counting, tmp_path: Path
) -> None:
    ingested(database, tmp_path / "globex", "globex", FILES)

    class Twice(SteppedRetriever):
        def steps(
            self, query: str, scope: RetrievalScope, top_k: int = 8, filters: Mapping[str, Any] | None = None
        ) -> Steps[Retrieval]:
            inner = HybridRetriever(database)
            branches = [Branch(inner.steps(query, scope, top_k, filters), limit) for limit in (None, 30.0)]
            outcomes = yield from together(*branches)
            found: Retrieval = outcomes[1].get()
            return found

    cached = CachedRetriever(Twice(database))
    scope, other = (open_scope(database, tenant, "support") for tenant in ("acme", "globex"))
    for top_k in (1, 2, 3):
        found = cached.search(QUERY, scope, top_k)
    assert told(found) == told(HybridRetriever(database).search(QUERY, scope, 3))
    assert counting.asked.count(QUERY) in (2, 3), "both branches of the first may ask, then the plain one does"
    before = len(counting.asked)
    cached.search(QUERY, other)
    assert len(counting.asked) > before, "what a tenant asked for is not another's"
    assert cached.stats["vectors"].hits >= 4
    assert found.usage is not None
    assert found.usage.items == 0


def test_every_table_that_a_search_reads_notes_its_changes(database: Database) -> None:
    """A table that is new here must have the trigger of migration 0034, or a reason."""
    reasons = {
        "knowledge_chunks": "change with their row of source_profiles",
        "lexeme_stats": "are counted anew with index_state",
        "source_documents": "are no part of an answer",
        "corpus_changes": "are the notes",
        "api_tokens": "say who may ask, and not what is found",
        "scope_keys": "say whose word counts: they are asked anew for each answer out of a cache",
        "scope_signing": "as scope_keys",
        "query_log": "has what was found before",
        "pushed_documents": "are found when they are sources",
    }
    with psycopg.connect(database.url) as connection:
        read = connection.execute(
            "SELECT c.relname, bool_or(t.tgname = 'changes_answers') FROM pg_class c "
            "LEFT JOIN pg_trigger t ON t.tgrelid = c.oid WHERE c.relnamespace = 'rag'::regnamespace "
            "AND c.relkind IN ('r', 'p') AND NOT c.relispartition "
            "AND (has_table_privilege('rag_search', c.oid, 'SELECT') "
            "OR has_table_privilege('rag_app', c.oid, 'SELECT')) GROUP BY c.relname"
        ).fetchall()
    assert {name for name, notes in read if not notes} == set(reasons)
    assert len(read) > len(reasons)


@pytest.mark.slow
def test_readers_through_a_cache_never_meet_what_was_replaced_or_taken_away(
    database: Database, tmp_path: Path, rounds: int
) -> None:
    """What an ingest has published before a search begins, the search finds, and nothing older."""
    files = {f"doc{n}.md": f"The valve of pump {n} has revision 0." for n in range(4)}
    ingested(database, tmp_path / "acme", "acme", files)
    cached, scope = CachedRetriever(HybridRetriever(database)), open_scope(database, "acme", "support")
    done = dict.fromkeys(files, 0)  # the revision that was published for sure
    stop, faults, searches = threading.Event(), [], [0]

    def read(seed: int) -> None:
        rng = random.Random(seed)
        while not stop.is_set():
            at_least = dict(done)
            found = cached.search(f"the valve of pump {rng.randrange(2)}", scope)
            searches[0] += 1
            for hit in found:
                revision = int(hit.content.rpartition("revision ")[2].rstrip("."))
                if revision < at_least[hit.source_name]:
                    faults.append((hit.source_name, revision, at_least[hit.source_name]))

    readers = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for reader in readers:
        reader.start()
    try:
        for revision in range(1, 1 + 12 * rounds):
            name = f"doc{revision % 4}.md"
            if revision % 5 == 0:
                (tmp_path / "acme" / name).unlink()
            else:
                rewrite(tmp_path / "acme" / name, f"The valve of pump {revision % 4} has revision {revision}.")
            ingest(database, "acme", "support", HASH_PROFILE.name, confirm_loss=True)
            done[name] = 10**9 if revision % 5 == 0 else revision
            stop.wait(0.05)
            if revision % 5 == 0:
                done[name] = revision
        erase(database, "acme", "support")
        done.update(dict.fromkeys(files, 10**9))
        stop.wait(0.2)
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    stats = cached.stats["results"]
    assert faults == []
    assert len(cached.search("the valve of pump 1", scope)) == 0
    assert stats.hits > stats.misses > 12, stats
    assert searches[0] > 100
