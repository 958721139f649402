"""The database of a command, made ready on the way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from rag_assets.errors import UsageError
from rag_assets.ingest.start import prepare
from rag_assets.settings import Settings, load_settings
from rag_assets.store.database import Database


@contextmanager
def ready_database(settings: Settings | None = None) -> Iterator[Database]:
    """The database with its schema and built-in profiles in place, whatever it was before; closed at the end.

    Raises:
        UsageError: `DATABASE_URL` is no connection URL.
        DatabaseUnavailable, DatabaseRefused: the server cannot be used.
    """
    database = connect(settings or load_settings())
    try:
        prepare(database)
        yield database
    finally:
        database.close()


def connect(settings: Settings) -> Database:
    """The database as it is; an embedded server is started."""
    if settings.database_url:
        try:
            psycopg.conninfo.conninfo_to_dict(settings.database_url)
        except psycopg.ProgrammingError as error:
            raise UsageError(f"DATABASE_URL is no connection URL: {str(error).strip()}") from error
    return Database.from_settings(settings)
