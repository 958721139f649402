"""Which server a program of the settings searches, and one that brings its own URLs."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import rag_assets as rag
from rag_assets.errors import DatabaseRefused, InvalidArgument
from tests.support.command_line import Rag

URLS = {
    "DATABASE_URL": "postgresql://owner:zqxjk@primary/rag",
    "RAG_APP_DATABASE_URL": "postgresql://app:zqxjk@primary/rag",
    "RAG_SEARCH_DATABASE_URL": "postgresql://app:zqxjk@one,two/rag?target_session_attrs=prefer-standby&connect_timeout=2",
}


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> rag.Settings:
    for name, url in URLS.items():
        monkeypatch.setenv(name, url)
    return rag.Settings()


def test_an_application_searches_on_the_replica_and_an_operator_where_things_are_built(settings: rag.Settings) -> None:
    application, operator = rag.Database.from_settings(settings), rag.Database.from_settings(settings, operator=True)
    assert application.search_url == URLS["RAG_SEARCH_DATABASE_URL"]
    assert operator.search_url is None
    assert rag.Database.from_settings(settings, operator=True, on_replica=True).search_url is not None
    own = rag.Database(URLS["DATABASE_URL"], search_url=URLS["RAG_SEARCH_DATABASE_URL"])
    assert own.search_url == application.search_url


def test_a_timeout_of_the_url_is_kept_and_another_one_is_half_a_minute(settings: rag.Settings) -> None:
    database = rag.Database.from_settings(settings)
    waits = [conninfo_to_dict(database._entry(role).url)["connect_timeout"] for role in ("search", "app")]
    assert [int(wait) for wait in waits] == [2, 30]


def test_the_config_shows_the_replica_without_its_password(settings: rag.Settings) -> None:
    shown = {one["name"]: one for one in Rag().json("config")["settings"]}["RAG_SEARCH_DATABASE_URL"]
    assert shown["source"] == "environment"
    assert shown["value"].startswith("postgresql://app:***@one,two/rag")
    assert "zqxjk" not in Rag()("config").stdout


def test_a_search_url_that_is_none_is_named() -> None:
    with pytest.raises(InvalidArgument, match="search_url"):
        rag.Database(URLS["DATABASE_URL"], search_url="mysql://replica/rag")


def test_a_server_that_is_no_replica_and_behind_says_which_setting_named_it_and_what_it_lacks(
    new_database: Callable[[], rag.Database],
) -> None:
    behind = new_database()
    searching = make_conninfo(behind.url, user="rag_app_login")
    primary = new_database()
    with psycopg.connect(behind.url, autocommit=True) as owner:
        owner.execute("DELETE FROM rag._yoyo_migration WHERE migration_id >= '0055'")
    for lacks in (
        r"version: it lacks 0055\..*, 0056\..*, and it is no",
        "version, and it is no",
    ):
        late = rag.Database(primary.url, search_url=searching)
        with pytest.raises(DatabaseRefused, match=f"schema of this {lacks} replica.*Let search_url name a replica"):
            rag.open_scope(late, tenant="acme", bot="b")
        late.close()
        with psycopg.connect(behind.url, autocommit=True) as owner:
            owner.execute("DROP SCHEMA IF EXISTS rag CASCADE")
    behind.close()
    primary.close()
