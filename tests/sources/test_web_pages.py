from __future__ import annotations

import gzip
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count

import pytest

from rag_assets.documents.checksum import bytes_checksum
from rag_assets.errors import RootUnreadable
from rag_assets.sources.listing import Skipped
from rag_assets.sources.options import RootOptions
from rag_assets.sources.scan import RootListing, SourceFile, read_content, scan_root
from rag_assets.sources.web import pages, sitemap
from rag_assets.sources.web.sitemap import is_sitemap
from tests.support.web_site import Page, Site, running_site

OLD = "2024-05-01"
OLD_NS = int(datetime(2024, 5, 1, tzinfo=UTC).timestamp() * 1e9)


@dataclass(frozen=True)
class Known:
    size: int
    mtime_ns: int
    checksum: str
    etag: str | None
    last_modified: str | None


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("RAG_ALLOW_PRIVATE_URLS", "1")
    with running_site() as running:
        yield running


def _read(file: SourceFile) -> Known:
    """What the store remembers of a page that has been read."""
    content = read_content(file)
    checksum = bytes_checksum(content.data)
    return Known(file.size, file.mtime_ns, checksum, content.etag, content.last_modified)


def _is_unchanged(listing: RootListing, known: Known) -> bool:
    (file,) = listing.files
    return (file.size, file.mtime_ns) == (known.size, known.mtime_ns)


@pytest.mark.parametrize("headers", [{"ETag": '"1"'}, {"Last-Modified": "Wed, 01 May 2024 00:00:00 GMT"}])
def test_an_unchanged_page_is_not_downloaded_again(site: Site, headers: dict[str, str]) -> None:
    url = f"{site.url}/page"
    site.pages["/page"] = Page(b"one", headers=headers)
    known = _read(scan_root(url).files[0])
    site.sent.clear()
    assert _is_unchanged(scan_root(url, {url: known}), known)
    assert site.sent == []
    site.pages["/page"] = Page(b"two", headers={name: value.replace("1", "2") for name, value in headers.items()})
    assert not _is_unchanged(scan_root(url, {url: known}), known)


def test_a_page_without_a_date_counts_as_changed_only_when_it_is(site: Site) -> None:
    url = f"{site.url}/page"
    site.pages["/page"] = Page(b"one")
    known = _read(scan_root(url).files[0])
    assert _is_unchanged(scan_root(url, {url: known}), known)
    site.pages["/page"] = Page(b"two")
    assert not _is_unchanged(scan_root(url, {url: known}), known)


def test_a_date_of_the_request_and_a_tag_of_the_server_do_not_make_a_page_changed(site: Site) -> None:
    url = f"{site.url}/page"
    numbers = count()
    site.pages["/page"] = lambda: Page(
        b"one",
        headers={"ETag": f'"{next(numbers)}"', "Last-Modified": f"Wed, 01 May 2024 00:00:{next(numbers):02} GMT"},
    )
    known = _read(scan_root(url).files[0])
    assert _is_unchanged(scan_root(url, {url: known}), known)


def _sitemap(site: Site, *entries: tuple[str, str], kind: str = "urlset") -> bytes:
    inner = "url" if kind == "urlset" else "sitemap"
    lines = "".join(
        f"<{inner}><loc> {url if '://' in url else site.url + url} </loc>"
        + (f"<lastmod>{changed}</lastmod>" if changed else "")
        + f"</{inner}>"
        for url, changed in entries
    )
    return f'<?xml version="1.0"?><{kind} xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{lines}</{kind}>'.encode()


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://e.org/sitemap.xml", True),
        ("https://e.org/docs/sitemap-2.xml.gz?x=1", True),
        ("https://e.org/sitemap_index.xml", True),
        ("https://e.org/sitemap.html", False),
        ("https://e.org/feed.xml", False),
        ("/home/sitemap.xml", False),
    ],
)
def test_a_sitemap_is_told_by_its_name(url: str, expected: bool) -> None:
    assert is_sitemap(url) is expected


def test_every_page_of_a_sitemap_on_its_host_is_a_source(site: Site) -> None:
    site.pages["/sitemap.xml"] = Page(
        _sitemap(site, ("/b#part", OLD), ("/a?x=1", ""), ("/b", OLD), ("https://other.org/c", ""))
    )
    listing = scan_root(f"{site.url}/sitemap.xml")
    assert [(file.uri, file.path_in_root) for file in listing.files] == [
        (f"{site.url}/a?x=1", f"{site.url}/a?x=1"),
        (f"{site.url}/b", f"{site.url}/b"),
    ]
    assert listing.files[1].mtime_ns == OLD_NS
    assert listing.skipped == (Skipped("https://other.org/c", sitemap.OTHER_HOST),)
    assert site.asked == ["/robots.txt", "/sitemap.xml"]


