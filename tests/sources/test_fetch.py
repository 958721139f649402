from __future__ import annotations

import gzip
import os
import time
import zlib
from collections.abc import Iterator
from email.utils import formatdate

import pytest

from rag_assets.documents.registry import parse
from rag_assets.errors import ParseError, RootUnreadable, UnsupportedFormat
from rag_assets.sources.scan import read_content, scan_root
from rag_assets.sources.web import fetch as fetching
from rag_assets.sources.web import http as web_http
from rag_assets.sources.web.fetch import Validators, fetch, probe
from tests.support.web_site import Page, Site, running_site

LATIN = {"Content-Type": "text/html; charset=iso-8859-1", "Last-Modified": "Wed, 01 May 2024 00:00:00 GMT"}


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("RAG_ALLOW_PRIVATE_URLS", "1")
    with running_site() as running:
        running.pages["/page"] = Page(b"<p>caf\xe9</p>", headers=LATIN)
        yield running


def _redirect(target: str) -> Page:
    return Page(status=302, headers={"Location": target})


def test_a_page_is_one_source_and_is_read_with_its_declared_charset(site: Site) -> None:
    (file,) = scan_root(f"{site.url}/page").files
    assert (file.uri, file.size, file.mtime_ns) == (f"{site.url}/page", 11, 1714521600 * 10**9)
    content = read_content(file)
    (record,) = parse(content.data, file.uri, content.content_type)
    assert record.source_type == "page"
    assert record.document is not None
    assert (record.document.text, record.document.canonical_url) == ("café", f"{site.url}/page")


def test_a_page_that_is_not_there_is_an_error_and_not_an_empty_listing(site: Site) -> None:
    with pytest.raises(RootUnreadable, match="status 404"):
        scan_root(f"{site.url}/missing")


def test_five_redirects_are_followed_and_no_more(site: Site) -> None:
    site.pages["/0"] = _redirect("/page")
    for number in range(1, 6):
        site.pages[f"/{number}"] = _redirect(f"/{number - 1}")
    assert fetch(f"{site.url}/4").url == f"{site.url}/page"
    with pytest.raises(RootUnreadable, match="more than 5 redirects"):
        fetch(f"{site.url}/5")


def test_reading_stops_at_the_size_limit(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "MAX_PAGE_BYTES", 1000)
    site.pages["/big"] = Page(b"x" * 5000)
    with pytest.raises(ParseError, match="larger than"):
        fetch(f"{site.url}/big")


