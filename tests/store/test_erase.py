from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from rag_assets.errors import DatabaseRefused, InvalidKey, RagError, UnknownBot, UnknownTenant
from rag_assets.ingest.pairs import enable_pair
from rag_assets.ingest.run import ingest
from rag_assets.retrieval import LexicalRetriever, open_scope
from rag_assets.store import erase as erasure
from rag_assets.store.database import Database
from rag_assets.store.erase import erasable, erase
from rag_assets.store.partitions import drop_partition, partition_name
from rag_assets.store.tenants import list_bots, list_tenants
from tests.support.worlds import ingested

FILES = {
    "pump.md": "# Pump\n\nThe PX-4412 cuts in at 1.8 bar.\n",
    "returns.txt": "Thirty days to return goods.\n",
}


@pytest.fixture
def world(database: Database, tmp_path: Path) -> Database:
    """Tenant `acme` with the bots `support` and `sales`, and tenant `other`; all hold the same text."""
    ingested(database, tmp_path / "a", "acme", FILES)
    ingested(database, tmp_path / "b", "acme", FILES, bot="sales")
    ingested(database, tmp_path / "c", "other", FILES)
    return database


def _rows(database: Database) -> dict[str, int]:
    """Rows of every table of the schema, seen past row-level security."""
    with database.connect() as connection:
        tables = connection.execute(
            "SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'rag'::regnamespace "
            "AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relname !~ 'yoyo' ORDER BY 1"
        ).fetchall()
        return {
            name: connection.execute(f'SELECT count(*) FROM rag."{name}"').fetchone()[0]  # type: ignore[index]
            for (name,) in tables
        }


def _holding(database: Database, tenant: str, bot: str | None = None) -> Mapping[str, int]:
    return {table: count for table, count in erasable(database, tenant, bot).items() if count}


def _partitions(database: Database) -> set[str]:
    with database.connect() as connection:
        rows = connection.execute("SELECT relname FROM pg_class WHERE relname ~ '^knowledge_chunks_p[0-9]+$'")
        return {row[0] for row in rows}


def _finds(database: Database, tenant: str, bot: str) -> int:
    scope = open_scope(database, tenant, bot)
    return len(LexicalRetriever(database).search("PX-4412", scope))


def test_a_tenant_is_gone_from_every_table_and_the_other_is_untouched(world: Database) -> None:
    other, all_rows, partitions = _holding(world, "other"), _rows(world), _partitions(world)
    report = erase(world, "acme")
    assert report.counts["knowledge_chunks"] == 4
    assert report.counts["bots"] == 2
    assert not any(report.remaining.values())
    assert list_tenants(world) == ["other"]
    assert _holding(world, "other") == other
    assert len(_partitions(world)) == len(partitions) - 2
    assert _finds(world, "other", "support") == 1
    # What is left of each table is the other tenant's, and the catalogue of profiles, which is nobody's.
    left = {table: count for table, count in _rows(world).items() if count and table != "profile_specs"}
    assert left == other
    assert _rows(world)["profile_specs"] == all_rows["profile_specs"]


def test_every_table_that_names_a_tenant_is_counted(world: Database) -> None:
    with world.connect() as connection:
        named = {
            row[0]
            for row in connection.execute(
                "SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid "
                "WHERE c.relnamespace = 'rag'::regnamespace AND c.relkind IN ('r', 'p') "
                "AND NOT c.relispartition AND a.attname = 'tenant_id'"
            )
        }
    assert named | {"tenants"} == set(erasable(world, "acme"))


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
    other = _holding(grown, "other")
    assert _grown(erasable(grown, "acme")) == (1, 4, 4)
    report = erase(grown, "acme")
    assert (_grown(report.counts), _grown(report.remaining)) == ((1, 4, 4), (0, 0, 0))
    assert _grown(_rows(grown)) == _grown(other) == (1, 2, 2)
    assert _holding(grown, "other") == other


