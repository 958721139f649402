"""Statistics of tables that hold the rows of all tenants."""

from __future__ import annotations

from pathlib import Path

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
