from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from rag_assets.errors import DatabaseRefused, RagError
from rag_assets.store.database import Database
from rag_assets.store.erase import erasable, erase
from tests.support.erasure import FILES, finds, holding, rows_by_table
from tests.support.worlds import ingested


@pytest.fixture
def world(database: Database, tmp_path: Path) -> Database:
    """Tenant `acme` with the bots `support` and `sales`, and tenant `other`; all hold the same text."""
    ingested(database, tmp_path / "a", "acme", FILES)
    ingested(database, tmp_path / "b", "acme", FILES, bot="sales")
    ingested(database, tmp_path / "c", "other", FILES)
    return database


NEW_TABLES = """
CREATE TABLE rag.zz_notes (id int PRIMARY KEY, tenant_id rag.key NOT NULL REFERENCES rag.tenants (id));
CREATE TABLE rag.answers (
    id int PRIMARY KEY, tenant_id rag.key NOT NULL, bot_id rag.key NOT NULL,
    source_id uuid NOT NULL REFERENCES rag.knowledge_sources (id)
);
CREATE TABLE rag.votes (answer_id int NOT NULL REFERENCES rag.answers (id));
GRANT SELECT, DELETE ON rag.zz_notes, rag.answers, rag.votes TO rag_ingest;
ALTER TABLE rag.zz_notes ENABLE ROW LEVEL SECURITY;
ALTER TABLE rag.answers ENABLE ROW LEVEL SECURITY;
CREATE POLICY ingest ON rag.zz_notes TO rag_ingest USING (tenant_id = rag.scope_tenant());
CREATE POLICY ingest ON rag.answers TO rag_ingest USING (tenant_id = rag.scope_tenant());
INSERT INTO rag.zz_notes SELECT row_number() OVER (), id FROM rag.tenants;
INSERT INTO rag.answers SELECT row_number() OVER (), tenant_id, bot_id, id FROM rag.knowledge_sources;
INSERT INTO rag.votes SELECT id FROM rag.answers;
"""


@pytest.fixture
def grown(world: Database) -> Database:
    """A world of a later version: tables of a tenant, of its bots, and one that names neither. Each bot has a row a
    source."""
    with world.connect() as connection:
        connection.execute(NEW_TABLES)
    return world


def _grown(counts: Mapping[str, int]) -> tuple[int, int, int]:
    return counts["zz_notes"], counts["answers"], counts["votes"]


def test_a_table_that_is_added_later_is_counted_and_erased(grown: Database) -> None:
    other = holding(grown, "other")
    assert _grown(erasable(grown, "acme")) == (1, 4, 4)
    report = erase(grown, "acme")
    assert (_grown(report.counts), _grown(report.remaining)) == ((1, 4, 4), (0, 0, 0))
    assert _grown(rows_by_table(grown)) == _grown(other) == (1, 2, 2)
    assert holding(grown, "other") == other


def test_of_a_table_that_is_added_later_one_bot_loses_its_own_rows(grown: Database) -> None:
    sales, other = holding(grown, "acme", "sales"), holding(grown, "other")
    assert _grown(erase(grown, "acme", "support").counts) == (0, 2, 2)
    assert _grown(rows_by_table(grown)) == (2, 4, 4)
    assert (holding(grown, "acme", "sales"), holding(grown, "other")) == (sales, other)


def _add(database: Database, statements: str) -> None:
    with database.connect() as connection:
        connection.execute(statements)


@pytest.mark.parametrize(
    ("column_type", "value"),
    [
        ("uuid", "gen_random_uuid()"),
        ("int", "7"),
        ("text[]", "ARRAY['acme']"),
        ("jsonb", "'\"acme\"'"),
        ("int4range", "'[1,2)'"),
        ("varchar(63)", "'other'"),
    ],
)
def test_a_table_with_tenants_of_another_type_is_in_nobodys_way(world: Database, column_type: str, value: str) -> None:
    _add(
        world,
        f"CREATE TABLE rag.measurements (tenant_id {column_type}, bot_id {column_type}); "
        "GRANT SELECT, DELETE ON rag.measurements TO rag_ingest; "
        f"INSERT INTO rag.measurements VALUES ({value}, {value})",
    )
    assert not any(erase(world, "acme", "support").remaining.values())
    assert not any(erase(world, "acme").remaining.values())
    assert rows_by_table(world)["measurements"] == 1