def test_of_a_table_that_is_added_later_one_bot_loses_its_own_rows(grown: Database) -> None:
    sales, other = _holding(grown, "acme", "sales"), _holding(grown, "other")
    assert _grown(erase(grown, "acme", "support").counts) == (0, 2, 2)
    assert _grown(_rows(grown)) == (2, 4, 4)
    assert (_holding(grown, "acme", "sales"), _holding(grown, "other")) == (sales, other)


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
    assert _rows(world)["measurements"] == 1


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
    assert _rows(database)["measurements"] == 1


def test_an_array_of_tenants_names_none_but_its_rows_go_with_what_they_point_at(world: Database) -> None:
    _add(
        world,
        "CREATE TABLE rag.shares (tenant_id text[], source_id uuid REFERENCES rag.knowledge_sources (id)); "
        "GRANT SELECT, DELETE ON rag.shares TO rag_ingest; "
        "INSERT INTO rag.shares SELECT ARRAY['acme', 'other'], id FROM rag.knowledge_sources",
    )
    assert erase(world, "acme").counts["shares"] == 4
    assert _rows(world)["shares"] == 2


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
    assert _holding(world, "other")["rates_%s"] == _holding(world, "other")["100%(x)s"] == 1


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
    assert _rows(world)["visits"] == 1


def test_a_table_that_is_only_named_like_a_partition_is_erased_too(world: Database) -> None:
    _add(
        world,
        "CREATE TABLE rag.knowledge_chunks_p777777 (LIKE rag.knowledge_chunks INCLUDING ALL); "
        "GRANT SELECT, DELETE ON rag.knowledge_chunks_p777777 TO rag_ingest; "
        "INSERT INTO rag.knowledge_chunks_p777777 SELECT * FROM rag.knowledge_chunks",
    )
    assert erase(world, "acme").counts["knowledge_chunks_p777777"] == 4
    assert _rows(world)["knowledge_chunks_p777777"] == 2


@pytest.mark.parametrize("granted", ["", 'GRANT SELECT ON rag."the notes" TO rag_ingest'])
def test_a_table_without_the_grants_is_named_before_the_first_step(world: Database, granted: str) -> None:
    _add(world, 'CREATE TABLE rag."the notes" (tenant_id text); CREATE TABLE rag.unrelated (id int); ' + granted)
    before = _rows(world)
    with pytest.raises(DatabaseRefused, match=r'GRANT SELECT, DELETE ON "rag"."the notes" TO rag_ingest$'):
        erase(world, "acme")
    assert _rows(world) == before
    assert _finds(world, "acme", "support") == 1


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
    before, number = _rows(world), 4 if bot is None else 2
    with pytest.raises(
        RagError, match=rf"other tenants point at rows of acme.*: {number} in links; nothing was erased"
    ):
        erase(world, "acme", bot)
    assert _rows(world) == before
    assert _finds(world, "acme", "support") == 1
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


def test_what_waits_for_a_job_of_an_erased_bot_is_looked_at_again(world: Database) -> None:
    with world.connect() as connection:
        connection.execute(
            "INSERT INTO rag.embedding_jobs (id, tenant_id, bot_id, profile, model_key, route, display_name, items, "
            "tokens, deadline) VALUES (gen_random_uuid(), 'acme', 'support', 'hash-64', 'm', 'r', 'j', 1, 1, now())"
        )
        connection.execute(
            "INSERT INTO rag.embedding_job_sources (embedding_profile_id, source_id, checksum, job_id, tenant_id, "
            "bot_id) SELECT sp.embedding_profile_id, sp.source_id, sp.checksum, j.id, sp.tenant_id, sp.bot_id "
            "FROM rag.source_profiles sp, rag.embedding_jobs j WHERE sp.tenant_id = 'acme'"
        )
    report = erase(world, "acme", "support")
    assert (report.counts["embedding_jobs"], report.counts["embedding_job_sources"]) == (1, 4)
    assert _rows(world)["embedding_job_sources"] == 0
    assert _finds(world, "acme", "sales") == 1


def test_a_partition_of_another_tenant_that_is_being_dropped_is_in_nobodys_way(world: Database) -> None:
    with world.connect("owner") as connection:
        (profile,) = connection.execute(
            "SELECT max(i.inhrelid::regclass::text) FROM pg_inherits i "
            "WHERE i.inhparent = 'rag.knowledge_chunks'::regclass"
        ).fetchone() or ("",)
        connection.execute(f"ALTER TABLE rag.knowledge_chunks DETACH PARTITION {profile}")  # type: ignore[arg-type]
    assert not any(erase(world, "acme").remaining.values())
    assert profile.removeprefix("rag.") in _partitions(world)


