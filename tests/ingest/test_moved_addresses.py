"""A root on the web, or in an object store, that has moved keeps its sources, as a folder does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import fsspec
import psycopg
import pytest

from rag_assets.automation.pending import look_at
from rag_assets.errors import RootMoved, RootUnreadable, UsageError
from rag_assets.ingest.roots import Moved, find_root, move_root, refuse_moves
from rag_assets.ingest.run import IngestReport, ingest
from rag_assets.sources import addresses
from rag_assets.store.database import Database
from rag_assets.store.roots import add_root, list_roots
from rag_assets.store.tenants import add_tenant
from tests.support.web_site import Page, Site, running_site

PAGES = {"/docs/pump": "The red pump.", "/docs/valve?v=2": "The blue valve.", "/hose": "The hose."}


@pytest.fixture
def old_site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("RAG_ALLOW_PRIVATE_URLS", "1")
    with running_site() as running:
        yield running


@pytest.fixture
def new_site(old_site: Site) -> Iterator[Site]:
    with running_site() as running:
        yield running


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A store in this process, as if it were among those that are read."""
    monkeypatch.setattr(addresses, "STORES", addresses.STORES | {"memory"})
    store = fsspec.filesystem("memory")
    yield store
    for bucket in ("/old", "/new"):
        if store.exists(bucket):
            store.rm(bucket, recursive=True)


def fill(site: Site, pages: dict[str, str] = PAGES, sitemap: str = "/sitemap.xml") -> str:
    """Serve these pages and a sitemap of them; returns the address of that."""
    listed = "".join(f"<url><loc>{site.url}{path.replace('&', '&amp;')}</loc></url>" for path in pages)
    site.pages = {path: Page(f"<p>{text}".encode(), headers={"ETag": '"1"'}) for path, text in pages.items()}
    site.pages[sitemap] = Page(f"<urlset>{listed}</urlset>".encode())
    return f"{site.url}{sitemap}"


def start(database: Database, root: str) -> None:
    add_tenant(database, "acme", "support")
    add_root(database, "acme", "support", root)
    again(database)


def again(database: Database) -> IngestReport:
    return ingest(database, "acme", "support", "hash-64")


def move(database: Database, old: str, new: str) -> Moved:
    with database.work("acme") as connection:
        root = find_root(connection, "acme", "support", old)
    return move_root(database, root, new)


def stored(database: Database) -> list[tuple[Any, ...]]:
    """Id, address and name of each source."""
    with psycopg.connect(database.url) as connection:
        return connection.execute(
            "SELECT id, external_id, name, canonical_url FROM rag.knowledge_sources "
            "WHERE status <> 'deleted' ORDER BY 1"
        ).fetchall()


def served(database: Database) -> list[tuple[Any, ...]]:
    with psycopg.connect(database.url) as connection:
        return connection.execute("SELECT id, content, embedding::text FROM rag.knowledge_chunks ORDER BY 1").fetchall()


def roots(database: Database) -> list[str]:
    with database.work("acme") as connection:
        return [root.uri for root in list_roots(connection, "acme", "support")]


@pytest.mark.parametrize("sitemap", ["/sitemap.xml", "/maps/sitemap.xml"], ids=["same place", "another place"])
def test_a_site_that_moves_to_another_host_keeps_ids_and_chunks_and_nothing_is_embedded_again(
    database: Database, old_site: Site, new_site: Site, sitemap: str
) -> None:
    old = fill(old_site)
    start(database, old)
    before, chunks = stored(database), served(database)
    assert len(chunks) == len(PAGES)
    new = fill(new_site, sitemap=sitemap)
    old_site.pages.clear()

    moved = move(database, old, new)

    assert (moved.files, moved.missing, moved.sources, moved.replaced) == (3, 0, 3, 0)
    after = stored(database)
    assert [row[0] for row in after] == [row[0] for row in before]
    assert [row[1] for row in after] == [row[1].replace(old_site.url, new_site.url) for row in before]
    assert old_site.url not in str(after), "an address that is gone is still shown"
    assert (served(database), roots(database)) == (chunks, [new])
    report = again(database)
    assert (report.sources.changes, report.embeddings.embedded, report.sources.held) == (0, 0, [])
    assert served(database) == chunks
    new_site.pages["/hose"] = Page(b"<p>The new hose.", headers={"ETag": '"2"'})
    report = again(database)
    assert (report.sources.changed, report.publication.chunks_written) == (1, 1)
    assert [row[0] for row in stored(database)] == [row[0] for row in before], "a new version is of the same source"
    assert look_at(database, "acme").works == []


