"""HTTP requests to strangers: each address checked, redirects and waits bounded, bodies unpacked within limits."""

from __future__ import annotations

import base64
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime

import httpx

from rag_assets.errors import ParseError, RootUnreadable
from rag_assets.sources.deadline import Deadline, reading
from rag_assets.sources.secrets import Filled, filled, shown
from rag_assets.sources.web.network import ALLOW_PRIVATE, PORTS, STEP_SECONDS, Transport

__all__ = ["ALLOW_PRIVATE", "USER_AGENT", "Visit", "answer", "read_body"]

USER_AGENT = "rag-assets"
MAX_REDIRECTS = 5
MAX_WAIT_SECONDS = 30.0  # who asks for a longer pause gets it: the page is left to the next scan
RETRIES = 3

_BUSY = (httpx.codes.TOO_MANY_REQUESTS, httpx.codes.SERVICE_UNAVAILABLE)
_HEADERS = {
    "User-Agent": USER_AGENT,
    "Accept": "text/html, text/*;q=0.9, */*;q=0.5",
    # A compressed answer of 20 kB may unpack to 20 GB.
    "Accept-Encoding": "identity",
    "Connection": "close",
}
_STEP = 64 * 1024  # bytes unpacked at a time


@dataclass(frozen=True)
class Visit:
    """One attempt to get a page: what to send along, which addresses may be asked, and how long all may take.

    `url` may refer to variables for its secrets. `check` is given each address on the way, without user and password,
    and how it may be printed, and raises RootUnreadable for one that must not be asked.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    check: Callable[[httpx.URL, str, Deadline], None] = lambda url, name, deadline: None
    until: Deadline | None = None  # of a whole scan
    deadline: Deadline = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "deadline", reading(shown(self.url), self.until))


@contextmanager
def answer(visit: Visit) -> Iterator[tuple[str, httpx.Response]]:
    """Follow redirects and yield the final address and its answer, whatever its status; the body is unread.

    Every address on the way is resolved and refused if it is not public, unless RAG_ALLOW_PRIVATE_URLS=1, and
    shown to `visit.check`. A server that is busy (429, 503) is asked again up to 3 times, as late as it says.

    Raises:
        RootUnreadable: a refused address, no answer, too many redirects, a server that asks for a long pause, or a
            variable that is not set.
    """
    page = filled(visit.url)
    with _clear_errors(visit, page), Transport(visit.deadline) as transport:
        current = httpx.URL(page.address)
        sender = _Sender(transport, visit, page, _origin(current))
        for _ in range(MAX_REDIRECTS + 1):
            response = sender.patient(current)
            try:
                if not response.has_redirect_location:
                    yield page.hide(str(current)), response
                    return
                current = current.join(response.headers["location"]).copy_with(userinfo=b"")
            finally:
                response.close()
        raise RootUnreadable(f"{shown(visit.url)}: more than {MAX_REDIRECTS} redirects")


def read_body(visit: Visit, response: httpx.Response, limit: int) -> bytes:
    """Return the body, unpacked where it was sent compressed although that was not asked for.

    Raises:
        ParseError: more than `limit` bytes, or packed in a way that cannot be unpacked.
        RootUnreadable: the body was not complete in time, or its connection broke.
    """
    content = bytearray()
    for part in _unpacked(visit, response):
        content += part
        if len(content) > limit:
            raise ParseError(f"{shown(visit.url)} is larger than {limit // 2**20} MB")
        visit.deadline.left()
    return bytes(content)


def _unpacked(visit: Visit, response: httpx.Response) -> Iterator[bytes]:
    coding = response.headers.get("content-encoding", "identity").strip().lower()
    if coding in ("", "identity"):
        yield from response.iter_raw()
        return
    if coding not in ("gzip", "x-gzip", "deflate"):
        raise ParseError(f"{shown(visit.url)} is sent packed as {coding}, which was not asked for")
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    try:
        for part in response.iter_raw():
            rest = part
            while rest:
                yield unpacker.decompress(rest, _STEP)
                rest = unpacker.unconsumed_tail
        yield unpacker.flush(_STEP)
    except zlib.error as error:
        raise ParseError(f"{shown(visit.url)} is sent packed as {coding} and cannot be unpacked: {error}") from error


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port or PORTS.get(url.scheme)


@dataclass(frozen=True)
class _Sender:
    """Sends the requests of a visit; user and password go to the server that they were given for and no other."""

    transport: Transport
    visit: Visit
    page: Filled
    origin: tuple[str, str, int | None]

    def patient(self, url: httpx.URL) -> httpx.Response:
        """Return the answer; a server that is busy is asked again."""
        name = self.page.hide(str(url))
        for attempt in range(RETRIES + 1):
            response = self._send(url, name)
            if response.status_code not in _BUSY or attempt == RETRIES:
                return response
            response.close()
            pause = _asked_pause(response.headers.get("retry-after"), 2.0**attempt)
            if pause > min(MAX_WAIT_SECONDS, self.visit.deadline.left()):
                raise RootUnreadable(
                    f"{name}: status {response.status_code}, the server asks for {pause:.0f} s of quiet"
                )
            time.sleep(pause)
        raise AssertionError("the last attempt returns")

    def _send(self, url: httpx.URL, name: str) -> httpx.Response:
        if url.scheme not in PORTS or not url.host:
            raise RootUnreadable(f"{name}: only http and https addresses are fetched")
        # Before anything is sent anywhere, a request for robots.txt included.
        self.transport.look_at(url)
        self.visit.check(url, name, self.visit.deadline)
        request = httpx.Request("GET", url, headers=self._headers(url))
        response = self.transport.handle_request(request)
        response.request = request
        return response

    def _headers(self, url: httpx.URL) -> dict[str, str]:
        headers = {**_HEADERS, **self.visit.headers}
        if self.page.login is not None and _origin(url) == self.origin:
            pair = ":".join(self.page.login).encode()
            headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        return headers


def _asked_pause(value: str | None, otherwise: float) -> float:
    """Return the seconds that a Retry-After header asks for: a number, or a date."""
    if not value:
        return otherwise
    if value.strip().isdecimal():
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return otherwise


@contextmanager
def _clear_errors(visit: Visit, page: Filled) -> Iterator[None]:
    """Errors of our kinds, which name the address and hold none of its secrets."""
    name = shown(visit.url)
    try:
        yield
    except httpx.TimeoutException as error:
        if visit.deadline.is_over():
            raise visit.deadline.passed() from error
        raise RootUnreadable(f"{name}: no answer within {STEP_SECONDS:.0f} s") from error
    except httpx.ConnectError as error:
        raise RootUnreadable(f"{name}: no connection: {page.hide(str(error))}") from error
    except httpx.InvalidURL as error:
        raise RootUnreadable(f"{name}: it is no valid address: {page.hide(str(error))}") from error
    except httpx.HTTPError as error:
        raise RootUnreadable(f"{name}: the server broke off: {page.hide(str(error))}") from error