@pytest.mark.parametrize(
    ("column_type", "tenant"),
    [("int", "7"), ("uuid", "6f1c2ab0-0000-4000-8000-000000000001"), ("rag.plan", "acme"), ("varchar(63)", "acme")],
)
def test_a_tenant_of_another_type_is_named_by_what_it_reads_as(
    database: Database, tmp_path: Path, column_type: str, tenant: str
) -> None:
    ingested(database, tmp_path, tenant, FILES)
    _add(
        database,
        "CREATE TYPE rag.plan AS ENUM ('acme', 'other'); "
        f"CREATE TABLE rag.measurements (tenant_id {column_type}, bot_id text); "
        "GRANT SELECT, DELETE ON rag.measurements TO rag_ingest; "
        f"INSERT INTO rag.measurements VALUES ('{tenant}', 'support'), ('{tenant}', 'sales')",
    )
    assert erase(database, tenant, "support").counts["measurements"] == 1
    assert rows_by_table(database)["measurements"] == 1


def test_an_array_of_tenants_names_none_but_its_rows_go_with_what_they_point_at(world: Database) -> None:
    _add(
        world,
        "CREATE TABLE rag.shares (tenant_id text[], source_id uuid REFERENCES rag.knowledge_sources (id)); "
        "GRANT SELECT, DELETE ON rag.shares TO rag_ingest; "
        "INSERT INTO rag.shares SELECT ARRAY['acme', 'other'], id FROM rag.knowledge_sources",
    )
    assert erase(world, "acme").counts["shares"] == 4
    assert rows_by_table(world)["shares"] == 2


def test_names_with_a_percent_sign_are_names(world: Database) -> None:
    _add(
        world,
        'CREATE TABLE rag."rates_%s" (tenant_id text, "rate%" int PRIMARY KEY); '
        'CREATE TABLE rag."100%(x)s" ("of%s" int REFERENCES rag."rates_%s"); '
        'GRANT SELECT, DELETE ON rag."rates_%s", rag."100%(x)s" TO rag_ingest; '
        """INSERT INTO rag."rates_%s" VALUES ('acme', 1), ('other', 2); INSERT INTO rag."100%(x)s" VALUES (1), (2)""",
    )
    report = erase(world, "acme")
    assert (report.counts["rates_%s"], report.counts["100%(x)s"]) == (1, 1)
    assert holding(world, "other")["rates_%s"] == holding(world, "other")["100%(x)s"] == 1


def test_partitions_of_another_table_are_erased_through_it(world: Database) -> None:
    _add(
        world,
        "CREATE TABLE rag.visits (tenant_id text, page int) PARTITION BY HASH (tenant_id); "
        "CREATE TABLE rag.visits_0 PARTITION OF rag.visits FOR VALUES WITH (MODULUS 2, REMAINDER 0); "
        "CREATE TABLE rag.visits_1 PARTITION OF rag.visits FOR VALUES WITH (MODULUS 2, REMAINDER 1); "
        "GRANT SELECT, DELETE ON rag.visits TO rag_ingest; "
        "INSERT INTO rag.visits VALUES ('acme', 1), ('acme', 2), ('other', 1)",
    )
    report = erase(world, "acme")
    assert (report.counts["visits"], report.remaining["visits"]) == (2, 0)
    assert rows_by_table(world)["visits"] == 1


