"""A web site on this machine, made of pages that a test sets, which notes what it is asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Page:
    """An answer: with an `ETag` or `Last-Modified` header, requests that name it are answered with 304."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Site:
    """`pages` by path; a callable makes its page anew for each request. `asked` has the requests so far."""

    url: str
    pages: dict[str, Page | Callable[[], Page]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)  # paths whose body was sent
    headers: list[Message] = field(default_factory=list)


@contextmanager
def running_site() -> Iterator[Site]:
    """Serve a site on a free port of 127.0.0.1."""
    site = Site("")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.asked.append(self.path)
            site.headers.append(self.headers)
            found = site.pages.get(self.path, Page(status=404))
            page = found() if callable(found) else found
            if _is_known(self.headers, page):
                self._send(304, b"", page.headers)
            else:
                site.sent.append(self.path)
                self._send(page.status, page.body, page.headers)

        def _send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
            self.send_response(status)
            values = {"Content-Type": "text/html; charset=utf-8", "Content-Length": str(len(body)), **headers}
            for name, value in values.items():
                self.send_header(name, value)
            self.end_headers()
            if status != 304:
                try:
                    self.wfile.write(body)
                except ConnectionError:
                    self.close_connection = True  # the reader has seen enough

        def log_message(self, format: str, *args: Any) -> None:
            """Keep the test's output clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    site.url = f"http://localhost:{server.server_port}"
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _is_known(headers: Message, page: Page) -> bool:
    for sent, told in (("If-None-Match", "ETag"), ("If-Modified-Since", "Last-Modified")):
        if headers.get(sent) is not None:
            return headers[sent] == page.headers.get(told)
    return False
