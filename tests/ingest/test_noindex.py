"""Pages that ask not to be indexed are left out, as robots.txt would have it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from rag_assets.automation.pending import look_at
from rag_assets.ingest.run import IngestReport, ingest
from rag_assets.ingest.staging import read_file
from rag_assets.sources.listing import NOINDEX
from rag_assets.sources.options import RootOptions
from rag_assets.sources.scan import scan_root
from rag_assets.store.database import Database
from rag_assets.store.roots import add_root
from rag_assets.store.tenants import add_tenant
from tests.support.web_site import Page, Site, running_site


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("RAG_ALLOW_PRIVATE_URLS", "1")
    with running_site() as running:
        yield running


def _again(database: Database) -> IngestReport:
    return ingest(database, "acme", "support", "hash-64")


def _served(database: Database) -> list[str]:
    with psycopg.connect(database.url) as connection:
        return [row[0] for row in connection.execute("SELECT content FROM rag.knowledge_chunks ORDER BY content")]


def _meta(content: str, name: str = "robots") -> Page:
    return Page(f'<html><head><meta content="{content}" name={name}></head><p>Not for robots'.encode())


def _header(value: str) -> Page:
    return Page(b"<p>Not for robots", headers={"X-Robots-Tag": value})


ASKING = [
    *(_meta(content) for content in ("noindex", "NOINDEX, nofollow", "none", "nofollow,noindex")),
    _meta("noindex", "ROBOTS"),
    _meta("noindex", "rag-assets"),
    *(_header(value) for value in ("noindex", "nofollow, NoIndex", "none", "rag-assets: noindex")),
    _header("unavailable_after: 25 Jun 2040 15:00:00 PST, noindex"),
]
NOT_ASKING = [
    *(_meta(content) for content in ("index, follow", "nofollow", "noarchive")),
    _meta("noindex", "googlebot"),
    *(_header(value) for value in ("nofollow", "googlebot: noindex", "max-snippet: 10")),
    Page(b"<!-- <meta name=robots content=noindex> --><p>Not for robots"),
]


@pytest.mark.parametrize("page", ASKING)
def test_a_page_that_asks_not_to_be_indexed_is_left_out_unless_the_root_says_otherwise(site: Site, page: Page) -> None:
    site.pages["/page"] = page
    url = f"{site.url}/page"
    for file in scan_root(url).files:
        assert read_file(file, None).left_out
    (file,) = scan_root(url, options=RootOptions(noindex=True)).files
    assert read_file(file, None).records[0].document is not None


@pytest.mark.parametrize("page", NOT_ASKING)
def test_other_words_for_robots_leave_nothing_out(site: Site, page: Page) -> None:
    site.pages["/page"] = page
    (file,) = scan_root(f"{site.url}/page").files
    assert read_file(file, None).records[0].document is not None


@pytest.mark.parametrize("asking", [_meta("noindex"), _header("noindex")], ids=["meta", "header"])
@pytest.mark.parametrize("root", ["/page", "/sitemap.xml"])
def test_a_page_that_comes_to_ask_goes_away_and_makes_no_more_work(
    database: Database, site: Site, asking: Page, root: str
) -> None:
    listed = f"<urlset><url><loc>{site.url}/page</loc></url></urlset>".encode()
    site.pages |= {"/page": Page(b"<p>One pump"), "/sitemap.xml": Page(listed)}
    add_tenant(database, "acme", "support")
    add_root(database, "acme", "support", f"{site.url}{root}")
    _again(database)
    assert _served(database) == ["One pump"]
    site.pages["/page"] = asking
    report = _again(database)
    assert (report.sources.deleted, report.sources.skipped) == (1, {NOINDEX: 1})
    assert _served(database) == []
    for _ in range(2):
        assert look_at(database, "acme").works == []
        report = _again(database)
        assert (report.sources.changes, report.sources.skipped) == (0, {NOINDEX: 1})
    site.pages["/page"] = Page(b"<p>Two pumps")
    _again(database)
    assert _served(database) == ["Two pumps"]


@pytest.mark.parametrize("asking", [_meta("noindex"), _header("noindex")], ids=["meta", "header"])
def test_pages_that_ask_for_it_are_counted_from_the_first_scan_on(database: Database, site: Site, asking: Page) -> None:
    listed = "".join(f"<url><loc>{site.url}/{name}</loc></url>" for name in ("one", "two", "three"))
    site.pages |= {"/one": asking, "/two": Page(b"<p>One pump"), "/three": asking}
    site.pages["/sitemap.xml"] = Page(f"<urlset>{listed}</urlset>".encode())
    add_tenant(database, "acme", "support")
    add_root(database, "acme", "support", f"{site.url}/sitemap.xml")
    for _ in range(3):
        assert _again(database).sources.skipped == {NOINDEX: 2}


SERVED = b"<html><head><title>Pumps</title></head><p>One pump"


@pytest.mark.parametrize("told", [{}, {"ETag": '"1"'}], ids=["no validator", "the same ETag"])
def test_a_page_whose_bytes_stay_goes_away_when_its_server_comes_to_ask(
    database: Database, site: Site, told: dict[str, str]
) -> None:
    site.pages["/page"] = Page(SERVED, headers=told)
    add_tenant(database, "acme", "support")
    add_root(database, "acme", "support", f"{site.url}/page")
    _again(database)
    assert _served(database) == ["One pump"]
    site.pages["/page"] = Page(SERVED, headers={**told, "X-Robots-Tag": "noindex"})
    _again(database)
    assert _served(database) == []
    site.pages["/page"] = Page(SERVED, headers=told)
    _again(database)
    assert _served(database) == ["One pump"]


ASKS_IN_META = b"<html><head><meta name=robots content=noindex></head><p>One pump"
HOW_IT_ASKS = {
    "meta": Page(ASKS_IN_META),
    "meta, the same ETag": Page(ASKS_IN_META, headers={"ETag": '"1"'}),
    "header": Page(SERVED, headers={"X-Robots-Tag": "noindex"}),
    "header, the same ETag": Page(SERVED, headers={"X-Robots-Tag": "noindex", "ETag": '"1"'}),
}


@pytest.mark.parametrize("page", HOW_IT_ASKS.values(), ids=HOW_IT_ASKS)
@pytest.mark.parametrize("root", ["/page", "/sitemap.xml"])
def test_an_option_of_a_root_that_is_known_holds_for_pages_that_have_not_changed(
    database: Database, site: Site, page: Page, root: str
) -> None:
    listed = f"<urlset><url><loc>{site.url}/page</loc><lastmod>2020-01-01</lastmod></url></urlset>".encode()
    site.pages |= {"/page": page, "/sitemap.xml": Page(listed)}
    add_tenant(database, "acme", "support")
    for noindex, served in ((True, ["One pump"]), (False, []), (True, ["One pump"]), (False, [])):
        add_root(database, "acme", "support", f"{site.url}{root}", {"noindex": noindex})
        _again(database)
        assert _served(database) == served
        sent = len(site.sent)
        assert _again(database).sources.changes == 0
        assert site.sent[sent:].count("/page") <= 2, "looked at, and compared, as any page that tells no version"


def test_another_encoding_of_a_root_that_is_known_holds_for_files_that_have_not_changed(
    database: Database, root: Path
) -> None:
    (root / "a.txt").write_bytes("Привет, мир".encode("koi8-r"))
    add_tenant(database, "acme", "support")
    add_root(database, "acme", "support", str(root), {"encoding": "cp866"})
    _again(database)
    assert _served(database) != ["Привет, мир"]
    add_root(database, "acme", "support", str(root), {"encoding": "koi8-r"})
    assert look_at(database, "acme").works != []
    _again(database)
    assert _served(database) == ["Привет, мир"]
    assert look_at(database, "acme").works == []
    add_root(database, "acme", "support", str(root), {"encoding": "koi8-r", "max_loss_percent": 20})
    assert look_at(database, "acme").works == [], "what does not matter to reading has nothing read again"


def test_a_file_of_ones_own_is_read_whatever_it_says_to_robots(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_bytes(_meta("noindex").body)
    (file,) = scan_root(str(tmp_path)).files
    assert read_file(file, None).records[0].document is not None


def test_the_encoding_of_a_root_holds_for_files_that_do_not_say_theirs(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("Привет, мир".encode("koi8-r"))
    (tmp_path / "b.txt").write_bytes("Привет, мир".encode())
    for file in scan_root(str(tmp_path), options=RootOptions(encoding="koi8-r")).files:
        (record,) = read_file(file, None).records
        assert record.document is not None
        assert record.document.text == "Привет, мир"
