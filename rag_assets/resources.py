"""Dagster resources: the database that the assets work on."""

from __future__ import annotations

from threading import Lock

import dagster as dg

from rag_assets.ingest.start import prepare
from rag_assets.store.database import Database

_ready: dict[str, Database] = {}
_one_at_a_time = Lock()


def share(database: Database) -> None:
    """Let the steps of this process work on `database`, which is ready, over the connections that it keeps."""
    _ready[database.url] = database


class Postgres(dg.ConfigurableResource[None]):
    """The database of `url`, or else the one that `DATABASE_URL` or `RAG_HOME` name when it is asked for.

    Nothing is touched before `database()` is called, so that definitions load with no database at hand.
    """

    url: str | None = None

    def database(self) -> Database:
        """The database, migrated to the current schema.

        One for each process and URL: each step asks for it, and all share its connections.

        Raises:
            DatabaseUnavailable, DatabaseRefused: it cannot be reached or must not be used.
        """
        database = Database(self.url) if self.url else Database.from_settings()
        with _one_at_a_time:
            if database.url not in _ready:
                prepare(database)
                share(database)
            return _ready[database.url]
