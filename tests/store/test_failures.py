"""What is wrong with a database is told truly, with the setting and the way out, and is not tried again in vain."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from rag_assets.errors import DatabaseRefused, DatabaseUnavailable, InvalidArgument, UsageError
from rag_assets.retrieval import aopen_scope, open_scope
from rag_assets.settings import Settings
from rag_assets.store.database import Database
from rag_assets.store.migrate import migrate
from rag_assets.store.server import start_server, stop_server
from rag_assets.store.tenants import list_tenants
from tests.support.command_line import Rag


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mysql://ann:secret-word@host/db", "begins with mysql:// and has to name a PostgreSQL server"),
        ("mongodb+srv://ann:secret-word@host/db", r"begins with mongodb\+srv://"),
        ("sqlite:///secret-word.db", "begins with sqlite://"),
        ("https://ann:secret-word@host/", "begins with https://"),
        ("postgresql+psycopg2://ann:secret-word@host/db", r"is in SQLAlchemy's form: leave \+psycopg2 out"),
        ("postgresql://ann:secret-word@host:port/db", "write it as postgresql://user:password@host/database"),
        ("postgresql://ann:secret-word@host:99999/db", "write it as postgresql://user:password@host/database"),
    ],
)
@pytest.mark.parametrize("variable", ["DATABASE_URL", "RAG_APP_DATABASE_URL", "RAG_INGEST_DATABASE_URL"])
def test_a_url_of_another_kind_is_wrong_use_and_named_without_its_password(
    monkeypatch: pytest.MonkeyPatch, variable: str, url: str, says: str
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://127.0.0.1:1/x")
    monkeypatch.setenv(variable, url)
    with pytest.raises(UsageError, match=f"{variable} (is no connection URL; )?{says}") as refused:
        Database.from_settings()
    assert "secret-word" not in str(refused.value)
    with pytest.raises(InvalidArgument, match=f"url (is no connection URL; )?{says}"):
        Database(url)
    assert variable in Rag().error("up", code=2)[1]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"dbname": "nowhere"}, 'database "nowhere" does not exist'),
        ({"user": "nobody-here"}, 'role "nobody-here" does not exist'),
        ({"user": "rag_app"}, "is not permitted to log in"),
    ],
)
def test_a_wrong_database_or_login_is_refused_at_once_and_names_the_setting(
    database: Database, monkeypatch: pytest.MonkeyPatch, change: dict[str, str], says: str
) -> None:
    monkeypatch.setenv("DATABASE_URL", make_conninfo(database.url, **change))  # type: ignore[arg-type]
    wrong = Database.from_settings()
    for work in (
        lambda: open_scope(wrong, "acme", "support"),
        lambda: asyncio.run(aopen_scope(wrong, "acme", "support")),
        lambda: list_tenants(wrong),
        lambda: wrong.connect(),
    ):
        started = time.monotonic()
        with pytest.raises(DatabaseRefused, match=f"{says}.*look at DATABASE_URL"):
            work()
        assert time.monotonic() - started < 30
    wrong.close()


@pytest.mark.parametrize("role", ["ingest", "owner"])
def test_a_missing_grant_is_told_as_such_with_the_statement(database: Database, role: str) -> None:
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute("CREATE ROLE plainer LOGIN")
    try:
        plain = Database(make_conninfo(database.url, user="plainer"))
        with pytest.raises(DatabaseRefused, match=f"GRANT rag_{role} TO") as refused:
            list_tenants(plain) if role == "ingest" else plain.connect("owner")
        assert "cannot connect" not in str(refused.value)
        plain.close()
    finally:
        with psycopg.connect(database.url, autocommit=True) as connection:
            connection.execute("DROP ROLE plainer")


def test_a_server_that_is_away_is_told_with_its_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://ann:secret-word@127.0.0.1:1/rag")
    kind, message = Rag().error("usage", "--tenant", "acme", code=1)
    assert kind == "DatabaseUnavailable"
    assert "is DATABASE_URL right?" in message
    assert "secret-word" not in message


@pytest.mark.slow
def test_a_server_that_is_stopped_under_a_search_is_told_with_its_reason_and_what_starts_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    database = Database.from_settings(Settings(home=tmp_path))
    with pytest.raises(DatabaseRefused, match="rag up"):
        open_scope(database, "acme", "support")
    from_up = Database.from_settings(Settings(home=tmp_path))
    migrate(from_up)
    with pytest.raises(Exception, match="no bot 'support'"):
        open_scope(database, "acme", "support")
    assert stop_server(tmp_path)
    with pytest.raises(DatabaseUnavailable, match=r"Start it with: rag up") as away:
        open_scope(database, "acme", "support")
    assert "couldn't get a connection" not in str(away.value)
    assert capfd.readouterr().err == ""
    assert start_server(tmp_path)
    with pytest.raises(Exception, match="no bot 'support'"):
        open_scope(database, "acme", "support")
    database.close()
    stop_server(tmp_path)
    assert conninfo_to_dict(database.url)["dbname"] == "rag"
