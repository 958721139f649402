"""The database of a command, made ready on the way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rag_assets.ingest.start import prepare
from rag_assets.settings import Settings, load_settings
from rag_assets.store.database import Database


@contextmanager
def ready_database(settings: Settings | None = None) -> Iterator[Database]:
    """The database with its schema and built-in profiles in place, whatever it was before; closed at the end.

    Raises:
        InvalidArgument: `DATABASE_URL` is no connection URL.
        DatabaseUnavailable, DatabaseRefused: the server cannot be used.
    """
    database = Database.from_settings(settings or load_settings(), operator=True)
    try:
        prepare(database)
        yield database
    finally:
        database.close()
