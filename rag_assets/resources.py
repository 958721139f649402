"""Dagster resources: the database that the assets work on.

None takes anything from a run's configuration: who may start runs must not thereby choose a database or a folder, nor
have a variable of the environment read for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import Any

import dagster as dg
from dagster._core.definitions.resource_annotation import TreatAsResourceParam

from rag_assets.store.database import Database
from rag_assets.store.set_up import prepare

_ready: dict[str, Database] = {}
_one_at_a_time = Lock()
_shared: ContextVar[Database | None] = ContextVar("shared database", default=None)


@contextmanager
def sharing(database: Database) -> Iterator[None]:
    """The steps that run inside work on `database`, which is ready, over the connections that it keeps."""
    token = _shared.set(database)
    try:
        yield
    finally:
        _shared.reset(token)


class Postgres(TreatAsResourceParam):
    """The database of `url`, or else the one that `DATABASE_URL` or `RAG_HOME` name when it is asked for.

    Nothing is touched before `database()` is called, so that definitions load with no database at hand.
    """

    def __init__(self, url: str | None = None) -> None:
        self.url = url

    def database(self) -> Database:
        """The database, migrated to the current schema.

        One for each process and URL: each step asks for it, and all share its connections. Settings are read each
        time, and an embedded server that has been stopped is started.

        Raises:
            DatabaseUnavailable, DatabaseRefused: it cannot be reached or must not be used.
        """
        shared = _shared.get()
        if shared is not None and self.url in (None, shared.url):
            return shared
        database = Database(self.url, operator=True) if self.url else Database.from_settings(operator=True)
        with _one_at_a_time:
            if database.url not in _ready:
                prepare(database)
            return _ready.setdefault(database.url, database)


def fixed(value: Postgres | dg.IOManager) -> dg.ResourceDefinition:
    """`value` as a resource that no run can configure: a configuration of it is refused."""

    def give(_: dg.InitResourceContext) -> Any:
        return value

    kind = dg.IOManagerDefinition if isinstance(value, dg.IOManager) else dg.ResourceDefinition
    return kind(give, config_schema={})
