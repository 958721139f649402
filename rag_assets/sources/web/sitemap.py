"""sitemap.xml: the pages that a site lists itself (sitemaps.org protocol 0.9)."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import urldefrag, urlsplit

from rag_assets.documents.names import is_web
from rag_assets.documents.normalize import normalize
from rag_assets.documents.parsers.safe_xml import stream
from rag_assets.errors import ParseError, RootUnreadable, SourceError
from rag_assets.sources.deadline import Deadline
from rag_assets.sources.listing import ScanError
from rag_assets.sources.secrets import as_written, login_of, public_name, shown, with_login
from rag_assets.sources.web.fetch import fetch

MAX_PAGES = 10_000
MAX_SITEMAPS = 50  # of all indexes together
MAX_DEPTH = 3  # of indexes within indexes
MAX_XML_BYTES = 50 * 1024 * 1024
MAX_ADDRESS = 2048  # characters, as the protocol has it
OTHER_HOST = "on another host than the sitemap"
_NAME = re.compile(r"sitemap[^/]*\.xml(\.gz)?$", re.IGNORECASE)
_ROOT = re.compile(rb"<(?:\w+:)?(urlset|sitemapindex)[\s>]")


@dataclass
class Sitemap:
    """The pages of a site by address, each with the time of its last change in ns since the epoch where that is
    told; what could not be read; and addresses that are left out, each with the reason."""

    pages: dict[str, int | None] = field(default_factory=dict)
    errors: list[ScanError] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)


def is_sitemap(url: str) -> bool:
    """Tell by its name whether an address is a sitemap: `sitemap.xml`, `sitemap-2.xml.gz`."""
    return is_web(url) and _NAME.search(urlsplit(public_name(url)).path) is not None


def read_sitemap(url: str, deadline: Deadline | None = None) -> Sitemap:
    """Return the pages of a sitemap, or of the sitemaps that an index lists, be they indexes themselves.

    The host with `www.` and without is one; others are left out. At most 50 sitemaps, three levels of indexes and
    10,000 pages are read; beyond that, and where a sitemap of an index cannot be read, an error stands for the whole
    host: nobody knows which pages it would have listed, so none is taken for gone.

    Raises:
        RootUnreadable: it cannot be fetched, is no sitemap, or lists no page of its host.
    """
    reader = _Reader(url, deadline)
    try:
        reader.read(url, 0)
    except ParseError as error:
        raise RootUnreadable(str(error)) from error
    found = reader.found
    if not found.pages and not found.errors:
        raise RootUnreadable(f"{shown(url)}: it lists no page of its host")
    return found


class _Reader:
    """Reads a sitemap and those that it leads to."""

    def __init__(self, root: str, deadline: Deadline | None) -> None:
        self._root, self._deadline = root, deadline
        self._login, self._site = login_of(root), _site(public_name(root))
        self._seen: set[str] = set()
        self.found = Sitemap()

    def read(self, url: str, depth: int) -> None:
        """Read one sitemap, `depth` indexes below the root; raises SourceError if it cannot be read as such."""
        self._seen.add(url)
        kind, entries = _entries(url, self._deadline)
        if kind == "urlset":
            self._pages(url, entries)
        elif depth >= MAX_DEPTH:
            raise ParseError(f"{shown(url)} is an index within {MAX_DEPTH} others")
        else:
            self._sitemaps(url, [address for address, _ in entries], depth)

    def _sitemaps(self, index: str, addresses: list[str], depth: int) -> None:
        for address in addresses:
            if not self._is_near(address):
                self.found.skipped.append((shown(address), OTHER_HOST))
                continue
            url = with_login(address, self._login) if self._login and _same_scheme(address, index) else address
            if url in self._seen:
                continue
            if len(self._seen) > MAX_SITEMAPS:
                self._fail(f"{shown(index)}: it lists more than {MAX_SITEMAPS} sitemaps")
                return
            try:
                self.read(url, depth + 1)
            except SourceError as error:
                self._fail(str(error))

    def _pages(self, url: str, entries: list[tuple[str, str]]) -> None:
        pages = self.found.pages
        for address, changed in entries:
            if not self._is_near(address):
                self.found.skipped.append((shown(address), OTHER_HOST))
            elif len(pages) >= MAX_PAGES and address not in pages:
                self._fail(f"{shown(url)}: it lists more than {MAX_PAGES} pages")
                return
            else:
                pages[address] = _time_ns(changed)

    def _fail(self, message: str) -> None:
        """Note that a part is not known: pages of the site may be in it under each name that it has."""
        host, port = self._site
        places = [
            f"{scheme}://{login}{name}{port}/"
            for scheme in ("http", "https")
            for name in (host, f"www.{host}")
            for login in dict.fromkeys((self._login, ""))
        ]
        root = urlsplit(public_name(self._root))
        whole = f"{root.scheme}://{root.netloc}/"
        self.found.errors.append(ScanError(whole, message, whole, tuple(places)))

    def _is_near(self, address: str) -> bool:
        return is_web(address) and len(address) <= MAX_ADDRESS and _site(address) == self._site


def _same_scheme(address: str, other: str) -> bool:
    return address.partition(":")[0].lower() == other.partition(":")[0].lower()


def _site(address: str) -> tuple[str, str]:
    """The host without `www.`, and the port with its colon unless it is the scheme's own."""
    try:
        parts = urlsplit(address)
        host, port = (parts.hostname or "").rstrip(".").removeprefix("www."), parts.port
    except ValueError:
        return "", ""
    return host, "" if port in (None, 80, 443) else f":{port}"


def _entries(url: str, deadline: Deadline | None) -> tuple[str, list[tuple[str, str]]]:
    data = _unpacked(fetch(url, until=deadline).content, shown(url))
    root = _ROOT.search(data[:100_000])
    if root is None:
        raise ParseError(f"{shown(url)} is no sitemap: it has neither urlset nor sitemapindex")
    return root.group(1).decode(), list(_addresses(data, shown(url)))


def _addresses(data: bytes, url: str) -> Iterator[tuple[str, str]]:
    for entry in stream(data, url, "url", "sitemap"):
        address = normalize(entry.findtext("{*}loc") or "").strip()
        if address:
            yield as_written(urldefrag(address).url), (entry.findtext("{*}lastmod") or "").strip()


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
