"""Statistics of tables that hold the rows of all tenants."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag_assets.store import indexes
from rag_assets.store.database import Database
from tests.support.worlds import ingested


def analyses(database: Database) -> int:
    """How often the table of sources was looked at for the planner."""
    with database.session("owner") as connection:
        row = connection.execute(
            "SELECT analyze_count FROM pg_stat_user_tables WHERE schemaname = 'rag' AND relname = 'knowledge_sources'"
        ).fetchone()
    assert row is not None
    return int(row[0])


def test_a_tenants_few_files_have_nobody_elses_rows_looked_at(database: Database, tmp_path: Path) -> None:
    ingested(database, tmp_path / "acme", "acme", {f"{number}.md": f"Lamp {number} is lit." for number in range(40)})
    first = analyses(database)
    assert first > 0, "without statistics the planner guesses"
    for number in range(3):
        ingested(database, tmp_path / "globex", "globex", {f"{number}.md": f"Valve {number} is shut."})
    assert analyses(database) == first
    ingested(database, tmp_path / "acme", "acme", {f"{number}.md": f"Pump {number} is dry." for number in range(150)})
    assert analyses(database) > first, "much has changed"


def test_lexemes_are_counted_over_all_pages_of_the_table(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexes, "_COUNTED_PAGES", 2)
    text = "Lamp {} is lit, and the pump beside it is dry. "
    ingested(database, tmp_path, "acme", {f"{number}.md": text.format(number) * 9 for number in range(120)})
    with database.work("acme") as connection:
        (pages,) = connection.execute("SELECT sum(pg_relation_size(inhrelid)) / 8192 FROM pg_inherits").fetchone() or ()
        rows = connection.execute(
            "SELECT lexeme, chunk_count FROM rag.lexeme_stats EXCEPT "
            "SELECT word, ndoc FROM ts_stat('SELECT fts FROM rag.knowledge_chunks')"
        ).fetchall()
        counted = connection.execute(
            "SELECT max(chunk_count), (SELECT count(*) FROM rag.knowledge_chunks) FROM rag.lexeme_stats"
        ).fetchone()
    assert pages > 4
    assert rows == []
    assert counted == (240, 240)