def test_a_table_that_is_only_named_like_a_partition_is_erased_too(world: Database) -> None:
    _add(
        world,
        "CREATE TABLE rag.knowledge_chunks_p777777 (LIKE rag.knowledge_chunks INCLUDING ALL); "
        "GRANT SELECT, DELETE ON rag.knowledge_chunks_p777777 TO rag_ingest; "
        "INSERT INTO rag.knowledge_chunks_p777777 SELECT * FROM rag.knowledge_chunks",
    )
    assert erase(world, "acme").counts["knowledge_chunks_p777777"] == 4
    assert rows_by_table(world)["knowledge_chunks_p777777"] == 2


@pytest.mark.parametrize("granted", ["", 'GRANT SELECT ON rag."the notes" TO rag_ingest'])
def test_a_table_without_the_grants_is_named_before_the_first_step(world: Database, granted: str) -> None:
    _add(world, 'CREATE TABLE rag."the notes" (tenant_id text); CREATE TABLE rag.unrelated (id int); ' + granted)
    before = rows_by_table(world)
    with pytest.raises(DatabaseRefused, match=r'GRANT SELECT, DELETE ON "rag"."the notes" TO rag_ingest$'):
        erase(world, "acme")
    assert rows_by_table(world) == before
    assert finds(world, "acme", "support") == 1


@pytest.mark.parametrize("on_delete", ["", "ON DELETE CASCADE"])
@pytest.mark.parametrize("hidden", [False, True], ids=["in the open", "hidden by a policy"])
@pytest.mark.parametrize("bot", [None, "support"])
def test_rows_of_another_tenant_that_point_at_what_would_go_are_in_the_way(
    world: Database, on_delete: str, hidden: bool, bot: str | None
) -> None:
    _add(
        world,
        f"CREATE TABLE rag.links (tenant_id text, source_id uuid REFERENCES rag.knowledge_sources (id) {on_delete}); "
        "GRANT SELECT, DELETE ON rag.links TO rag_ingest; "
        "INSERT INTO rag.links SELECT 'other', id FROM rag.knowledge_sources; "
        "INSERT INTO rag.links SELECT 'acme', id FROM rag.knowledge_sources WHERE tenant_id = 'acme'; "
        "CREATE POLICY ingest ON rag.links TO rag_ingest USING (tenant_id = rag.scope_tenant()); "
        + ("ALTER TABLE rag.links ENABLE ROW LEVEL SECURITY" if hidden else ""),
    )
    before, number = rows_by_table(world), 4 if bot is None else 2
    with pytest.raises(
        RagError, match=rf"other tenants point at rows of acme.*: {number} in links; nothing was erased"
    ):
        erase(world, "acme", bot)
    assert rows_by_table(world) == before
    assert finds(world, "acme", "support") == 1
    _add(world, "DELETE FROM rag.links WHERE tenant_id = 'other'")
    assert not any(erase(world, "acme", bot).remaining.values())


def test_rows_that_a_trigger_keeps_are_named_and_not_blamed_on_an_ingest_alone(world: Database) -> None:
    _add(
        world,
        "CREATE TABLE rag.ledger (tenant_id text); GRANT SELECT, DELETE ON rag.ledger TO rag_ingest; "
        "INSERT INTO rag.ledger VALUES ('acme'); "
        "CREATE FUNCTION rag.keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; "
        "CREATE TRIGGER keep BEFORE DELETE ON rag.ledger FOR EACH ROW EXECUTE FUNCTION rag.keep()",
    )
    with pytest.raises(RagError, match=r"erased: 1 in ledger left\. .*or a trigger may keep them"):
        erase(world, "acme")


@pytest.mark.parametrize("deferred", ["", "DEFERRABLE INITIALLY DEFERRED"])
def test_rows_that_are_kept_although_they_point_at_the_tenant_are_told_by_their_key(
    world: Database, deferred: str
) -> None:
    _add(
        world,
        "CREATE SCHEMA elsewhere; "
        f"CREATE TABLE elsewhere.invoices (customer rag.key CONSTRAINT customers REFERENCES rag.tenants {deferred}); "
        "INSERT INTO elsewhere.invoices VALUES ('acme')",
    )
    with pytest.raises(RagError, match=r'1 in tenants left \(.*"customers" on table "invoices"\)'):
        erase(world, "acme")
