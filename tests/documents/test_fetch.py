from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from rag_assets.documents import fetch as fetching
from rag_assets.documents.fetch import fetch
from rag_assets.documents.registry import parse
from rag_assets.documents.scan import read_content, scan_root
from rag_assets.errors import ParseError, RootUnreadable


class _Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        kind, _, rest = self.path.lstrip("/").partition("/")
        if kind == "redirect":
            self._send(302, b"", Location="/page" if rest == "0" else f"/redirect/{int(rest) - 1}")
        elif kind in ("to", "closing"):
            if kind == "closing":  # from now on, only public addresses
                del os.environ[fetching.ALLOW_PRIVATE]
            self._send(302, b"", Location=rest.replace("_", "/"))
        elif kind == "big":
            self._send(200, b"x" * 5000)
        elif kind == "page":
            self._send(200, b"<p>caf\xe9</p>", **{"Last-Modified": "Wed, 01 May 2024 00:00:00 GMT"})
        else:
            self._send(404, b"")

    def _send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=iso-8859-1")
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test's output clean."""


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("RAG_ALLOW_PRIVATE_URLS", "1")
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Pages)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://localhost:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_page_is_one_source_and_is_read_with_its_declared_charset(site: str) -> None:
    (file,) = scan_root(f"{site}/page").files
    assert (file.uri, file.size, file.mtime_ns) == (f"{site}/page", 11, 1714521600 * 10**9)
    content = read_content(file)
    (record,) = parse(content.data, file.uri, content.content_type)
    assert record.source_type == "page"
    assert record.document is not None
    assert (record.document.text, record.document.canonical_url) == ("café", f"{site}/page")


def test_a_page_that_is_not_there_is_an_error_and_not_an_empty_listing(site: str) -> None:
    with pytest.raises(RootUnreadable, match="status 404"):
        scan_root(f"{site}/missing")


def test_five_redirects_are_followed_and_no_more(site: str) -> None:
    assert fetch(f"{site}/redirect/4").url == f"{site}/page"
    with pytest.raises(RootUnreadable, match="more than 5 redirects"):
        fetch(f"{site}/redirect/5")


def test_reading_stops_at_the_size_limit(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "MAX_PAGE_BYTES", 1000)
    with pytest.raises(ParseError, match="larger than"):
        fetch(f"{site}/big")


def test_a_redirect_to_another_kind_of_address_is_refused(site: str) -> None:
    with pytest.raises(RootUnreadable, match="only http and https"):
        fetch(f"{site}/to/file:___etc_passwd")


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


def test_each_redirect_is_checked_again(site: str) -> None:
    with pytest.raises(RootUnreadable, match=r"169\.254\.169\.254 is not a public address"):
        fetch(f"{site}/closing/http:__169.254.169.254_latest")


@pytest.mark.parametrize("url", ["http://", "http://[bad", "http://no-such-host.invalid/", "http://127.0.0.1:1/"])
def test_what_cannot_be_reached_is_a_clear_error(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_ALLOW_PRIVATE_URLS", "1")
    with pytest.raises(RootUnreadable, match=r"^http:"):
        fetch(url)
