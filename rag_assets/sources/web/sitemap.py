"""sitemap.xml: the pages that a site lists itself (sitemaps.org protocol 0.9)."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import urldefrag, urljoin, urlsplit

from rag_assets.documents.names import is_web
from rag_assets.documents.normalize import normalize
from rag_assets.documents.parsers.safe_xml import stream
from rag_assets.errors import ParseError, RootUnreadable, SourceError
from rag_assets.sources.listing import ScanError
from rag_assets.sources.web.fetch import fetch

MAX_PAGES = 10_000
MAX_SITEMAPS = 50
MAX_XML_BYTES = 50 * 1024 * 1024
MAX_ADDRESS = 2048  # characters, as the protocol has it
_NAME = re.compile(r"sitemap[^/]*\.xml(\.gz)?$", re.IGNORECASE)
_ROOT = re.compile(rb"<(?:\w+:)?(urlset|sitemapindex)[\s>]")


@dataclass
class Sitemap:
    """The pages of a site by address, each with the time of its last change in ns since the epoch where that is
    told; what could not be read; and addresses that are left out."""

    pages: dict[str, int | None] = field(default_factory=dict)
    errors: list[ScanError] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


def is_sitemap(url: str) -> bool:
    """Tell by its name whether an address is a sitemap: `sitemap.xml`, `sitemap-2.xml.gz`."""
    return is_web(url) and _NAME.search(urlsplit(url).path) is not None


def read_sitemap(url: str) -> Sitemap:
    """Return the pages of a sitemap, or of the sitemaps that an index lists. Other hosts are left out.

    At most 50 sitemaps and 10,000 pages are read; beyond that, and where a sitemap of an index cannot be read, an
    error stands for the whole host, so that none of its pages is taken for gone.

    Raises:
        RootUnreadable: it cannot be fetched, is no sitemap, or lists no page of its host.
    """
    found = Sitemap()
    try:
        kind, entries = _entries(url)
    except ParseError as error:
        raise RootUnreadable(str(error)) from error
    if kind == "urlset":
        _take(found, url, entries)
    else:
        _take_all(found, url, [address for address, _ in entries])
    if not found.pages and not found.errors:
        raise RootUnreadable(f"{url}: it lists no page of its host")
    return found


def _take_all(found: Sitemap, index: str, addresses: list[str]) -> None:
    for number, address in enumerate(addresses):
        if not _is_near(address, index):
            found.skipped.append(address)
        elif number >= MAX_SITEMAPS:
            _fail(found, index, f"it lists more than {MAX_SITEMAPS} sitemaps")
            return
        else:
            _take_part(found, index, address)


def _take_part(found: Sitemap, index: str, address: str) -> None:
    try:
        kind, entries = _entries(address)
        if kind != "urlset":
            raise ParseError(f"{address} is an index within an index")
    except SourceError as error:
        _fail(found, index, str(error))
        return
    _take(found, index, entries)


def _take(found: Sitemap, url: str, entries: list[tuple[str, str]]) -> None:
    for address, changed in entries:
        if not _is_near(address, url):
            found.skipped.append(address)
        elif len(found.pages) >= MAX_PAGES and address not in found.pages:
            _fail(found, url, f"it lists more than {MAX_PAGES} pages")
            return
        else:
            found.pages[address] = _time_ns(changed)


def _fail(found: Sitemap, url: str, message: str) -> None:
    host = urljoin(url, "/")
    found.errors.append(ScanError(host, f"{url}: {message}", host))


def _is_near(address: str, url: str) -> bool:
    host = urlsplit(url).netloc.lower()
    return is_web(address) and len(address) <= MAX_ADDRESS and _host(address) == host


def _host(address: str) -> str:
    try:
        return urlsplit(address).netloc.lower()
    except ValueError:
        return ""


def _entries(url: str) -> tuple[str, list[tuple[str, str]]]:
    data = _unpacked(fetch(url).content, url)
    root = _ROOT.search(data[:100_000])
    if root is None:
        raise ParseError(f"{url} is no sitemap: it has neither urlset nor sitemapindex")
    return root.group(1).decode(), list(_addresses(data, url))


def _addresses(data: bytes, url: str) -> Iterator[tuple[str, str]]:
    for entry in stream(data, url, "url", "sitemap"):
        address = normalize(entry.findtext("{*}loc") or "").strip()
        if address:
            yield urldefrag(address).url, (entry.findtext("{*}lastmod") or "").strip()


def _unpacked(data: bytes, url: str) -> bytes:
    if not data.startswith(b"\x1f\x8b"):
        return data
    try:
        plain = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress(data, MAX_XML_BYTES + 1)
    except zlib.error as error:
        raise ParseError(f"{url} cannot be unpacked: {error}") from error
    if len(plain) > MAX_XML_BYTES:
        raise ParseError(f"{url} is larger than {MAX_XML_BYTES // 2**20} MB when unpacked")
    return plain


def _time_ns(text: str) -> int | None:
    try:
        moment = datetime.fromisoformat(text)
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1e9)
    except (ValueError, OverflowError):
        return None
