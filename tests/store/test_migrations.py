"""A database that an earlier version has filled comes to the current schema with all that it holds, while it serves."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from rag_assets.ingest.run import ingest
from rag_assets.retrieval import HybridRetriever, LexicalRetriever, RetrievalScope, open_scope
from rag_assets.settings import bundled
from rag_assets.store import migrate as module
from rag_assets.store.database import Database, ensure_database
from rag_assets.store.migrate import is_current, migrate
from rag_assets.store.partitions import create_partition
from rag_assets.store.tenants import Space
from tests.support.scopes import set_scope
from tests.support.servers import drop_database
from tests.support.worlds import HASH_PROFILE, ingested

TENANT, BOT = "acme", "support"
FILES = {f"sub {n}/a{n}.md": f"The main valve {n} is red." for n in range(12)} | {
    "faq.jsonl": '{"id": "1", "text": "Where is the valve?"}\n{"id": "2", "text": "Who has the hose?"}'
}
EARLIER = ["0012", "0015", "0016", "0023", "0026"]  # the last migration of such a version
NAME = "of_an_earlier_version"

_MIGRATIONS = bundled("sql") / "migrations"
Look = Callable[[Database], list[tuple[Any, ...]]]


def ask(database: Database, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(database.url) as connection:
        return connection.execute(statement).fetchall()


def chunks(database: Database) -> list[tuple[Any, ...]]:
    return ask(
        database,
        "SELECT id, source_id, embedding_profile_id, chunk_index, content, citation, metadata, lexical::text, "
        "embedding::text FROM rag.knowledge_chunks ORDER BY id",
    )


def roots(database: Database) -> list[tuple[Any, ...]]:
    return ask(database, "SELECT id, tenant_id, bot_id, uri, last_error FROM rag.source_roots ORDER BY id")


def sources(database: Database) -> list[tuple[Any, ...]]:
    return ask(
        database, "SELECT id, external_id, name, status, checksum, root_id FROM rag.knowledge_sources ORDER BY id"
    )


def files(database: Database) -> list[tuple[Any, ...]]:
    return ask(database, "SELECT root_id, uri, size, mtime_ns, checksum FROM rag.source_files ORDER BY uri")


KEPT: tuple[Look, ...] = (chunks, roots, sources, files)


def made_by(server_url: str, last: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Database:
    """An empty database with the migration `last` and all that it depends on, or (`0036+`) all that were before it."""
    folder.mkdir()
    pending = [path.stem for path in _MIGRATIONS.glob(f"{last}.*.sql")]
    if last.endswith("+"):
        pending = [path.stem for path in _MIGRATIONS.glob("*.sql") if path.stem[:4] <= last[:4]]
    while pending:
        path = _MIGRATIONS / f"{pending.pop()}.sql"
        shutil.copy(path, folder)
        pending += path.read_text().partition("\n")[0].partition("depends:")[2].split()
    database = Database(ensure_database(server_url, NAME))
    with monkeypatch.context() as patch:
        patch.setattr(module, "migrations_folder", lambda: folder)
        migrate(database)
    return database


def fill(earlier: Database, now: Database) -> None:
    """Copy all rows of a database of this version, but for the columns that an earlier one does not have."""
    ((profile, space),) = ask(now, "SELECT id, knowledge_space_id FROM rag.embedding_profiles")
    create_partition(earlier, profile, HASH_PROFILE.dimensions, Space(space, TENANT, BOT, None))
    with psycopg.connect(now.url) as source, psycopg.connect(earlier.url) as target:
        target.execute("SET session_replication_role = replica")  # in any order, and nothing is written twice
        tables = target.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'rag'::regnamespace AND relkind IN ('r', 'p') "
            "AND NOT relispartition AND relname !~ '^_?yoyo'"
        ).fetchall()
        names = [sql.Identifier("rag", table) for (table,) in tables]
        target.execute(sql.SQL("TRUNCATE {}").format(sql.SQL(", ").join(names)))
        for name, (table,) in zip(names, tables, strict=True):
            columns = sql.SQL(", ").join(map(sql.Identifier, _columns(target, table) & _columns(source, table)))
            taken = sql.SQL("COPY (SELECT {} FROM {}) TO STDOUT").format(columns, name)
            put = sql.SQL("COPY {} ({}) FROM STDIN").format(name, columns)
            with source.cursor().copy(taken) as read, target.cursor().copy(put) as write:
                for part in read:
                    write.write(part)


def _columns(connection: psycopg.Connection[Any], table: str) -> set[str]:
    rows = connection.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped "
        "AND attgenerated = ''",
        [f"rag.{table}"],
    )
    return {row[0] for row in rows}


@dataclass
class Reader:
    """Searches again and again, as programs of every version may."""

    database: Database
    scope: RetrievalScope
    answers: list[Any] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        with self.database.connect("app") as connection:
            while not self.stop.is_set():
                self.answers.append(self.answer(connection))

    def answer(self, connection: Any) -> Any:
        try:
            with connection.transaction():
                connection.execute("SET LOCAL statement_timeout = '10s'")
                set_scope(connection, self.scope.settings)
                return sorted(
                    connection.execute(
                        "SELECT content, source_name FROM rag.search('lexical', NULL, 'valve', 50)"
                    ).fetchall()
                )
        except psycopg.Error as error:
            return error


@pytest.fixture
def earlier(
    request: pytest.FixtureRequest,
    server_url: str,
    database: Database,
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Database]:
    """A database of an earlier version with a tenant that is served."""
    ingested(database, root, TENANT, FILES, bot=BOT)
    made = made_by(server_url, request.param, tmp_path / "migrations", monkeypatch)
    try:
        fill(made, database)
        yield made
    finally:
        made.close()
        drop_database(server_url, NAME)


@pytest.mark.parametrize(
    "earlier",
    [pytest.param(last, marks=[] if last == "0015" else pytest.mark.slow) for last in EARLIER],
    indirect=True,
)
def test_what_an_earlier_version_has_filled_is_the_same_after_all_migrations_and_found_all_the_while(
    earlier: Database, database: Database
) -> None:
    before = {look.__name__: look(earlier) for look in KEPT}
    assert [len(before[name]) for name in ("chunks", "roots", "sources", "files")] == [14, 1, 14, 13]
    assert not is_current(earlier)
    reader = Reader(earlier, open_scope(database, TENANT, BOT))
    reading = threading.Thread(target=reader.run)
    reading.start()
    try:
        while not reader.answers:
            reading.join(0.01)
        migrate(earlier)
        seen = len(reader.answers)
        while len(reader.answers) < seen + 2:
            reading.join(0.01)
    finally:
        reader.stop.set()
        reading.join(60)

    assert is_current(earlier)
    assert len(reader.answers[0]) == 13
    assert [answer for answer in reader.answers if answer != reader.answers[0]] == []
    for look in KEPT:
        assert look(earlier) == before[look.__name__], look.__name__
    scope = open_scope(earlier, TENANT, BOT)
    found = LexicalRetriever(earlier).search("valve", scope, top_k=50)
    assert sorted((one.content, one.source_name) for one in found) == reader.answers[0]
    assert len(HybridRetriever(earlier).search("Who has the hose?", scope, top_k=3)) == 3

    report = ingest(earlier, TENANT, BOT, HASH_PROFILE.name)
    assert (report.sources.unchanged, report.sources.changes, report.sources.deleted) == (14, 0, 0)
    assert (report.embeddings.embedded, report.publication.chunks_written, report.sources.held) == (0, 0, [])
    assert (chunks(earlier), roots(earlier)) == (before["chunks"], before["roots"])


@pytest.mark.parametrize(
    ("earlier", "model", "due"), [("0036+", "reader", 14), ("0036+", "other", 0)], indirect=["earlier"]
)
def test_texts_that_had_no_triples_of_a_model_are_asked_about_by_the_next_run(
    earlier: Database, model: str, due: int
) -> None:
    graph = f'{{"graph": {{"provider": "openai-compatible", "model": "{model}"}}}}'
    with psycopg.connect(earlier.url) as connection:
        connection.execute("SET session_replication_role = replica")  # a profile never changes, but for this
        connection.execute("UPDATE rag.embedding_profiles SET options = options || %s::jsonb", [graph])
        for digest, triples, error in (("\\x01", None, "nonsense"), ("\\x02", "[]", None)):
            connection.execute(
                "INSERT INTO rag.triple_answers (tenant_id, bot_id, model_key, content_hash, triples, error) "
                "VALUES (%s, %s, 'openai-compatible:reader:0', %s::bytea, %s::jsonb, %s)",
                [TENANT, BOT, digest, triples, error],
            )
    migrate(earlier)
    assert ask(earlier, "SELECT content_hash, triples FROM rag.triple_answers") == [(b"\x02", [])]
    assert ask(earlier, "SELECT count(*) FROM rag.source_profiles WHERE next_try_at <= now()") == [(due,)]
    assert ask(earlier, "SELECT count(*) FROM rag.source_profiles WHERE status = 'ready'") == [(14,)]


def test_a_long_reader_holds_a_migration_up_and_nobody_else(
    server_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = made_by(server_url, "0041+", tmp_path / "migrations", monkeypatch)
    migrating = threading.Thread(target=migrate, args=(earlier,), daemon=True)
    try:
        with psycopg.connect(earlier.url) as long:  # as a backup, which reads every table in one transaction
            tables = long.execute("SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = 'rag'").fetchall()
            long.execute("LOCK TABLE " + ", ".join(f"rag.{name}" for (name,) in tables) + " IN ACCESS SHARE MODE")
            migrating.start()
            with psycopg.connect(earlier.url, autocommit=True) as looking:
                looking.execute("SET statement_timeout = '2s'")
                for _ in range(30):
                    for (name,) in tables:  # whoever reads waits for nothing
                        looking.execute(f"SELECT FROM rag.{name} LIMIT 1")
                    migrating.join(0.1)
            assert migrating.is_alive()
        migrating.join(60)
        assert not migrating.is_alive()
        assert is_current(earlier)
    finally:
        earlier.close()
        drop_database(server_url, NAME)