def test_an_index_leads_to_its_sitemaps_packed_or_not(site: Site) -> None:
    index = _sitemap(site, ("/s1.xml", ""), ("/s2.xml.gz", ""), kind="sitemapindex")
    site.pages |= {
        "/sitemap_index.xml": Page(index),
        "/s1.xml": Page(_sitemap(site, ("/a", ""))),
        "/s2.xml.gz": Page(gzip.compress(_sitemap(site, ("/b", ""))), headers={"Content-Type": "application/gzip"}),
    }
    listing = scan_root(f"{site.url}/sitemap_index.xml")
    assert ([file.uri for file in listing.files], listing.errors) == ([f"{site.url}/a", f"{site.url}/b"], ())


def test_pages_that_the_sitemap_dates_are_not_asked_for(site: Site) -> None:
    site.pages |= {"/sitemap.xml": Page(_sitemap(site, ("/a", OLD))), "/a": Page(b"one")}
    root = f"{site.url}/sitemap.xml"
    known = _read(scan_root(root).files[0])
    site.asked.clear()
    assert _is_unchanged(scan_root(root, {f"{site.url}/a": known}), known)
    assert site.asked == ["/sitemap.xml"]
    site.pages["/sitemap.xml"] = Page(_sitemap(site, ("/a", "2024-05-02T10:00:00+02:00")))
    assert not _is_unchanged(scan_root(root, {f"{site.url}/a": known}), known)


@pytest.mark.parametrize("changed", ["", "no date", datetime.now(UTC).date().isoformat()])
def test_pages_without_a_date_that_can_be_trusted_are_asked_for(site: Site, changed: str) -> None:
    site.pages |= {"/sitemap.xml": Page(_sitemap(site, ("/a", changed))), "/a": Page(b"one", headers={"ETag": '"1"'})}
    root = f"{site.url}/sitemap.xml"
    known = _read(scan_root(root).files[0])
    site.sent.clear()
    assert _is_unchanged(scan_root(root, {f"{site.url}/a": known}), known)
    assert site.sent == ["/sitemap.xml"]
    site.pages["/a"] = Page(b"two", headers={"ETag": '"2"'})
    assert not _is_unchanged(scan_root(root, {f"{site.url}/a": known}), known)


def test_a_page_that_does_not_answer_is_an_error_of_its_own(site: Site) -> None:
    site.pages |= {"/sitemap.xml": Page(_sitemap(site, ("/a", ""), ("/b", ""))), "/b": Page(b"b")}
    known = Known(1, time.time_ns(), bytes_checksum(b"b"), None, None)
    listing = scan_root(f"{site.url}/sitemap.xml", {f"{site.url}/a": known, f"{site.url}/b": known})
    assert [file.uri for file in listing.files] == [f"{site.url}/b"]
    assert [(error.uri, "status 404" in error.message) for error in listing.errors] == [(f"{site.url}/a", True)]


def test_a_part_of_an_index_that_cannot_be_read_hides_the_whole_host(site: Site) -> None:
    index = _sitemap(site, ("/s1.xml", ""), ("/s2.xml", ""), kind="sitemapindex")
    site.pages |= {"/sitemap.xml": Page(index), "/s1.xml": Page(_sitemap(site, ("/a", "")))}
    listing = scan_root(f"{site.url}/sitemap.xml")
    assert [file.uri for file in listing.files] == [f"{site.url}/a"]
    assert [error.uri for error in listing.errors] == [f"{site.url}/"]


def test_more_pages_than_the_limit_are_left_out_and_none_is_taken_for_gone(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sitemap, "MAX_PAGES", 2)
    site.pages["/sitemap.xml"] = Page(_sitemap(site, *((f"/{n}", "") for n in range(5))))
    listing = scan_root(f"{site.url}/sitemap.xml")
    assert len(listing.files) == 2
    assert [(error.uri, "more than 2 pages" in error.message) for error in listing.errors] == [(f"{site.url}/", True)]


def test_no_more_pages_are_asked_for_in_one_scan_than_the_limit(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MAX_PROBES", 1)
    site.pages |= {"/sitemap.xml": Page(_sitemap(site, ("/a", ""), ("/b", ""))), "/a": Page(b"new"), "/b": Page(b"new")}
    known = Known(1, 1, "old", None, None)
    first, second = scan_root(f"{site.url}/sitemap.xml", {f"{site.url}/{n}": known for n in "ab"}).files
    assert first.mtime_ns != 1
    assert second.mtime_ns == 1


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"<html><p>Not found</html>", "is no sitemap"),
        (b"<urlset><url><loc>x", "not valid XML"),
        (b'<urlset xmlns="x"></urlset>', "lists no page"),
        (b"\x1f\x8bbroken", "cannot be unpacked"),
        (
            b'<!DOCTYPE u [<!ENTITY a SYSTEM "file:///etc/passwd">]><urlset><url><loc>&a;</loc></url></urlset>',
            "no page",
        ),
    ],
)
def test_what_is_no_sitemap_is_an_error_and_not_an_empty_listing(site: Site, body: bytes, reason: str) -> None:
    site.pages["/sitemap.xml"] = Page(body)
    with pytest.raises(RootUnreadable, match=reason):
        scan_root(f"{site.url}/sitemap.xml")


