"""Who sees a source: the users of its bot, all bots of its tenant, or one user alone; and nobody else at any time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from rag_assets.errors import InvalidArgument, ProfileNotReady, ProviderUnavailable, ScopeError, UsageError
from rag_assets.ingest.run import ingest
from rag_assets.retrieval import (
    DenseRetriever,
    HybridRetriever,
    LexicalRetriever,
    Retrieval,
    RetrievalScope,
    open_scope,
)
from rag_assets.retrieval.spaces import merged
from rag_assets.retrieval.steps import Outcome
from rag_assets.store.database import Database
from rag_assets.store.profiles import add_spec
from rag_assets.store.roots import list_roots, set_options
from rag_assets.store.tenants import SHARED_BOT, add_tenant
from tests.support.scopes import set_scope
from tests.support.worlds import HASH_PROFILE, rewrite, write_files

QUERY = "the red valve"


@pytest.fixture
def database(new_database: Callable[[], Database]) -> Iterator[Database]:
    database = new_database()
    add_spec(database, HASH_PROFILE)
    yield database
    database.close()


def folder(tmp_path: Path, name: str, files: dict[str, str] | None = None) -> Path:
    return write_files(tmp_path / name, files or {f"{name}.md": f"The red valve of {name}."})


def taken(
    database: Database, path: Path, visibility: str | None = None, user: str | None = None, bot: str = "b"
) -> None:
    report = ingest(database, "acme", bot, HASH_PROFILE, [path], visibility=visibility, user=user)  # type: ignore[arg-type]
    assert report.sources.failures == []


def scope(database: Database, user: str | None = None, bot: str = "b", tenant: str = "acme") -> RetrievalScope:
    return open_scope(database, tenant, bot, user_id=user)


def found(database: Database, asking: RetrievalScope, query: str = QUERY) -> dict[str, str]:
    """The space of each source that any retriever finds."""
    hits: dict[str, str] = {}
    for kind in (HybridRetriever, LexicalRetriever, DenseRetriever):
        hits |= {one.source_name: one.space for one in kind(database).search(query, asking, 20)}
    return hits


def rows_of(database: Database, asking: RetrievalScope, table: str) -> int:
    with database.session("app") as connection, connection.transaction():
        set_scope(connection, asking.settings)
        row = connection.execute(f"SELECT count(*) FROM rag.{table}").fetchone()  # type: ignore[arg-type]
        assert row is not None
        return int(row[0])


def test_a_users_sources_are_found_by_that_user_alone(database: Database, tmp_path: Path) -> None:
    taken(database, folder(tmp_path, "shared"))
    taken(database, folder(tmp_path, "mine"), "user", "ann")
    assert found(database, scope(database, "ann")) == {"shared.md": "bot", "mine.md": "user"}
    for other in (None, "bob", "Ann", "ann "):
        asking = scope(database, other)
        assert found(database, asking) == {"shared.md": "bot"}
        for table in ("knowledge_sources", "source_documents", "knowledge_chunks", "source_profiles"):
            assert rows_of(database, asking, table) == 1, table
    assert rows_of(database, scope(database, "ann"), "source_profiles") == 2


def test_what_is_edited_stays_whose_it_is(database: Database, tmp_path: Path) -> None:
    mine = folder(tmp_path, "mine")
    taken(database, mine, "user", "ann")
    rewrite(mine / "mine.md", "The red valve, once more.")
    write_files(mine, {"new.md": "Another red valve."})
    ingest(database, "acme", "b", HASH_PROFILE)
    assert set(found(database, scope(database, "ann"))) == {"mine.md", "new.md"}
    assert found(database, scope(database, "bob")) == {}


def test_a_change_of_a_root_holds_at_once(database: Database, tmp_path: Path) -> None:
    taken(database, folder(tmp_path, "one"))
    everybody = scope(database)
    assert found(database, everybody) == {"one.md": "bot"}
    for options, seen in (
        ({"visibility": "user", "user": "ann"}, {}),
        ({"visibility": "user", "user": "bob"}, {}),
        ({"visibility": "bot", "user": None}, {"one.md": "bot"}),
    ):
        with database.work("acme") as connection:
            (root,) = list_roots(connection, "acme", "b")
            set_options(connection, root, options)
        assert found(database, everybody) == seen
        if options["user"]:
            assert found(database, replace(everybody, user_id=options["user"])) == {"one.md": "user"}


@pytest.mark.parametrize("private_first", [True, False])
def test_a_file_of_two_roots_is_private_if_one_of_them_is(
    database: Database, tmp_path: Path, private_first: bool
) -> None:
    outer = folder(tmp_path, "outer", {"open.md": "The red valve.", "ann/own.md": "The red valve of ann."})
    roots = [(outer / "ann", "user", "ann"), (outer, None, None)]
    for path, visibility, user in roots if private_first else reversed(roots):
        taken(database, path, visibility, user)
    ingest(database, "acme", "b", HASH_PROFILE)
    assert found(database, scope(database, "bob")) == {"open.md": "bot"}
    mine = found(database, scope(database, "ann"))
    assert mine.pop("open.md") == "bot"
    assert list(mine.values()) == ["user"]


def test_what_a_tenant_shares_is_found_by_all_its_bots_and_by_no_other_tenant(
    database: Database, tmp_path: Path
) -> None:
    taken(database, folder(tmp_path, "one"), bot="one")
    taken(database, folder(tmp_path, "two"), bot="two")
    taken(database, folder(tmp_path, "rules"), "tenant", bot="one")
    ingest(database, "globex", "one", HASH_PROFILE, [folder(tmp_path, "theirs")])
    assert found(database, scope(database, bot="one")) == {"one.md": "bot", "rules.md": "tenant"}
    assert found(database, scope(database, bot="two")) == {"two.md": "bot", "rules.md": "tenant"}
    assert found(database, scope(database, bot="one", tenant="globex")) == {"theirs.md": "bot"}
    assert found(database, scope(database, bot=SHARED_BOT)) == {"rules.md": "tenant"}


def test_a_bot_with_nothing_of_its_own_answers_from_what_is_shared(database: Database, tmp_path: Path) -> None:
    taken(database, folder(tmp_path, "rules"), "tenant", bot="new")
    assert found(database, scope(database, bot="new")) == {"rules.md": "tenant"}
    add_tenant(database, "globex", "new")
    with pytest.raises(ProfileNotReady):
        scope(database, bot="new", tenant="globex")


def test_a_text_that_both_have_is_the_bots_own(database: Database, tmp_path: Path) -> None:
    taken(database, folder(tmp_path, "one", {"one.md": "The red valve."}))
    taken(
        database, folder(tmp_path, "rules", {"rules.md": "The red valve.", "more.md": "A red valve of all."}), "tenant"
    )
    hits = HybridRetriever(database).search(QUERY, scope(database), 8)
    assert [(hit.source_name, hit.space) for hit in hits] == [("one.md", "bot"), ("more.md", "tenant")]
    copies = HybridRetriever(database, copies=True).search(QUERY, scope(database), 8)
    assert {hit.source_name for hit in copies} == {"one.md", "rules.md", "more.md"}
    assert len(HybridRetriever(database).search(QUERY, scope(database), 1)) == 1


def test_a_scope_made_by_hand_reaches_no_other_tenants_shared_space(database: Database, tmp_path: Path) -> None:
    taken(database, folder(tmp_path, "rules"), "tenant")
    ingest(database, "globex", "b", HASH_PROFILE, [folder(tmp_path, "theirs")])
    theirs = scope(database, bot="b", tenant="globex")
    shared = scope(database, bot="b")
    forged = replace(theirs, knowledge_space_id=shared.knowledge_space_id, profile_id=shared.profile_id)
    assert found(database, forged) == {}
    for settings in ({**theirs.settings, "space": shared.settings["space"]}, {**shared.settings, "bot": None}):
        with psycopg.connect(database.url) as connection:
            connection.execute("SET ROLE rag_app")
            set_scope(connection, settings)
            search = "SELECT * FROM rag.search_space('lexical', NULL, 'valve', 10, false)"
            assert connection.execute(search).fetchall() == []
            if settings["bot"] is None:
                assert connection.execute("SELECT rag.shared_bot()").fetchone() == (None,)
    with pytest.raises(ScopeError, match="same tenant"):
        replace(theirs, shared=shared)


@pytest.mark.parametrize(
    ("visibility", "user"),
    [("user", None), ("bot", "ann"), (None, "ann"), ("everybody", None), ("user", ""), ("user", "a\n")],
)
def test_a_visibility_that_says_nothing_certain_is_refused(
    database: Database, tmp_path: Path, visibility: str | None, user: str | None
) -> None:
    with pytest.raises(InvalidArgument):
        taken(database, folder(tmp_path, "one"), visibility, user)
    with pytest.raises(InvalidArgument):
        ingest(database, "acme", "b", HASH_PROFILE, visibility="tenant")


def test_a_bot_that_was_called_like_the_shared_one_is_not_opened_to_the_others(
    database: Database, tmp_path: Path
) -> None:
    add_tenant(database, "acme", SHARED_BOT)
    with psycopg.connect(database.url) as connection:  # as a version that knew nothing of it made it
        connection.execute("UPDATE rag.knowledge_spaces SET visibility_scope = 'bot'")
    with pytest.raises(UsageError, match="of its own"):
        taken(database, folder(tmp_path, "rules"), "tenant")


def test_where_the_shared_space_cannot_be_searched_the_own_answer_stands(database: Database, tmp_path: Path) -> None:
    taken(database, folder(tmp_path, "one"))
    asking = scope(database)
    own = Outcome(HybridRetriever(database).search(QUERY, asking, 8))
    down: Outcome[Retrieval] = Outcome(error=ProviderUnavailable("no answer"))
    answer = merged(own, down, asking, 8, by_score=True, copies=False)
    assert [hit.source_name for hit in answer] == ["one.md"]
    assert answer.degraded == "what all bots of 'acme' share could not be searched (no answer)"
    with pytest.raises(ProviderUnavailable):
        merged(down, own, asking, 8, by_score=True, copies=False)
    with pytest.raises(ScopeError):  # a mistake of the program, not a fault that passes
        merged(own, Outcome(error=ScopeError("of another profile")), asking, 8, by_score=True, copies=False)