def test_one_bot_goes_and_the_tenants_other_bot_keeps_answering(world: Database) -> None:
    sales = _holding(world, "acme", "sales")
    report = erase(world, "acme", "support")
    assert report.counts["tenants"] == 0
    assert list_bots(world, "acme") == ["sales"]
    assert _holding(world, "acme", "sales") == sales
    assert _finds(world, "acme", "sales") == 1


def test_what_was_erased_can_be_ingested_again(world: Database, tmp_path: Path) -> None:
    erase(world, "acme", "support")
    ingested(world, tmp_path / "a", "acme", FILES)
    assert _finds(world, "acme", "support") == 1


def test_a_retired_profile_goes_with_its_partition(world: Database) -> None:
    retired = enable_pair(world, "acme", "support", "static-64")
    with world.work("acme") as connection:
        connection.execute("UPDATE rag.embedding_profiles SET status = 'retired' WHERE id = %s", [retired.id])
    erase(world, "acme")
    assert partition_name(retired.id) not in _partitions(world)


@pytest.mark.parametrize("step", ["pointers", "half the partitions", "all partitions"])
def test_an_erasure_that_was_killed_is_finished_by_the_next_one(world: Database, step: str) -> None:
    with world.work("acme") as connection:
        connection.execute("UPDATE rag.knowledge_spaces SET active_profile_id = NULL")
        profiles = [row[0] for row in connection.execute("SELECT id FROM rag.embedding_profiles ORDER BY id")]
    for profile in profiles[: {"pointers": 0, "half the partitions": 1, "all partitions": 2}[step]]:
        drop_partition(world, profile)
    assert not any(erase(world, "acme").remaining.values())
    assert list_tenants(world) == ["other"]


def test_a_partition_that_was_detached_and_not_yet_dropped_goes_too(world: Database) -> None:
    with world.work("acme") as connection:
        (profile,) = connection.execute("SELECT min(id) FROM rag.embedding_profiles").fetchone() or (0,)
    with world.connect("owner", autocommit=True) as connection:
        name = partition_name(profile)
        connection.execute(f"ALTER TABLE rag.knowledge_chunks DETACH PARTITION rag.{name} CONCURRENTLY")  # type: ignore[arg-type]
    erase(world, "acme")
    assert name not in _partitions(world)


def test_rows_that_keep_coming_are_an_error_and_not_a_success(
    world: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = erasure._erase_once

    def with_an_ingest_behind_it(database: Database, tenant: str, bot: str | None) -> None:
        once(database, tenant, bot)
        ingested(database, tmp_path / "a", "acme", FILES)

    monkeypatch.setattr(erasure, "_erase_once", with_an_ingest_behind_it)
    with pytest.raises(RagError, match=r"2 in knowledge_chunks.*ingest that is still running"):
        erase(world, "acme")


def test_a_profile_enabled_in_between_is_taken_along(world: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    dropped = erasure.drop_partition
    late: list[int] = []

    def and_enable_another(database: Database, profile: int) -> None:
        dropped(database, profile)
        if not late:
            late.append(enable_pair(database, "acme", "support", "static-64").id)

    monkeypatch.setattr(erasure, "drop_partition", and_enable_another)
    assert not any(erase(world, "acme").remaining.values())
    assert late
    assert partition_name(late[0]) not in _partitions(world)


def test_erasing_what_does_not_exist_says_so(world: Database) -> None:
    with pytest.raises(UnknownTenant, match="nobody"):
        erase(world, "nobody")
    with pytest.raises(UnknownBot, match="nobody"):
        erase(world, "acme", "nobody")
    with pytest.raises(InvalidKey):
        erase(world, "a|b")


def test_the_pairs_of_an_erased_bot_are_not_built_again(world: Database) -> None:
    erase(world, "acme", "support")
    with pytest.raises(UnknownBot):
        ingest(world, "acme", "support", "hash-64")
