"""A user of `DATABASE_URL` that is no superuser can run everything."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from rag_assets.errors import DatabaseRefused
from rag_assets.retrieval import HybridRetriever, open_scope
from rag_assets.store.database import Database, with_database
from rag_assets.store.erase import erase
from rag_assets.store.migrate import is_current, migrate
from rag_assets.store.profiles import seed_specs
from rag_assets.store.server import start_server, stop_server
from tests.support.worlds import ingested

pytestmark = pytest.mark.slow  # roles belong to the server, so it needs one of its own


def test_the_owner_of_a_database_who_may_create_roles_needs_no_superuser(tmp_path: Path) -> None:
    home = tmp_path / "server"
    admin = start_server(home)
    try:
        with psycopg.connect(admin, autocommit=True) as connection:
            connection.execute("CREATE ROLE plain LOGIN CREATEROLE CREATEDB")
            connection.execute("CREATE DATABASE plain OWNER plain")
        database = Database(psycopg.conninfo.make_conninfo(with_database(admin, "plain"), user="plain"))
        assert not is_current(database)
        with pytest.raises(DatabaseRefused, match="extension vector"):
            migrate(database)
        with psycopg.connect(with_database(admin, "plain"), autocommit=True) as connection:
            connection.execute("CREATE EXTENSION vector")  # not trusted: a superuser installs it
        migrate(database)
        assert is_current(database)
        seed_specs(database)
        ingested(database, tmp_path / "docs", "acme", {"a.md": "The main valve is red."}, profile="static-64")
        with pytest.raises(DatabaseRefused, match="may become rag_owner, which owns the tables"):
            open_scope(database, "acme", "support")
        with psycopg.connect(database.url, autocommit=True) as connection:
            connection.execute("CREATE ROLE searching LOGIN IN ROLE rag_app")
        app = Database(database.url, psycopg.conninfo.make_conninfo(database.url, user="searching"))
        assert len(HybridRetriever(app).search("valve", open_scope(app, "acme", "support"))) == 1
        operator = Database(database.url, operator=True)
        assert len(HybridRetriever(operator).search("valve", open_scope(operator, "acme", "support"))) == 1
        app.close()
        operator.close()
        erase(database, "acme")
        database.close()
    finally:
        stop_server(home)
