"""Any login may read the catalogue, so no name of a tenant, a bot or a space is in it."""

from __future__ import annotations

import threading
from pathlib import Path

import psycopg
import pytest

from rag_assets.errors import RagError
from rag_assets.retrieval import LexicalRetriever, open_scope
from rag_assets.store.database import Database
from rag_assets.store.migrate import is_current, migrate
from rag_assets.store.partitions import GROUP_SIZE, drop_partition, partition_name
from tests.support.scopes import set_scope
from tests.support.worlds import ingested

TENANT, BOT = "zanzibar-ltd", "helpdesk-bot"
FILES = {f"a{n}.md": f"The main valve {n} is red." for n in range(5)}


@pytest.fixture
def world(database: Database, tmp_path: Path) -> Database:
    ingested(database, tmp_path / "docs", TENANT, FILES, bot=BOT)
    return database


def seen_in_catalogue(database: Database) -> list[tuple[str, str, str]]:
    """Every cell of the catalogue in which a login with no role at all finds a name of the tenant."""
    with psycopg.connect(database.url, autocommit=True) as admin:
        space = admin.execute("SELECT id::text FROM rag.knowledge_spaces").fetchone()
        admin.execute("CREATE ROLE anybody LOGIN")
    assert space is not None
    found = []
    try:
        with psycopg.connect(psycopg.conninfo.make_conninfo(database.url, user="anybody"), autocommit=True) as somebody:
            relations = somebody.execute(
                "SELECT c.oid::regclass::text FROM pg_class c WHERE c.relkind IN ('r', 'v') "
                "AND relnamespace::regnamespace::text IN ('pg_catalog', 'information_schema') "
                "AND has_table_privilege(c.oid, 'SELECT')"
            ).fetchall()
            for (relation,) in relations:
                for name in (TENANT, BOT, space[0]):
                    try:
                        rows = somebody.execute(
                            f"SELECT r::text FROM {relation} r WHERE strpos(r::text, %s) > 0", [name]
                        ).fetchall()
                    except psycopg.Error:
                        continue  # a view of what only others may see
                    found += [(relation, name, row[0]) for row in rows if "anybody" not in row[0]]
            definitions = somebody.execute("SELECT pg_get_constraintdef(oid) FROM pg_constraint").fetchall()
            found += [
                ("definition", name, row[0])
                for row in definitions
                for name in (TENANT, BOT, space[0])
                if name in row[0]
            ]
    finally:
        with psycopg.connect(database.url, autocommit=True) as admin:
            admin.execute("DROP ROLE anybody")
    return found


def as_an_earlier_version_made_it(database: Database, version: str) -> str:
    """The profile's partition as it was with a foreign key, or before that, with checks that name its tenant."""
    with psycopg.connect(database.url, autocommit=True) as connection:
        row = connection.execute(
            "SELECT p.id, p.tenant_id, p.bot_id, p.knowledge_space_id FROM rag.embedding_profiles p"
        ).fetchone()
        assert row is not None
        profile, tenant, bot, space = row
        table, group = f"rag.{partition_name(profile)}", f"rag.knowledge_chunks_g{profile // GROUP_SIZE}"
        connection.execute(f"ALTER TABLE {table} DROP CONSTRAINT belongs_to_space")
        connection.execute(f"ALTER TABLE {group} DETACH PARTITION {table}")
        connection.execute(f"DROP TABLE {group}")
        connection.execute(f"ALTER TABLE rag.knowledge_chunks ATTACH PARTITION {table} FOR VALUES IN ({profile})")
        if version == "names":
            for column, value in (("tenant_id", tenant), ("bot_id", bot), ("knowledge_space_id", space)):
                connection.execute(f"ALTER TABLE {table} ADD CHECK ({column} = '{value}')")
        else:
            connection.execute(
                f"ALTER TABLE {table} ADD CONSTRAINT belongs_to_profile FOREIGN KEY (embedding_profile_id, "
                "knowledge_space_id, tenant_id, bot_id) REFERENCES rag.embedding_profiles "
                "(id, knowledge_space_id, tenant_id, bot_id)"
            )
        connection.execute("DELETE FROM rag._yoyo_migration WHERE migration_id = '0054.partition-owners'")
    return table


def test_no_login_reads_the_names_of_tenants_bots_and_spaces_in_the_catalogue(world: Database) -> None:
    assert seen_in_catalogue(world) == []


@pytest.mark.parametrize("version", ["names", "key"])
def test_partitions_of_an_earlier_version_lose_names_and_keys_and_keep_their_tenant(
    world: Database, version: str
) -> None:
    table = as_an_earlier_version_made_it(world, version)
    assert bool(seen_in_catalogue(world)) == (version == "names")
    assert not is_current(world)
    migrate(world)
    assert is_current(world)
    assert seen_in_catalogue(world) == []
    with psycopg.connect(world.url) as connection:
        kinds = connection.execute("SELECT contype FROM pg_constraint WHERE conrelid = %s::regclass", [table])
        assert "f" not in {kind for (kind,) in kinds}
        assert connection.execute("SELECT FROM pg_policies WHERE policyname = 'partition_owners'").fetchone() is None
    with world.connect("ingest") as connection:
        set_scope(connection, {"tenant": "other"})
        with pytest.raises(psycopg.errors.CheckViolation, match="belongs_to_space"):
            connection.execute(
                "INSERT INTO rag.knowledge_chunks SELECT gen_random_uuid(), gen_random_uuid(), 'other', 'bot', "
                f"gen_random_uuid(), {table.rpartition('_p')[2]}, 0, 'x', 1, '{{}}', '{{}}', '', "
                "'{}/10', array_fill(0.125::float4, ARRAY[64])::vector"
            )


@pytest.mark.parametrize("step", ["migrate", "drop"])
def test_who_searches_never_waits_long_for_a_change_of_partitions_behind_a_long_reader(
    world: Database, step: str
) -> None:
    as_an_earlier_version_made_it(world, "names") if step == "migrate" else None
    scope = open_scope(world, TENANT, BOT)
    reader = psycopg.connect(world.url)
    reader.execute("SELECT count(*) FROM rag.embedding_profiles")
    reader.execute("SELECT count(*) FROM rag.knowledge_chunks")
    done: list[RagError | None] = []

    def change() -> None:
        try:
            migrate(world) if step == "migrate" else drop_partition(world, scope.profile_id)
            done.append(None)
        except RagError as error:
            done.append(error)

    changing = threading.Thread(target=change)
    changing.start()
    try:
        with world.connect("app") as watcher:
            watcher.execute("SET statement_timeout = '5s'")
            for _ in range(20):
                set_scope(watcher, scope.settings)
                assert watcher.execute("SELECT count(*) FROM rag.embedding_profiles").fetchone() == (1,)
                watcher.rollback()
                changing.join(0.1)
        assert step == "drop" or len(LexicalRetriever(world).search("valve", scope)) == 5
        assert done == []
    finally:
        reader.close()
        changing.join(60)
    assert done == [None]
