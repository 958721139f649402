"""A database that is ready for whatever comes: its schema, and the built-in profiles."""

from __future__ import annotations

from rag_assets.store.database import Database
from rag_assets.store.migrate import is_current, migrate
from rag_assets.store.profiles import seed_specs


def prepare(database: Database) -> None:
    """Set the database up unless it is there in its current schema.

    Raises:
        DatabaseUnavailable, DatabaseRefused: the server cannot be reached or must not be used.
    """
    if not is_current(database):
        set_up(database)


def set_up(database: Database) -> list[str]:
    """Make roles and grants, apply what is missing of the schema, and offer the built-in profiles; returns the ids of
    the migrations applied now. Safe to repeat."""
    applied = migrate(database)
    seed_specs(database)
    return applied