def test_a_sitemap_that_unpacks_without_end_is_refused(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sitemap, "MAX_XML_BYTES", 2**20)
    site.pages["/sitemap.xml.gz"] = Page(gzip.compress(bytes(2**21)))
    with pytest.raises(RootUnreadable, match="larger than 1 MB when unpacked"):
        scan_root(f"{site.url}/sitemap.xml.gz")


def test_a_page_read_by_an_older_parser_is_still_the_same_page(site: Site) -> None:
    url = f"{site.url}/page"
    site.pages["/page"] = Page(b"one", headers={"ETag": '"1"'})
    known = replace(_read(scan_root(url).files[0]), size=77)
    assert _is_unchanged(scan_root(url, {url: known}), known)


@pytest.mark.parametrize(
    ("root", "page", "near"),
    [
        ("https://example.com/sitemap.xml", "https://www.example.com/a", True),
        ("https://www.example.com/sitemap.xml", "https://example.com/a", True),
        ("http://www.example.com/sitemap.xml", "https://EXAMPLE.com:443/a", True),
        ("https://example.com/sitemap.xml", "https://example.com./a", True),
        ("https://example.com/sitemap.xml", "https://docs.example.com/a", False),
        ("https://example.com/sitemap.xml", "https://www.example.com.evil.org/a", False),
        ("https://example.com/sitemap.xml", "https://example.com:8443/a", False),
        ("https://example.com/sitemap.xml", "https://example.com@evil.org/a", False),
        ("https://example.com/sitemap.xml", "https://wwwexample.com/a", False),
    ],
)
def test_a_host_with_www_and_without_is_one(root: str, page: str, near: bool) -> None:
    assert sitemap._Reader(root, None)._is_near(page) is near


def test_indexes_of_indexes_are_followed_to_a_depth_and_never_round(site: Site) -> None:
    for depth in range(5):
        site.pages[f"/sitemap{depth}.xml"] = Page(
            _sitemap(site, (f"/sitemap{depth + 1}.xml", ""), ("/sitemap0.xml", ""), (f"/pages{depth}.xml", ""),
                     kind="sitemapindex")
        )  # fmt: skip
        site.pages[f"/pages{depth}.xml"] = Page(_sitemap(site, (f"/{depth}", "")))
    listing = scan_root(f"{site.url}/sitemap0.xml")
    assert [file.uri.rpartition("/")[2] for file in listing.files] == ["0", "1", "2"]
    assert ["within 3 others" in error.message for error in listing.errors] == [True]


def test_a_broken_part_hides_no_page_of_the_others_and_none_is_taken_for_gone(site: Site) -> None:
    index = _sitemap(site, ("/s1.xml", ""), ("/s2.xml", ""), kind="sitemapindex")
    site.pages |= {
        "/sitemap.xml": Page(index),
        "/s1.xml": Page(b"<html>broken"),
        "/s2.xml": Page(_sitemap(site, ("/b", ""))),
    }
    listing = scan_root(f"{site.url}/sitemap.xml")
    assert [file.uri for file in listing.files] == [f"{site.url}/b"]
    (error,) = listing.errors
    www = site.url.replace("http://", "http://www.")
    assert {f"{site.url}/", f"{www}/"} <= {error.uri, *error.also}


def test_pages_are_included_and_excluded_by_their_paths(site: Site) -> None:
    site.pages["/sitemap.xml"] = Page(_sitemap(site, ("/docs/a", ""), ("/docs/old/b", ""), ("/blog/c", "")))
    listing = scan_root(f"{site.url}/sitemap.xml", options=RootOptions(include=("docs/",), exclude=("old/",)))
    assert [file.uri for file in listing.files] == [f"{site.url}/docs/a"]


def test_a_slow_site_costs_no_more_than_the_time_of_a_scan(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was not reached is kept as it was."""
    names = [f"/{n}" for n in range(40)]
    site.pages["/sitemap.xml"] = Page(_sitemap(site, *((name, "") for name in names)))

    def slow() -> Page:
        time.sleep(0.2)
        return Page(b"new")

    site.pages |= dict.fromkeys(names, slow)
    known = Known(1, 1, "old", None, None)
    monkeypatch.setenv("RAG_SCAN_SECONDS", "1")
    listing = scan_root(f"{site.url}/sitemap.xml", {f"{site.url}{name}": known for name in names})
    assert any("RAG_SCAN_SECONDS" in error.message for error in listing.errors)
    hidden = {error.uri for error in listing.errors}
    assert {file.uri for file in listing.files} | hidden >= {f"{site.url}{name}" for name in names}
    assert sum(file.mtime_ns == 1 for file in listing.files) > 10
