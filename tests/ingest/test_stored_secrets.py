"""An address that an early version stored with its secret is read as ever, and shown nowhere with it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import psycopg
import pytest

from rag_assets.ingest.forgetting import forget
from rag_assets.ingest.roots import move_root
from rag_assets.ingest.run import ingest
from rag_assets.retrieval import LexicalRetriever, open_scope
from rag_assets.sources.secrets import without_secrets
from rag_assets.store.database import Database
from rag_assets.store.overview import failed_sources
from rag_assets.store.promotion import list_events
from rag_assets.store.roots import add_root, list_roots
from rag_assets.store.source_life import Filter, find_sources, list_files, list_sources, source_life
from rag_assets.store.tenants import add_tenant
from tests.support.web_site import Page, Site, running_site

SECRET = "hunter2zq"
TEXT = "One pump, see https://wiki.example/page?key=PUMP for more."


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("RAG_ALLOW_PRIVATE_URLS", "1")
    with running_site() as running:
        yield running


@pytest.fixture
def stored(database: Database, site: Site) -> Database:
    """A bot whose addresses were stored with a password and a token in all that is called after them, as once could be.

    They are not read any more, and what was read of them is served on.
    """
    record = {"id": "1", "text": TEXT, "url": "https://shop.example/?key=PUMP"}
    site.pages["/page"] = Page(f"<p>{TEXT}".encode())
    site.pages["/all.jsonl"] = Page(json.dumps(record).encode(), headers={"Content-Type": "application/jsonl"})
    add_tenant(database, "acme", "support")
    for root in ("/page", "/all.jsonl"):
        add_root(database, "acme", "support", f"{site.url}{root}")
    ingest(database, "acme", "support", "hash-64")
    with_login = f"replace({{}}, '://localhost', '://user:{SECRET}@localhost')"
    with_both = f"replace({with_login}, 'all.jsonl', 'all.jsonl?token={SECRET}')"
    with psycopg.connect(database.url) as connection:
        for table, column in (("source_roots", "uri"), ("source_files", "uri"), ("knowledge_sources", "external_id")):
            connection.execute(f"UPDATE rag.{table} SET {column} = {with_both.format(column)}")
        for table, column in (("source_files", "uri"), ("knowledge_sources", "external_id")):
            connection.execute(
                f"UPDATE rag.{table} SET file_hash = sha256(convert_to(split_part({column}, '#', 1), 'UTF8'))"
            )
        connection.execute(
            "UPDATE rag.knowledge_sources SET name = external_id, canonical_url = external_id, "
            "metadata = metadata || jsonb_build_object("
            "'doc_id', external_id, 'rag:origin', jsonb_build_object('file', split_part(external_id, '#', 1)))"
        )
    return database


def test_no_search_shows_the_secret_and_links_of_documents_are_left_alone(stored: Database) -> None:
    found = LexicalRetriever(stored).search("pump", open_scope(stored, "acme", "support"), top_k=10)
    told = json.dumps([one.to_dict() for one in found], default=str)
    assert len(found) >= 1
    assert "***" in told
    assert SECRET not in told
    assert all(TEXT in one.content for one in found), "what a document says is not changed"


def test_no_listing_shows_the_secret(stored: Database) -> None:
    with stored.work("acme") as connection:
        sources = list_sources(connection, "acme", "support").sources
        told = [
            *sources,
            *list_files(connection, "acme", "support", Filter()),
            *(source_life(connection, one["source_id"]) for one in sources),
            *(vars(one) for one in failed_sources(connection, "acme", 100)),
            *(one.label for one in find_sources(connection, "acme", "support", "/page", "")),
            *(one.shown for one in list_roots(connection, "acme", "support")),
        ]
    assert len(sources) == 2
    assert "***" in str(told)
    assert SECRET not in str(told)


def test_no_report_and_no_event_shows_the_secret(stored: Database) -> None:
    report = ingest(stored, "acme", "support", "hash-64")
    assert len(report.sources.unreadable_roots) == 2
    with stored.work("acme") as connection:
        found = find_sources(connection, "acme", "support", "/page", "")
    forget(stored, "acme", "support", [one.id for one in found])
    with stored.work("acme") as connection:
        events = list_events(connection, "acme", "support", limit=10)
    assert any(event.event == "forgotten" for event in events)
    assert SECRET not in f"{report} {events}"


def test_the_root_is_moved_to_where_a_variable_stands_for_the_secret(
    stored: Database, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("USER", "PASSWORD"):
        monkeypatch.setenv(f"RAG_ROOT_{name}", SECRET)
    new = site.url.replace("://", "://{env:RAG_ROOT_USER}:{env:RAG_ROOT_PASSWORD}@") + "/page"
    with stored.work("acme") as connection:
        (old,) = [root for root in list_roots(connection, "acme", "support") if root.uri.endswith("/page")]
        before = {one["source_id"] for one in list_sources(connection, "acme", "support").sources}
    moved = move_root(stored, old, new)
    assert (moved.files, moved.missing) == (1, 0)
    with stored.work("acme") as connection:
        sources = list_sources(connection, "acme", "support").sources
    assert {one["source_id"] for one in sources} == before
    assert new in {one["external_id"] for one in sources}


def test_what_names_no_secret_is_left_as_it_is() -> None:
    told = {"url": "https://shop.example/?key=PUMP", "names": ["a", {"b": "https://x.example/?token=abcdef"}]}
    assert without_secrets(told, "https://shop.example/", None) is told
    hidden = without_secrets(told, "https://x.example/?token=abcdef")
    assert "abcdef" not in str(hidden)
    assert without_secrets("a?token=abcdef", "https://x.example/a?token=abcdef") == "a?token=***"
