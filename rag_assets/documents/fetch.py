"""One web page over http or https, without reaching into the network this runs in."""

from __future__ import annotations

import ipaddress
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import httpx

from rag_assets.errors import ParseError, RootUnreadable

MAX_PAGE_BYTES = 20 * 1024 * 1024
MAX_REDIRECTS = 5
TIMEOUT_SECONDS = 20.0  # for each step
TOTAL_SECONDS = 120.0  # a server that sends a byte a second never meets the limit of a step
ALLOW_PRIVATE = "RAG_ALLOW_PRIVATE_URLS"

_HEADERS = {
    "User-Agent": "rag-assets",
    "Accept": "text/html, text/*;q=0.9, */*;q=0.5",
    # A compressed answer of 20 kB may unpack to 20 GB in one step.
    "Accept-Encoding": "identity",
}


@dataclass(frozen=True)
class FetchedPage:
    """A page as it was sent; `url` is the address after redirects."""

    url: str
    content: bytes
    content_type: str | None


def fetch(url: str) -> FetchedPage:
    """Return a page of at most 20 MB, after at most 5 redirects.

    Every address on the way is resolved and refused if it is not public, unless RAG_ALLOW_PRIVATE_URLS=1.

    Raises:
        RootUnreadable: a refused address, no answer, too many redirects, or an error status.
        ParseError: the page is larger than 20 MB.
    """
    deadline = time.monotonic() + TOTAL_SECONDS
    with _answer(url) as (final, response):
        content = bytearray()
        for part in response.iter_bytes():
            content += part
            if len(content) > MAX_PAGE_BYTES:
                raise ParseError(f"{url} is larger than {MAX_PAGE_BYTES // 2**20} MB")
            if time.monotonic() > deadline:
                raise RootUnreadable(f"{url}: not complete after {TOTAL_SECONDS:.0f} s")
        return FetchedPage(final, bytes(content), response.headers.get("content-type"))


def probe(url: str) -> Mapping[str, str]:
    """Return the headers of a page without its content; raises RootUnreadable like `fetch`."""
    with _answer(url) as (_, response):
        return response.headers


@contextmanager
def _answer(url: str) -> Iterator[tuple[str, httpx.Response]]:
    """Follow redirects and yield the final address and its answer, with the content still to be read."""
    # No proxy from the environment: it would resolve the name again, and perhaps to another address.
    with _clear_errors(url), httpx.Client(timeout=TIMEOUT_SECONDS, trust_env=False) as client:
        current = httpx.URL(url)
        for _ in range(MAX_REDIRECTS + 1):
            response = client.send(_request(client, current), stream=True)
            try:
                if not response.has_redirect_location:
                    if response.status_code != httpx.codes.OK:
                        raise RootUnreadable(f"{url}: status {response.status_code} {response.reason_phrase}")
                    yield str(current), response
                    return
                current = current.join(response.headers["location"])
            finally:
                response.close()
        raise RootUnreadable(f"{url}: more than {MAX_REDIRECTS} redirects")


@contextmanager
def _clear_errors(url: str) -> Iterator[None]:
    try:
        yield
    except httpx.TimeoutException as error:
        raise RootUnreadable(f"{url}: no answer within {TIMEOUT_SECONDS:.0f} s") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise RootUnreadable(f"{url}: {type(error).__name__}: {error}") from error


def _request(client: httpx.Client, url: httpx.URL) -> httpx.Request:
    """Return a request to the very address that was checked: the name could resolve to another one later."""
    if url.scheme not in ("http", "https") or not url.host:
        raise RootUnreadable(f"{url}: only http and https addresses are fetched")
    address = _public_address(url)
    host = url.netloc.decode("ascii")
    return client.build_request(
        "GET",
        url.copy_with(host=address),
        headers={**_HEADERS, "Host": host},
        extensions={"sni_hostname": url.raw_host.decode("ascii")},
    )


def _public_address(url: httpx.URL) -> str:
    try:
        found = socket.getaddrinfo(url.host, url.port or url.scheme, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise RootUnreadable(f"{url}: the host name {url.host!r} could not be resolved: {error}") from error
    addresses = [str(entry[4][0]).partition("%")[0] for entry in found]
    for address in addresses:
        if os.environ.get(ALLOW_PRIVATE) != "1" and not _is_public(address):
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