def test_reading_stops_at_the_time_limit(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_FETCH_SECONDS", "0.2")

    def slow() -> Page:
        time.sleep(0.3)
        return Page(b"late")

    site.pages["/slow"] = slow
    with pytest.raises(RootUnreadable, match=r"not complete after .*RAG_FETCH_SECONDS"):
        fetch(f"{site.url}/slow")


@pytest.mark.parametrize(("coding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_a_body_that_is_packed_unasked_is_unpacked(site: Site, coding: str, pack: type[bytes]) -> None:
    site.pages["/packed"] = Page(pack(b"text " * 100), headers={"Content-Encoding": coding})
    assert fetch(f"{site.url}/packed").content == b"text " * 100


def test_a_small_body_that_unpacks_to_a_huge_one_is_refused_at_the_limit(site: Site) -> None:
    bomb = gzip.compress(bytes(64 * 2**20))
    assert len(bomb) < 100_000
    site.pages["/bomb"] = Page(bomb, headers={"Content-Encoding": "gzip"})
    with pytest.raises(ParseError, match="larger than 20 MB"):
        fetch(f"{site.url}/bomb")


@pytest.mark.parametrize(("coding", "body"), [("br", b"x"), ("gzip", b"not gzip at all")])
def test_a_body_that_cannot_be_unpacked_is_a_clear_error(site: Site, coding: str, body: bytes) -> None:
    site.pages["/odd"] = Page(body, headers={"Content-Encoding": coding})
    with pytest.raises(ParseError, match=f"packed as {coding}"):
        fetch(f"{site.url}/odd")


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_is_asked_again_as_late_as_it_says(site: Site, status: int) -> None:
    started: list[float] = []

    def busy_once() -> Page:
        started.append(time.monotonic())
        return Page(status=status, headers={"Retry-After": "1"}) if len(started) == 1 else Page(b"here")

    site.pages["/busy"] = busy_once
    assert fetch(f"{site.url}/busy").content == b"here"
    assert started[1] - started[0] >= 1


def test_a_server_that_asks_for_a_long_pause_is_left_alone(site: Site) -> None:
    for name, value in (("/number", "3600"), ("/date", formatdate(time.time() + 3600, usegmt=True))):
        site.pages[name] = Page(status=429, headers={"Retry-After": value})
        with pytest.raises(RootUnreadable, match=r"status 429.* s of quiet"):
            fetch(site.url + name)
        assert site.asked.count(name) == 1


def test_a_server_that_stays_busy_is_given_up(site: Site) -> None:
    site.pages["/busy"] = Page(status=503, headers={"Retry-After": "0"})
    with pytest.raises(RootUnreadable, match="status 503"):
        fetch(f"{site.url}/busy")
    assert site.asked.count("/busy") == 1 + web_http.RETRIES


def test_a_page_of_the_known_version_is_not_sent_again(site: Site) -> None:
    site.pages["/tagged"] = Page(b"text", headers={"ETag": '"1"'})
    known = fetch(f"{site.url}/tagged").validators
    assert known == Validators('"1"', None)
    site.sent.clear()
    assert probe(f"{site.url}/tagged", known).unchanged
    assert site.sent == []
    assert not probe(f"{site.url}/tagged", Validators('"0"')).unchanged


def test_a_type_that_no_parser_takes_is_refused_before_it_is_downloaded(site: Site) -> None:
    site.pages["/film"] = Page(b"x" * 1000, headers={"Content-Type": "video/mp4"})
    with pytest.raises(RootUnreadable, match="no parser takes"):
        scan_root(f"{site.url}/film")
    (page,) = scan_root(f"{site.url}/page").files
    site.pages["/page"] = site.pages["/film"]
    with pytest.raises(UnsupportedFormat, match="video/mp4"):
        read_content(page)


def test_a_redirect_to_another_kind_of_address_is_refused(site: Site) -> None:
    site.pages["/to"] = _redirect("file:///etc/passwd")
    with pytest.raises(RootUnreadable, match="only http and https"):
        fetch(f"{site.url}/to")


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "localhost", "10.0.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0", "100.64.0.1"),
        *("[::1]", "[::ffff:127.0.0.1]", "[fe80::1]", "[fd00::1]", "[64:ff9b::7f00:1]"),
        *("224.0.0.1", "2130706433", "0x7f.1"),
    ],
)
def test_addresses_inside_the_network_are_refused(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAG_ALLOW_PRIVATE_URLS", raising=False)
    with pytest.raises(RootUnreadable, match="not a public address"):
        fetch(f"http://{host}:9/")


def test_each_redirect_is_checked_again(site: Site) -> None:
    def closing() -> Page:
        del os.environ[fetching.ALLOW_PRIVATE]  # from now on, only public addresses
        return _redirect("http://169.254.169.254/latest")

    site.pages["/closing"] = closing
    with pytest.raises(RootUnreadable, match=r"169\.254\.169\.254 is not a public address"):
        fetch(f"{site.url}/closing")


@pytest.mark.parametrize("url", ["http://", "http://[bad", "http://no-such-host.invalid/", "http://127.0.0.1:1/"])
def test_what_cannot_be_reached_is_a_clear_error(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_ALLOW_PRIVATE_URLS", "1")
    with pytest.raises(RootUnreadable, match=r"^http:"):
        fetch(url)