def test_a_single_page_that_moves_is_the_same_source(database: Database, old_site: Site, new_site: Site) -> None:
    fill(old_site), fill(new_site)
    start(database, f"{old_site.url}/hose")
    ((source, _, _, _),), chunks = stored(database), served(database)
    new = f"{new_site.url}/docs/pump"
    new_site.pages["/docs/pump"] = old_site.pages["/hose"]
    moved = move(database, f"{old_site.url}/hose", new)
    assert (moved.files, moved.missing) == (1, 0)
    ((same, address, _, _),) = stored(database)
    assert (same, address) == (source, new)
    assert (again(database).embeddings.embedded, served(database)) == (0, chunks)


def test_pages_that_did_not_move_along_are_gone_with_the_next_scan(
    database: Database, old_site: Site, new_site: Site
) -> None:
    old = fill(old_site)
    start(database, old)
    new = fill(new_site, {path: text for path, text in PAGES.items() if path != "/hose"})
    moved = move(database, old, new)
    assert (moved.files, moved.missing) == (2, 1)
    assert len(served(database)) == 3, "what is not there yet stays until a scan has missed it"
    assert again(database).sources.deleted == 1
    assert len(served(database)) == 2


@pytest.mark.parametrize("new", ["another site", "no site"])
def test_a_place_without_the_pages_is_no_move_and_nothing_is_changed(
    database: Database, old_site: Site, new_site: Site, new: str
) -> None:
    old = fill(old_site)
    start(database, old)
    before, chunks = stored(database), served(database)
    address = fill(new_site, {"/other": "Other."})
    if new == "no site":
        new_site.pages.clear()
    with pytest.raises(UsageError if new == "another site" else RootUnreadable):
        move(database, old, address)
    assert (stored(database), served(database), roots(database)) == (before, chunks, [old])


def test_a_bucket_that_moves_keeps_ids_and_chunks(database: Database, memory: Any) -> None:
    files = {"a.md": b"The red pump.", "sub/b c.txt": b"The blue valve.", "d.jsonl": b'{"id": "1", "text": "Hose."}'}
    memory.pipe({f"/old/docs/{name}": data for name, data in files.items()})
    start(database, "memory://old/docs")
    before, chunks = stored(database), served(database)
    memory.pipe({f"/new/archive/{name}": data for name, data in files.items()})
    memory.rm("/old", recursive=True)
    moved = move(database, "memory://old/docs", "memory://new/archive")
    assert (moved.files, moved.missing, moved.sources) == (3, 0, 3)
    after = stored(database)
    assert [(row[0], row[1].replace("new/archive", "old/docs")) for row in after] == [row[:2] for row in before]
    report = again(database)
    assert (report.embeddings.embedded, report.sources.deleted) == (0, 0)
    assert (served(database), roots(database)) == (chunks, ["memory://new/archive"])


def test_a_bucket_read_at_its_new_place_is_offered_as_a_move(database: Database, memory: Any) -> None:
    memory.pipe({"/old/a.md": b"The red pump.", "/old/b.md": b"The blue valve."})
    start(database, "memory://old")
    memory.pipe({"/new/a.md": b"The red pump.", "/new/b.md": b"The blue valve."})
    memory.rm("/old", recursive=True)
    with pytest.raises(RootMoved, match=r"rag root move memory://old memory://new"):
        refuse_moves(database, "acme", "support", ["memory://new"])


def test_a_site_at_a_new_host_is_offered_as_a_move(database: Database, old_site: Site, new_site: Site) -> None:
    start(database, fill(old_site))
    new = fill(new_site)
    old_site.pages.clear()
    with pytest.raises(RootMoved, match=r"rag root move http://localhost:\d+/sitemap.xml"):
        refuse_moves(database, "acme", "support", [new])
