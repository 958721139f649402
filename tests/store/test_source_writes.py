"""To write the sources of a tenant takes as long as they are many, however many others there are."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import psycopg

from rag_assets.documents.model import Document
from rag_assets.store.database import Connection, Database
from rag_assets.store.roots import Root, add_root, list_roots
from rag_assets.store.sources import StagedSource, hash_uri, write_sources
from rag_assets.store.sql import query, scalar, scalars
from rag_assets.store.tenants import add_tenant


def root_among(database: Database, path: Path, *others: str) -> Root:
    """The root of a tenant, while another tenant has what these statements make of its spaces."""
    for tenant in ("acme", "bolt"):
        add_tenant(database, tenant, "support")
    add_root(database, "acme", "support", str(path))
    with psycopg.connect(database.url, autocommit=True) as superuser:
        for statement in others:
            superuser.execute(statement)
    with database.work("acme") as connection:
        (root,) = list_roots(connection, "acme", "support")
    return root


def rows_read(connection: Connection, table: str) -> int:
    """Rows that this session has looked at one by one."""
    counted = "SELECT coalesce(sum(seq_tup_read), 0)::int FROM pg_stat_xact_user_tables WHERE relname = %(table)s"
    found: int = scalar(connection, counted, {"table": table})
    return found


def staged(number: int) -> StagedSource:
    name = f"{number}.md"
    return StagedSource(uuid4(), hash_uri(name), "file", name, name, "v", "processing", document=Document(name))


def test_a_source_is_written_without_a_look_at_the_roots_of_others(database: Database, tmp_path: Path) -> None:
    root = root_among(
        database,
        tmp_path,
        "INSERT INTO rag.source_roots (knowledge_space_id, tenant_id, bot_id, uri) SELECT id, tenant_id, bot_id, "
        "'/' || n FROM rag.knowledge_spaces, generate_series(1, 3000) n WHERE tenant_id = 'bolt'",
        "ANALYZE rag.source_roots",
    )
    with database.work("acme") as connection:
        before = rows_read(connection, "source_roots")
        write_sources(connection, root, [staged(number) for number in range(20)])
        assert rows_read(connection, "source_roots") == before
        assert connection.execute("SELECT DISTINCT scope_type FROM rag.knowledge_sources").fetchall() == [("bot",)]


def test_the_sources_of_a_new_tenant_are_not_compared_with_each_other(database: Database, tmp_path: Path) -> None:
    root = root_among(database, tmp_path)
    with database.work("acme") as connection:
        write_sources(connection, root, [staged(number) for number in range(20)])
        assert connection.execute("SELECT count(*) FROM rag.source_documents").fetchall() == [(20,)]
        _, _, statement = str(query("upsert_documents")).partition("INSERT")
        owner = {"space": root.space_id, "tenant": root.tenant, "bot": root.bot, "root": root.id}
        plan = scalars(connection, f"EXPLAIN INSERT{statement}", owner)
    # A join is made of rows that are counted wrong: the policy of a tenant that is new leaves one, the planner holds.
    assert [line for line in plan if "Join" in line or "Nested Loop" in line] == []
    assert any("knowledge_sources_pkey" in line for line in plan)
