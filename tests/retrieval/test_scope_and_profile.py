"""The scope decides the profile of a search, and nothing else does; what is wrong is said by an error of ours."""

from __future__ import annotations

import dataclasses
import inspect
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rag_assets.embedding.profiles import make_profile
from rag_assets.errors import (
    DatabaseFailed,
    DatabaseRefused,
    DatabaseUnavailable,
    InvalidArgument,
    InvalidKey,
    RagError,
    ScopeError,
    UnknownProfile,
)
from rag_assets.ingest.run import ingest
from rag_assets.retrieval import (
    DenseRetriever,
    DualRetriever,
    HybridRetriever,
    LexicalRetriever,
    RetrievalScope,
    open_scope,
)
from rag_assets.store.database import Database
from rag_assets.store.profiles import add_spec
from rag_assets.store.promotion import promote, roll_back, set_canary
from rag_assets.store.tenants import list_tenants
from tests.support.worlds import HASH_PROFILE, ingested, write_files

RETRIEVERS = (DenseRetriever, LexicalRetriever, HybridRetriever)
FILES = {f"note{n}.md": f"# Note {n}\n\nThe {word} of pump {n} is checked weekly." for n, word in enumerate("abc")}
# Of the same length and of another: the first would be an order without a meaning, the second an error of the driver.
ALIKE = make_profile(name="static-of-64", provider="wordllama", model="l2_supercat_256", dimensions=64)
WIDER = make_profile(name="hash-128", provider="hash", model="hash", dimensions=128)


