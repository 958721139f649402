"""Tenants that are erased, and what is left of them."""

from __future__ import annotations

from collections.abc import Mapping

from rag_assets.retrieval import LexicalRetriever, open_scope
from rag_assets.store.database import Database
from rag_assets.store.erase import erasable

FILES = {
    "pump.md": "# Pump\n\nThe PX-4412 cuts in at 1.8 bar.\n",
    "returns.txt": "Thirty days to return goods.\n",
}


def rows_by_table(database: Database) -> dict[str, int]:
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


def holding(database: Database, tenant: str, bot: str | None = None) -> Mapping[str, int]:
    return {table: count for table, count in erasable(database, tenant, bot).items() if count}


def partitions_of_profiles(database: Database) -> set[str]:
    with database.connect() as connection:
        rows = connection.execute("SELECT relname FROM pg_class WHERE relname ~ '^knowledge_chunks_p[0-9]+$'")
        return {row[0] for row in rows}


def finds(database: Database, tenant: str, bot: str) -> int:
    scope = open_scope(database, tenant, bot)
    return len(LexicalRetriever(database).search("PX-4412", scope))
