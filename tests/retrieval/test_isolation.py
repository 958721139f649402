"""Attacks on the border between tenants. Each one must find nothing."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from rag_assets.chunking import ChunkingSpec
from rag_assets.embedding.profiles import IndexSpec, make_profile
from rag_assets.errors import InvalidKey, ProfileNotReady, ScopeError, UnknownBot
from rag_assets.retrieval import (
    DenseRetriever,
    HybridRetriever,
    LexicalRetriever,
    RetrievalScope,
    open_scope,
)
from rag_assets.store.database import Database
from rag_assets.store.partitions import partition_name
from rag_assets.store.profiles import add_spec
from rag_assets.store.search import SearchRequest, search_chunks
from tests.support.scopes import set_scope
from tests.support.worlds import ingested

RETRIEVERS = (DenseRetriever, LexicalRetriever, HybridRetriever)
TENANT_TABLES = (
    "knowledge_spaces", "embedding_profiles", "knowledge_sources", "source_documents", "source_profiles",
    "knowledge_chunks", "source_overview",
)  # fmt: skip

# Both tenants say nearly the same; only the secret differs.
TEXT = "The recovery code of the main valve is {secret}. Keep it with the valve, in the control room.\n"


@pytest.fixture(scope="module")
def world(new_database: Callable[[], Database], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    database = new_database()
    # Indexed however small, so that the HNSW path is under attack too.
    add_spec(
        database,
        make_profile(
            name="hash-hnsw",
            provider="hash",
            model="hash",
            dimensions=64,
            chunking=ChunkingSpec(size=300, overlap=30),
            index=IndexSpec(kind="hnsw"),
        ),
    )
    for tenant, secret in (("alpha", "AAA-111"), ("beta", "BBB-222")):
        folder = tmp_path_factory.mktemp(tenant)
        files = {f"note{n}.md": f"# Note {n}\n\n" + TEXT.format(secret=secret) for n in range(30)}
        files |= {f"other{n}.md": f"Page {n} is about pumps, hoses and opening hours." for n in range(170)}
        ingested(database, folder, tenant, files, profile="hash-hnsw")
    yield database
    database.close()


def scope_of(database: Database, tenant: str) -> RetrievalScope:
    return open_scope(database, tenant, "support")


def everything_found(database: Database, scope: RetrievalScope) -> list[Any]:
    found: list[Any] = []
    for retriever in RETRIEVERS:
        for text in ("recovery code of the main valve", "BBB-222", "AAA-111 BBB-222 valve"):
            found += retriever(database).search(text, scope, top_k=100)
    return found


def test_a_search_in_each_mode_finds_only_what_is_the_tenants_own(world: Database) -> None:
    for tenant, own, other in (("alpha", "AAA-111", "BBB-222"), ("beta", "BBB-222", "AAA-111")):
        scope = open_scope(world, tenant, "support")
        for retriever in RETRIEVERS:
            found = retriever(world).search(f"recovery code {other}", scope, top_k=300)
            assert sum(own in result.content for result in found) == 30, f"{retriever.__name__} lost own chunks"
            assert not any(other in result.content for result in found)


def test_a_profile_of_another_tenant_finds_nothing(world: Database) -> None:
    stolen = dataclasses.replace(scope_of(world, "alpha"), profile_id=scope_of(world, "beta").profile_id)
    assert everything_found(world, stolen) == []


def test_a_space_of_another_tenant_finds_nothing(world: Database) -> None:
    beta = scope_of(world, "beta")
    stolen = dataclasses.replace(scope_of(world, "alpha"), knowledge_space_id=beta.knowledge_space_id)
    assert everything_found(world, stolen) == []


def test_profile_and_space_of_another_tenant_find_nothing(world: Database) -> None:
    stolen = dataclasses.replace(scope_of(world, "beta"), tenant_id="alpha")
    assert everything_found(world, stolen) == []


def test_another_bot_of_the_same_tenant_finds_nothing(world: Database) -> None:
    assert everything_found(world, dataclasses.replace(scope_of(world, "alpha"), bot_id="other")) == []


@pytest.mark.parametrize("ids", [{"profile_id": 10**9}, {"knowledge_space_id": uuid4()}])
def test_ids_that_exist_nowhere_find_nothing(world: Database, ids: dict[str, Any]) -> None:
    assert everything_found(world, dataclasses.replace(scope_of(world, "alpha"), **ids)) == []


@pytest.mark.parametrize("missing", ["tenant", "bot", "space", "profile"])
@pytest.mark.parametrize("value", [None, "", "%", "alpha' OR '1'='1", "alpha,beta", "*"])
def test_a_scope_with_an_unset_empty_or_forged_part_finds_nothing(
    world: Database, missing: str, value: str | None
) -> None:
    settings = {**scope_of(world, "alpha").settings, missing: value}
    with world.connect("app") as connection:
        for mode in ("lexical", "hybrid", "dense"):
            request = SearchRequest(mode, [1.0] + [0.0] * 63, "recovery code", top_k=100)  # type: ignore[arg-type]
            assert search_chunks(connection, settings, request) == []


def test_without_any_setting_the_function_finds_nothing(world: Database) -> None:
    with world.connect("app") as connection:
        rows = connection.execute("SELECT * FROM rag.search('lexical', NULL, 'recovery code', 10)").fetchall()
    assert rows == []


@pytest.mark.parametrize("scope", [None, {}, "alpha", ("alpha", "support")])
def test_a_retriever_refuses_to_search_without_a_scope(world: Database, scope: Any) -> None:
    with pytest.raises(ScopeError):
        HybridRetriever(world).search("recovery code", scope)


@pytest.mark.parametrize("tenant", ["", "Alpha", "alpha|beta", "al pha", "../beta", "alpha\n", "a" * 64])
def test_a_scope_with_a_tenant_that_is_no_key_cannot_be_made(world: Database, tenant: str) -> None:
    with pytest.raises(InvalidKey):
        dataclasses.replace(scope_of(world, "alpha"), tenant_id=tenant)


def test_an_unknown_tenant_or_bot_or_profile_opens_no_scope(world: Database) -> None:
    with pytest.raises(UnknownBot):
        open_scope(world, "gamma", "support")
    with pytest.raises(UnknownBot):
        open_scope(world, "alpha", "sales")
    with pytest.raises(ProfileNotReady):
        open_scope(world, "alpha", "support", "static-64")


def test_a_direct_select_as_the_app_sees_only_the_scopes_rows(world: Database) -> None:
    scope = scope_of(world, "alpha")
    with world.connect("app") as connection:
        for table in TENANT_TABLES:
            set_scope(connection, scope.settings)
            tenants = {row[0] for row in connection.execute(f"SELECT tenant_id FROM rag.{table}")}
            assert tenants == {"alpha"}, table
            connection.rollback()


def test_a_direct_select_without_a_scope_sees_nothing(world: Database) -> None:
    with world.connect("app") as connection:
        for table in TENANT_TABLES:
            assert connection.execute(f"SELECT count(*) FROM rag.{table}").fetchone() == (0,), table


def test_a_forged_where_clause_does_not_widen_a_direct_select(world: Database) -> None:
    with world.connect("app") as connection:
        set_scope(connection, scope_of(world, "alpha").settings)
        rows = connection.execute("SELECT * FROM rag.knowledge_chunks WHERE tenant_id = 'beta' OR true")
        assert "BBB-222" not in str(rows.fetchall())


@pytest.mark.parametrize("role", ["app", "ingest"])
def test_a_partition_cannot_be_read_directly(world: Database, role: Any) -> None:
    partition = partition_name(scope_of(world, "beta").profile_id)
    with world.connect(role) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(f"SELECT count(*) FROM rag.{partition}")


def test_a_partition_shows_nothing_even_to_a_role_that_was_granted_it(world: Database) -> None:
    partition = partition_name(scope_of(world, "beta").profile_id)
    with psycopg.connect(world.url) as connection:
        connection.execute(f"GRANT SELECT ON rag.{partition} TO rag_app")
        connection.execute("SET LOCAL ROLE rag_app")
        set_scope(connection, scope_of(world, "alpha").settings)
        assert connection.execute(f"SELECT count(*) FROM rag.{partition}").fetchone() == (0,)
        connection.rollback()


def test_the_app_can_read_no_table_of_the_machinery(world: Database) -> None:
    for table in ("tenants", "bots", "source_files", "embedding_cache", "lexeme_stats", "index_state"):
        with world.connect("app") as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(f"SELECT count(*) FROM rag.{table}")


def test_the_app_can_write_nothing(world: Database) -> None:
    for table in TENANT_TABLES[:-1]:
        with world.connect("app") as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(f"DELETE FROM rag.{table}")


def test_the_app_can_call_no_part_of_the_search_but_its_door(world: Database) -> None:
    with world.connect("app") as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("SELECT rag.profile_in_scope()")


@pytest.mark.parametrize("role", ["rag_search", "rag_owner", "rag_ingest"])
def test_a_login_that_was_only_granted_the_app_role_cannot_become_another(world: Database, role: str) -> None:
    with psycopg.connect(world.url, autocommit=True) as connection:
        connection.execute("CREATE ROLE only_app LOGIN IN ROLE rag_app")
    try:
        with (
            psycopg.connect(
                f"{world.url} user=only_app" if "://" not in world.url else world.url, user="only_app"
            ) as app,
            pytest.raises(psycopg.errors.InsufficientPrivilege),
        ):
            app.execute(f"SET ROLE {role}")
    finally:
        with psycopg.connect(world.url, autocommit=True) as connection:
            connection.execute("DROP ROLE only_app")


@pytest.mark.parametrize("way_out", ["SET ROLE NONE", "RESET ROLE", "SET SESSION AUTHORIZATION DEFAULT", "DISCARD ALL"])
def test_words_smuggled_into_a_search_that_leave_the_role_find_nothing(world: Database, way_out: str) -> None:
    with world.connect("app", autocommit=True) as connection:
        connection.execute(way_out)
        for attack in (
            "SELECT * FROM rag.knowledge_chunks",
            "ALTER TABLE rag.knowledge_chunks NO FORCE ROW LEVEL SECURITY",
            "COPY rag.knowledge_chunks TO PROGRAM 'cat'",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(attack)


def test_a_connection_forgets_the_scope_with_the_transaction(world: Database) -> None:
    scope = scope_of(world, "alpha")
    request = SearchRequest("lexical", None, "recovery code", top_k=5)
    with world.connect("app") as connection:
        assert len(search_chunks(connection, scope.settings, request)) == 5
        assert connection.execute("SELECT * FROM rag.search('lexical', NULL, 'recovery', 10)").fetchall() == []
        assert connection.execute("SELECT count(*) FROM rag.knowledge_chunks").fetchone() == (0,)
        connection.rollback()
        assert search_chunks(connection, {}, request) == []


def test_a_session_setting_left_by_another_borrower_is_overruled(world: Database) -> None:
    request = SearchRequest("lexical", None, "recovery code", top_k=100)
    with world.connect("app") as connection:
        connection.execute("SET rag.tenant = 'beta'")
        connection.execute("SET rag.bot = 'support'")
        connection.commit()
        found = search_chunks(connection, scope_of(world, "alpha").settings, request)
        assert len(found) == 30
        assert all("AAA-111" in row.content for row in found)
        assert search_chunks(connection, {}, request) == [], "an empty scope must not inherit the session's"


def test_the_ingest_role_writes_only_into_its_own_tenant(world: Database) -> None:
    with world.connect("ingest") as connection:
        set_scope(connection, {"tenant": "alpha"})
        assert connection.execute("UPDATE rag.knowledge_sources SET name = name WHERE tenant_id = 'beta'").rowcount == 0
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("INSERT INTO rag.bots (tenant_id, id) VALUES ('beta', 'spy')")


def test_a_row_of_one_tenant_cannot_enter_the_partition_of_another(world: Database) -> None:
    beta = scope_of(world, "beta").profile_id
    with world.connect("ingest") as connection:
        set_scope(connection, {"tenant": "alpha"})
        with pytest.raises(psycopg.errors.CheckViolation):
            connection.execute(
                "INSERT INTO rag.knowledge_chunks SELECT id, knowledge_space_id, tenant_id, bot_id, source_id, "
                f"{beta}, chunk_index, content, token_count, citation, metadata, fts, lexical, embedding "
                "FROM rag.knowledge_chunks LIMIT 1"
            )


def test_a_private_source_is_found_by_its_user_only(new_database: Callable[[], Database], tmp_path: Path) -> None:
    database = new_database()
    ingested(database, tmp_path, "alpha", {"mine.md": "my salary is 4711", "all.md": "the salary day is the 25th"})
    with database.work("alpha") as connection:
        connection.execute(
            "UPDATE rag.knowledge_sources SET scope_type = 'user', scope_user_id = 'ann' WHERE name LIKE '%mine%'"
        )
    scope = open_scope(database, "alpha", "support")
    for retriever in (kind(database) for kind in RETRIEVERS):
        for user, count in ((None, 1), ("bob", 1), ("ann", 2)):
            found = retriever.search("salary", dataclasses.replace(scope, user_id=user))
            assert len(found) == count, (type(retriever).__name__, user)
    with database.connect("app") as connection:
        set_scope(connection, {**scope.settings, "user": "bob"})
        assert connection.execute("SELECT count(*) FROM rag.knowledge_chunks").fetchone() == (1,)
        assert connection.execute("SELECT count(*) FROM rag.source_documents").fetchone() == (1,)
    database.close()


def plans_of(database: Database, mode: str, filters: str = "{}") -> str:
    """The plan trees that Postgres executes inside rag.search, nested statements included."""
    scope = scope_of(database, "alpha")
    plans: list[str] = []
    with database.connect("app") as connection:
        connection.add_notice_handler(lambda notice: plans.append(notice.message_detail or ""))
        set_scope(connection, scope.settings)
        connection.execute("SET LOCAL client_min_messages = log")
        connection.execute("SET LOCAL debug_print_plan = on")
        # Two hundred rows would rather be read and sorted than looked up.
        connection.execute("SET LOCAL enable_seqscan = off")
        connection.execute("SET LOCAL enable_sort = off")
        connection.execute(
            "SELECT * FROM rag.search(%s, %s::vector, 'recovery code', 5, filters => %s::jsonb)",
            [mode, "[1" + ",0" * 63 + "]", filters],
        )
    return "\n".join(plans)


def index_oid(database: Database, suffix: str) -> int:
    name = f"rag.{partition_name(scope_of(database, 'alpha').profile_id)}_{suffix}"
    with psycopg.connect(database.url) as connection:
        row = connection.execute("SELECT to_regclass(%s)::oid", [name]).fetchone()
    assert row is not None
    return int(row[0])


def test_the_search_function_uses_the_gin_index_although_row_level_security_is_forced(world: Database) -> None:
    plans = plans_of(world, "lexical")
    assert "{BITMAPINDEXSCAN" in plans
    assert re.search(rf":indexid {index_oid(world, 'fts')}\b", plans)


@pytest.mark.parametrize("filters", ["{}", '{"source_types": ["file"]}'])
def test_the_search_function_uses_the_hnsw_index(world: Database, filters: str) -> None:
    assert re.search(rf":indexid {index_oid(world, 'hnsw')}\b", plans_of(world, "dense", filters))


def test_the_same_statement_as_the_app_role_itself_would_not_use_the_gin_index(world: Database) -> None:
    with world.connect("app") as connection:
        set_scope(connection, scope_of(world, "alpha").settings)
        plan = connection.execute(
            "EXPLAIN SELECT id FROM rag.knowledge_chunks WHERE embedding_profile_id = "
            f"{scope_of(world, 'alpha').profile_id} AND fts @@ 'recoveri'::tsquery"
        ).fetchall()
    assert "_fts" not in str(plan), "if this fails, Postgres has learned it, and the functions may go"