@pytest.fixture(scope="module")
def world(new_database: Callable[[], Database], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A bot that hash-64 serves, and two complete profiles beside it."""
    database = new_database()
    for profile in (ALIKE, WIDER):
        add_spec(database, profile)
    ingested(database, tmp_path_factory.mktemp("docs"), "acme", FILES)
    for profile in (ALIKE, WIDER):
        ingest(database, "acme", "support", profile.name)
    yield database
    database.close()


@pytest.fixture
def scope(world: Database) -> RetrievalScope:
    return open_scope(world, "acme", "support")


@pytest.mark.parametrize("kind", RETRIEVERS)
def test_a_retriever_made_once_searches_each_scope_with_that_scopes_profile(world: Database, kind: Any) -> None:
    retriever = kind(world)
    for name in ("hash-64", ALIKE.name, WIDER.name, "hash-64"):
        scope = open_scope(world, "acme", "support", name)
        assert scope.profile.name == name
        assert len(retriever.search("the valve of pump 1", scope)) == 3


def test_a_retriever_cannot_be_given_a_profile_of_its_own() -> None:
    parameters = inspect.signature(HybridRetriever).parameters
    assert [name for name, one in parameters.items() if one.kind is not one.KEYWORD_ONLY] == ["database"]
    assert "profile" not in parameters


@pytest.mark.parametrize("other", [ALIKE, WIDER], ids=["of the same length", "of another length"])
@pytest.mark.parametrize("kind", RETRIEVERS)
def test_a_scope_made_by_hand_of_two_profiles_is_refused(
    world: Database, scope: RetrievalScope, kind: Any, other: Any
) -> None:
    with pytest.raises(ScopeError, match=r"hash-64.*two models|two models.*hash-64"):
        kind(world).search("valve", dataclasses.replace(scope, profile=other))


def test_a_scope_whose_profile_was_changed_in_place_is_refused(world: Database, scope: RetrievalScope) -> None:
    told = make_profile(**(HASH_PROFILE.model_dump() | {"task_instruction": {"query": "find the valve: "}}))
    with pytest.raises(ScopeError, match="two models"):
        DenseRetriever(world).search("valve", dataclasses.replace(scope, profile=told))
    scope.profile.task_instruction["query"] = "find the valve: "
    with pytest.raises(ScopeError, match="two models"):
        DenseRetriever(world).search("valve", scope)
    assert len(DenseRetriever(world).search("valve", open_scope(world, "acme", "support"))) == 3


def test_a_retriever_made_before_a_promotion_a_rollback_and_a_canary_answers_with_what_serves(world: Database) -> None:
    retriever = HybridRetriever(world)

    def serves(key: str | None = None) -> str:
        scope = open_scope(world, "acme", "support", request_key=key)
        (found, *_) = retriever.search("the valve of pump 1", scope)
        with psycopg.connect(world.url) as connection:
            row = connection.execute(
                "SELECT p.name FROM rag.knowledge_chunks c JOIN rag.embedding_profiles p "
                "ON p.id = c.embedding_profile_id WHERE c.id = %s",
                [found.chunk_id],
            ).fetchone()
        assert row is not None
        assert row[0] == scope.profile.name
        return str(row[0])

    assert serves() == "hash-64"
    promote(world, "acme", "support", WIDER.name, force=True, reason="a test")
    assert serves() == WIDER.name
    roll_back(world, "acme", "support")
    assert serves() == "hash-64"
    set_canary(world, "acme", "support", WIDER.name, 50)
    assert {serves(f"chat {n}") for n in range(20)} == {"hash-64", WIDER.name}
    set_canary(world, "acme", "support", None, 0)
    assert {serves(f"chat {n}") for n in range(20)} == {"hash-64"}


@pytest.mark.parametrize(
    ("argument", "call"),
    [
        ("query", lambda r, s: r.search(None, s)),
        ("query", lambda r, s: r.search(b"valve", s)),
        ("scope", lambda r, s: r.search("valve", None)),
        ("scope", lambda r, s: r.search("valve", "acme")),
        ("top_k", lambda r, s: r.search("valve", s, top_k=0)),
        ("top_k", lambda r, s: r.search("valve", s, top_k=1.5)),
        ("top_k", lambda r, s: r.search("valve", s, top_k="8")),
        ("top_k", lambda r, s: r.search("valve", s, top_k=True)),
        ("top_k", lambda r, s: r.search("valve", s, top_k=None)),
        ("filters", lambda r, s: r.search("valve", s, filters=["faq"])),
        ("filters", lambda r, s: r.search("valve", s, filters={"source_type": ["faq"]})),
        ("filters", lambda r, s: r.search("valve", s, filters={"locales": "de"})),
        ("filters", lambda r, s: r.search("valve", s, filters={"locales": {"de": 1}})),
        ("filters", lambda r, s: r.search("valve", s, filters={"locales": ["d\x00e"]})),
        ("filters", lambda r, s: r.search("valve", s, filters={"locales": ["\ud800"]})),
        ("filters", lambda r, s: r.search("valve", s, filters={"metadata": {"a": {1, 2}}})),
        ("filters", lambda r, s: r.search("valve", s, filters={"metadata": {"a": float("nan")}})),
        ("filters", lambda r, s: r.search("valve", s, filters={"metadata": "red"})),
        ("user_id", lambda r, s: dataclasses.replace(s, user_id="a\x00b")),
        ("user_id", lambda r, s: dataclasses.replace(s, user_id=7)),
        ("user_id", lambda r, s: dataclasses.replace(s, user_id="")),
        ("profile", lambda r, s: dataclasses.replace(s, profile="hash-64")),
        ("profile_id", lambda r, s: dataclasses.replace(s, profile_id="1")),
        ("profile_id", lambda r, s: dataclasses.replace(s, profile_id=10**400)),
        ("filters", lambda r, s: r.search("valve", s, filters={"content_types": [1]})),
    ],
)
@pytest.mark.parametrize("kind", RETRIEVERS)
def test_a_wrong_argument_of_a_search_is_named_and_nothing_is_asked(
    world: Database, scope: RetrievalScope, kind: Any, argument: str, call: Any
) -> None:
    with pytest.raises(InvalidArgument) as refused:
        call(kind(world), scope)
    assert refused.value.argument == argument
    assert argument.split("_")[0] in str(refused.value)


@pytest.mark.parametrize(
    ("argument", "options"),
    [
        ("dense_weight", {"dense_weight": 1.5}),
        ("dense_weight", {"dense_weight": float("nan")}),
        ("dense_weight", {"dense_weight": "half"}),
        ("fusion", {"fusion": "sum"}),
        ("candidates", {"candidates": 0}),
        ("candidates", {"candidates": 1001}),
    ],
)
def test_a_wrong_option_of_a_retriever_is_named_when_it_is_made(world: Database, argument: str, options: Any) -> None:
    with pytest.raises(InvalidArgument, match=argument) as refused:
        HybridRetriever(world, **options)
    assert refused.value.argument == argument


def test_a_retriever_of_anything_but_a_database_is_refused_when_it_is_made(world: Database) -> None:
    with pytest.raises(InvalidArgument, match="database"):
        HybridRetriever(world.url)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("argument", "options"),
    [
        ("tenant", {"tenant": "Acme"}),
        ("tenant", {"tenant": None}),
        ("bot", {"bot": "a\x00b"}),
        ("profile", {"profile": "a\x00b"}),
        ("profile", {"profile": ALIKE}),
        ("request_key", {"request_key": 7}),
        ("user_id", {"user_id": b"ann"}),
    ],
)
def test_a_wrong_argument_of_open_scope_is_named(world: Database, argument: str, options: Any) -> None:
    with pytest.raises(InvalidArgument) as refused:
        open_scope(world, **({"tenant": "acme", "bot": "support"} | options))
    assert refused.value.argument == argument
    assert isinstance(refused.value, InvalidKey) is (argument in ("tenant", "bot", "profile"))


def test_a_backslash_in_a_filter_is_text_and_no_nul(world: Database, scope: RetrievalScope) -> None:
    assert list(LexicalRetriever(world).search("pump", scope, filters={"locales": ["\\u0000"]})) == []


def _broken(world: Database, statement: str) -> Database:
    """The same server, in a state that no search survives, on a database of its own."""
    name = f"broken_{abs(hash(statement))}"
    source = psycopg.conninfo.conninfo_to_dict(world.url)["dbname"]
    world.close()
    with psycopg.connect(psycopg.conninfo.make_conninfo(world.url, dbname="postgres"), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()",
            [source],
        )
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {source}")
    url = psycopg.conninfo.make_conninfo(world.url, dbname=name)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)
    return Database(url)


# The search of this version, and those that programs of earlier ones call.
_EACH_SEARCH = (
    "DO $$ DECLARE f regprocedure; BEGIN FOR f IN SELECT oid FROM pg_proc WHERE proname IN ('search', 'search_space') "
    "AND pronamespace = 'rag'::regnamespace LOOP EXECUTE format('{}', f); END LOOP; END $$"
)


@pytest.mark.parametrize(
    ("statement", "expected", "says"),
    [
        ("DROP SCHEMA rag CASCADE", DatabaseRefused, "rag up"),
        (_EACH_SEARCH.format("DROP FUNCTION %s"), DatabaseRefused, "rag up"),
        ("DROP EXTENSION vector CASCADE", DatabaseRefused, "pgvector"),
        (_EACH_SEARCH.format("REVOKE EXECUTE ON FUNCTION %s FROM rag_app"), DatabaseRefused, "rag_app"),
        ("ALTER TABLE rag.index_state RENAME COLUMN dense_floor TO gone", DatabaseRefused, "rag up"),
        ("CREATE OR REPLACE FUNCTION rag.trust(dense rag.candidates, lexical rag.candidates, dense_weight float8) "
         "RETURNS float8 LANGUAGE sql IMMUTABLE RETURN 1.0 / (0 * dense_weight)", DatabaseFailed, "division by zero"),
    ],
    ids=["no schema", "no function", "no pgvector", "no grant", "old schema", "a fault inside"],
)  # fmt: skip
def test_no_error_of_the_driver_leaves_a_search(
    world: Database, scope: RetrievalScope, statement: str, expected: type[RagError], says: str
) -> None:
    broken = _broken(world, statement)
    try:
        with pytest.raises(expected, match=says) as failed:
            HybridRetriever(broken).search("the valve of pump 1", scope)
        assert isinstance(failed.value, RagError)
    finally:
        broken.close()


def test_a_server_that_is_not_there_is_unavailable_and_its_password_is_not_told(scope: RetrievalScope) -> None:
    nowhere = Database("postgresql://ann:secret-word@127.0.0.1:1/rag?connect_timeout=1")
    with pytest.raises(DatabaseUnavailable) as failed:
        HybridRetriever(nowhere).search("valve", scope)
    assert "secret-word" not in str(failed.value)
    with pytest.raises(DatabaseUnavailable):
        open_scope(nowhere, "acme", "support")


def test_a_login_that_may_not_search_is_refused_with_the_grant_and_without_retries(
    world: Database, scope: RetrievalScope
) -> None:
    with psycopg.connect(world.url, autocommit=True) as connection:
        connection.execute("CREATE ROLE may_not_search LOGIN")
    stranger = Database(world.url, psycopg.conninfo.make_conninfo(world.url, user="may_not_search"))
    with pytest.raises(DatabaseRefused, match="grant it the role rag_app"):
        HybridRetriever(stranger).search("valve", scope)


def test_a_search_that_the_server_cuts_off_is_not_sent_again(world: Database, scope: RetrievalScope) -> None:
    name = psycopg.conninfo.conninfo_to_dict(world.url)["dbname"]
    slow = Database(psycopg.conninfo.make_conninfo(world.url, options="-c statement_timeout=1ms"))
    with pytest.raises(DatabaseFailed, match=f"{name}.* took longer than it allows"):
        HybridRetriever(slow).search("the valve of the pump " * 300, scope)
    slow.close()


def test_a_server_that_takes_no_writes_is_named_as_such(world: Database, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("A pump.")
    standby = Database(psycopg.conninfo.make_conninfo(world.url, options="-c default_transaction_read_only=on"))
    with pytest.raises(DatabaseRefused, match="read-only"):
        ingest(standby, "acme", "support", "hash-64", [tmp_path])
    standby.close()


@pytest.mark.parametrize("connections", [0, -1, "8", None, True])
def test_a_number_of_connections_that_is_none_is_refused_at_once(world: Database, connections: Any) -> None:
    with pytest.raises(InvalidArgument, match="search_connections"):
        Database(world.url, search_connections=connections)


def test_a_child_that_closes_leaves_its_parents_connections_alone(world: Database, scope: RetrievalScope) -> None:
    retriever = LexicalRetriever(world)
    retriever.search("valve", scope)

    def pids() -> set[int]:
        with psycopg.connect(world.url) as connection:
            rows = connection.execute(
                "SELECT pid FROM pg_stat_activity WHERE application_name = 'rag-assets app' "
                "AND datname = current_database()"
            )
            return {row[0] for row in rows}

    before = pids()
    child = os.fork()
    if child == 0:
        world.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert before
    assert before <= pids()


@pytest.mark.parametrize(
    "url",
    ["not a url", "postgres//ann:secret-word@host/db", "postgresql://ann:secret@word@host/db", "\ud800", "", None],
    ids=["words", "no scheme", "at in the password", "surrogate", "empty", "none"],
)
def test_a_url_that_is_none_is_named_and_not_repeated(url: Any) -> None:
    with pytest.raises(InvalidArgument, match="url") as refused:
        Database(url)
    assert refused.value.argument == "url"
    with pytest.raises(InvalidArgument) as refused:
        Database("postgresql://127.0.0.1:1/x", "postgres//ann:secret-word@host/db")
    assert refused.value.argument == "app_url"
    assert "secret-word" not in str(refused.value)
    assert refused.value.__context__ is None, "the driver's own error repeats the URL"


@pytest.mark.parametrize(
    ("argument", "options"),
    [
        ("database", {"database": "postgresql://127.0.0.1/x"}),
        ("tenant", {"tenant": "Acme"}),
        ("bot", {"bot": 7}),
        ("profile", {"profile": None}),
        ("roots", {"roots": "handbook"}),
        ("roots", {"roots": Path("handbook")}),
        ("roots", {"roots": 7}),
    ],
)
def test_a_wrong_argument_of_an_ingest_is_named_and_nothing_is_written(
    world: Database, argument: str, options: Any
) -> None:
    given = {"database": world, "tenant": "new", "bot": "support", "profile": "hash-64", "roots": []} | options
    with pytest.raises(InvalidArgument) as refused:
        ingest(**given)
    assert refused.value.argument == argument


def test_an_ingest_with_a_profile_that_is_not_there_creates_nothing(world: Database, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("A pump.")
    with pytest.raises(UnknownProfile):
        ingest(world, "new", "support", "nothing-like-it", [tmp_path])
    assert "new" not in list_tenants(world)


def test_a_profile_named_by_a_bot_that_only_what_is_shared_serves_is_searched_in_the_bots_own_space(
    world: Database, tmp_path: Path
) -> None:
    ingested(world, tmp_path / "own", "delta", {"hose.md": "The hose bends."})
    shared = write_files(tmp_path / "shared", {"valve.md": "The valve bends."})
    ingest(world, "delta", "support", HASH_PROFILE.name, [shared], visibility="tenant")
    with world.work("delta", "support") as connection:
        connection.execute("UPDATE rag.knowledge_spaces SET active_profile_id = NULL WHERE bot_id = 'support'")
    scope = open_scope(world, "delta", "support")
    both = DualRetriever(HybridRetriever(world), HybridRetriever(world), secondary_profile=HASH_PROFILE.name)
    found = both.search("what bends", scope)
    assert {one.source_name for one in found} == {"hose.md", "valve.md"}
    assert next(one.index for one in found if one.source_name == "hose.md") == "secondary"
