"""Dagster resources: the database that the assets work on."""

from __future__ import annotations

import dagster as dg

from rag_assets.store.database import Database
from rag_assets.store.migrate import is_current, migrate
from rag_assets.store.profiles import seed_specs

_prepared: set[str] = set()


class Postgres(dg.ConfigurableResource[None]):
    """The database of `url`, or else the one that `DATABASE_URL` or `RAG_HOME` name when it is asked for.

    Nothing is touched before `database()` is called, so that definitions load with no database at hand.
    """

    url: str | None = None

    def database(self) -> Database:
        """The database, migrated to the current schema.

        The schema is looked at once per process and URL: each step asks for the database.

        Raises:
            DatabaseUnavailable, DatabaseRefused: it cannot be reached or must not be used.
        """
        database = Database(self.url) if self.url else Database.from_settings()
        if database.url not in _prepared:
            prepare(database)
            _prepared.add(database.url)
        return database


def prepare(database: Database) -> None:
    """Apply the migrations that are missing, if any, and offer the built-in profiles."""
    if not is_current(database):
        migrate(database)
        seed_specs(database)
