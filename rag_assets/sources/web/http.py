"""HTTP requests to strangers: each address checked, redirects and waits bounded, bodies unpacked within limits."""

from __future__ import annotations

import ipaddress
import socket
import ssl
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import lru_cache

import httpx

from rag_assets.errors import ParseError, RootUnreadable
from rag_assets.settings import load_settings

USER_AGENT = "rag-assets"
MAX_REDIRECTS = 5
TIMEOUT_SECONDS = 20.0  # for each step
TOTAL_SECONDS = 120.0  # a server that sends a byte a second never meets the limit of a step
MAX_WAIT_SECONDS = 30.0  # who asks for a longer pause gets it: the page is left to the next scan
RETRIES = 3
ALLOW_PRIVATE = "RAG_ALLOW_PRIVATE_URLS"

_BUSY = (httpx.codes.TOO_MANY_REQUESTS, httpx.codes.SERVICE_UNAVAILABLE)
_HEADERS = {
    "User-Agent": USER_AGENT,
    "Accept": "text/html, text/*;q=0.9, */*;q=0.5",
    # A compressed answer of 20 kB may unpack to 20 GB.
    "Accept-Encoding": "identity",
}
_STEP = 64 * 1024  # bytes unpacked at a time


@dataclass(frozen=True)
class Visit:
    """One attempt to get a page: what to send along, which addresses may be asked, and how long all may take."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    check: Callable[[httpx.URL], None] = lambda url: None
    deadline: float = field(default_factory=lambda: time.monotonic() + TOTAL_SECONDS)

    def time_left(self) -> float:
        """Return the seconds until the deadline; raises RootUnreadable when there are none."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise RootUnreadable(f"{self.url}: not complete after {TOTAL_SECONDS:.0f} s")
        return left


@contextmanager
def answer(visit: Visit) -> Iterator[tuple[str, httpx.Response]]:
    """Follow redirects and yield the final address and its answer, whatever its status; the body is unread.

    Every address on the way is resolved and refused if it is not public, unless RAG_ALLOW_PRIVATE_URLS=1, and
    shown to `visit.check`. A server that is busy (429, 503) is asked again up to 3 times, as late as it says.

    Raises:
        RootUnreadable: a refused address, no answer, too many redirects, or a server that asks for a long pause.
    """
    # No proxy from the environment: it would resolve the name again, and perhaps to another address.
    client = httpx.Client(timeout=TIMEOUT_SECONDS, trust_env=False, verify=_certificates())
    with _clear_errors(visit.url), client:
        current = httpx.URL(visit.url)
        for _ in range(MAX_REDIRECTS + 1):
            response = _patient(client, current, visit)
            try:
                if not response.has_redirect_location:
                    yield str(current), response
                    return
                current = current.join(response.headers["location"])
            finally:
                response.close()
        raise RootUnreadable(f"{visit.url}: more than {MAX_REDIRECTS} redirects")


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
            raise ParseError(f"{visit.url} is larger than {limit // 2**20} MB")
        visit.time_left()
    return bytes(content)


@lru_cache(maxsize=1)
def _certificates() -> ssl.SSLContext:
    # Reading the certificates takes longer than a request.
    return httpx.create_ssl_context(trust_env=False)


def _unpacked(visit: Visit, response: httpx.Response) -> Iterator[bytes]:
    coding = response.headers.get("content-encoding", "identity").strip().lower()
    if coding in ("", "identity"):
        yield from response.iter_raw()
        return
    if coding not in ("gzip", "x-gzip", "deflate"):
        raise ParseError(f"{visit.url} is sent packed as {coding}, which was not asked for")
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    try:
        for part in response.iter_raw():
            rest = part
            while rest:
                yield unpacker.decompress(rest, _STEP)
                rest = unpacker.unconsumed_tail
        yield unpacker.flush(_STEP)
    except zlib.error as error:
        raise ParseError(f"{visit.url} is sent packed as {coding} and cannot be unpacked: {error}") from error


def _patient(client: httpx.Client, url: httpx.URL, visit: Visit) -> httpx.Response:
    for attempt in range(RETRIES + 1):
        visit.time_left()
        response = client.send(_request(client, url, visit), stream=True)
        if response.status_code not in _BUSY or attempt == RETRIES:
            return response
        response.close()
        pause = _asked_pause(response.headers.get("retry-after"), 2.0**attempt)
        if pause > min(MAX_WAIT_SECONDS, visit.time_left()):
            raise RootUnreadable(f"{url}: status {response.status_code}, the server asks for {pause:.0f} s of quiet")
        time.sleep(pause)
    raise AssertionError("the last attempt returns")


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
def _clear_errors(url: str) -> Iterator[None]:
    try:
        yield
    except httpx.TimeoutException as error:
        raise RootUnreadable(f"{url}: no answer within {TIMEOUT_SECONDS:.0f} s") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise RootUnreadable(f"{url}: {type(error).__name__}: {error}") from error


def _request(client: httpx.Client, url: httpx.URL, visit: Visit) -> httpx.Request:
    """Return a request to the very address that was checked: the name could resolve to another one later."""
    if url.scheme not in ("http", "https") or not url.host:
        raise RootUnreadable(f"{url}: only http and https addresses are fetched")
    address = _public_address(url)
    visit.check(url)
    host = url.netloc.decode("ascii")
    return client.build_request(
        "GET",
        url.copy_with(host=address),
        headers={**_HEADERS, **visit.headers, "Host": host},
        extensions={"sni_hostname": url.raw_host.decode("ascii")},
    )


def _public_address(url: httpx.URL) -> str:
    try:
        found = socket.getaddrinfo(url.host, url.port or url.scheme, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise RootUnreadable(f"{url}: the host name {url.host!r} could not be resolved: {error}") from error
    addresses = [str(entry[4][0]).partition("%")[0] for entry in found]
    anywhere = load_settings().allow_private_urls
    for address in addresses:
        if not anywhere and not _is_public(address):
            raise RootUnreadable(
                f"{url}: {address} is not a public address; {ALLOW_PRIVATE}=1 allows pages of the own network"
            )
    return addresses[0]


def _is_public(address: str) -> bool:
    ip = ipaddress.ip_address(address)
    if isinstance(ip, ipaddress.IPv6Address):
        # These carry an IPv4 address, and a gateway would deliver to that one.
        embedded = ip.ipv4_mapped or ip.sixtofour or _nat64(ip)
        if embedded is not None:
            ip = embedded
    return ip.is_global and not ip.is_multicast


def _nat64(ip: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if ip in ipaddress.ip_network("64:ff9b::/96") else None
