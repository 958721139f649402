"""Web pages as roots: what is asked for again, what is read, and what is taken for gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from rag_assets.automation.pending import look_at
from rag_assets.ingest.run import IngestReport, ingest
from rag_assets.ingest.sources import sync_sources
from rag_assets.store.database import Database
from rag_assets.store.roots import add_root
from rag_assets.store.tenants import add_tenant
from tests.support.web_site import Page, Site, running_site


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("RAG_ALLOW_PRIVATE_URLS", "1")
    with running_site() as running:
        yield running


def _start(database: Database, root: str) -> IngestReport:
    add_tenant(database, "acme", "support")
    add_root(database, "acme", "support", root)
    return _again(database)


def _again(database: Database) -> IngestReport:
    return ingest(database, "acme", "support", "hash-64")


def _contents(database: Database) -> list[str]:
    with psycopg.connect(database.url) as connection:
        rows = connection.execute("SELECT content FROM rag.knowledge_chunks WHERE tenant_id = 'acme' ORDER BY content")
        return [row[0] for row in rows]


def test_a_page_that_has_not_changed_is_not_downloaded_again(database: Database, site: Site) -> None:
    site.pages["/page"] = Page(b"<p>One pump", headers={"ETag": '"1"'})
    assert _start(database, f"{site.url}/page").sources.changed == 1
    site.sent.clear()
    report = _again(database)
    assert (report.sources.unchanged, report.sources.changes, site.sent) == (1, 0, [])
    site.pages["/page"] = Page(b"<p>Two pumps", headers={"ETag": '"2"'})
    assert _again(database).sources.changed == 1
    assert _contents(database) == ["Two pumps"]
    site.sent.clear()
    assert _again(database).sources.changes == 0
    assert site.sent == []


def test_a_site_is_asked_by_runs_alone_and_makes_no_work_before_it_is_due(database: Database, site: Site) -> None:
    site.pages["/page"] = Page(b"<p>One pump")
    _start(database, f"{site.url}/page")
    site.pages["/page"] = Page(b"<p>Two pumps")
    site.sent.clear()
    assert look_at(database, "acme").works == []
    assert site.sent == []


def test_the_declared_type_and_charset_reach_the_parser(database: Database, site: Site) -> None:
    site.pages["/odd.txt"] = Page(
        "<p>żółw</p>".encode("iso-8859-2"), headers={"Content-Type": "text/html; charset=iso-8859-2"}
    )
    _start(database, f"{site.url}/odd.txt")
    assert _contents(database) == ["żółw"]


def test_pages_come_and_go_with_the_sitemap(database: Database, site: Site) -> None:
    def sitemap(*paths: str) -> Page:
        return Page(f"<urlset>{''.join(f'<url><loc>{site.url}{path}</loc></url>' for path in paths)}</urlset>".encode())

    site.pages |= {"/sitemap.xml": sitemap("/a", "/b"), "/a": Page(b"<p>Page a"), "/b": Page(b"<p>Page b")}
    assert _start(database, f"{site.url}/sitemap.xml").sources.changed == 2
    assert _again(database).sources.changes == 0
    site.pages["/sitemap.xml"] = sitemap("/b", "/c")
    site.pages["/c"] = Page(b"<p>Page c")
    report = _again(database).sources
    assert (report.changed, report.deleted) == (1, 1)
    assert _contents(database) == ["Page b", "Page c"]
    site.pages["/sitemap.xml"] = Page(status=500)
    report = _again(database).sources
    assert (report.deleted, len(report.unreadable_roots)) == (0, 1)


def test_files_of_this_machine_are_read_before_a_site_is_asked(database: Database, site: Site, root: Path) -> None:
    seen: list[list[tuple[object, ...]]] = []

    def slow() -> Page:
        with psycopg.connect(database.url) as connection:
            seen.append(connection.execute("SELECT name FROM rag.knowledge_sources").fetchall())
        return Page(b"<p>One pump")

    site.pages["/page"] = slow
    (root / "a.txt").write_text("One valve.")
    add_tenant(database, "acme", "support")
    add_root(database, "acme", "support", f"{site.url}/page")
    add_root(database, "acme", "support", str(root))
    _again(database)
    assert seen[0] == [("a.txt",)]
    assert _contents(database) == ["One pump", "One valve."]


def test_a_run_for_a_file_asks_no_site_that_is_not_due(database: Database, site: Site, root: Path) -> None:
    site.pages["/page"] = Page(b"<p>One pump")
    _start(database, f"{site.url}/page")
    add_root(database, "acme", "support", str(root))
    (root / "a.txt").write_text("One valve.")
    (work,) = look_at(database, "acme").works
    assert (work.profile, work.lane) == (None, "quick"), "it waits for nobody else's server"
    site.asked.clear()
    report = sync_sources(database, "acme", due_only=True)
    assert (report.changed, report.deleted, report.roots, site.asked) == (1, 0, 1, [])
    with psycopg.connect(database.url) as connection:
        connection.execute("UPDATE rag.source_roots SET next_scan_at = now() WHERE next_scan_at IS NOT NULL")
    (work,) = [one for one in look_at(database, "acme").works if one.profile is None]
    assert work.lane == "outside"
    site.pages["/page"] = Page(b"<p>Two pumps")
    report = sync_sources(database, "acme", due_only=True)
    assert (report.changed, report.roots) == (1, 2)
    site.asked.clear()
    sync_sources(database, "acme")
    assert site.asked != [], "who asks for it has all roots scanned"


@pytest.mark.parametrize(
    "headers",
    [
        {"Last-Modified": "Fri, 31 Dec 9999 23:59:59 GMT"},
        {"Last-Modified": "Mon, 01 Jan 0001 00:00:00 GMT"},
        {"Content-Length": "99999999999999999999"},
    ],
)
@pytest.mark.parametrize("lastmod", ["", "9999-12-31", "0001-01-01"])
def test_a_page_that_tells_an_impossible_size_or_time_keeps_no_other_from_being_read(
    database: Database, site: Site, headers: dict[str, str], lastmod: str
) -> None:
    site.pages["/good"], site.pages["/odd"] = Page(b"<p>One pump"), Page(b"<p>Two pumps", headers=headers)
    entries = f"<url><loc>{site.url}/good</loc></url><url><loc>{site.url}/odd</loc><lastmod>{lastmod}</lastmod></url>"
    site.pages["/sitemap.xml"] = Page(f"<urlset>{entries}</urlset>".encode())
    _start(database, f"{site.url}/sitemap.xml")
    assert "One pump" in _contents(database)
    site.pages["/good"] = Page(b"<p>Three pumps")
    _again(database)
    assert "Three pumps" in _contents(database)
    assert look_at(database, "acme").works == []
