"""Web addresses as source roots: one page, or the pages of a sitemap, and which of them have changed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from rag_assets.documents.checksum import bytes_checksum
from rag_assets.documents.names import media_type
from rag_assets.documents.registry import choose
from rag_assets.errors import RootUnreadable, SourceError, UnsupportedFormat
from rag_assets.sources.listing import KnownFile, RootListing, ScanError, SourceFile
from rag_assets.sources.web.fetch import Validators, fetch, probe
from rag_assets.sources.web.sitemap import is_sitemap, read_sitemap

MAX_PROBES = 1000  # pages of a sitemap that are asked for in one scan
_SETTLED_NS = 2 * 24 * 3600 * 10**9  # a date without a time may stand for a change later on that day
_GENERIC_TYPES = frozenset({"", "application/octet-stream", "binary/octet-stream"})


def scan_web(url: str, known: Mapping[str, KnownFile]) -> RootListing:
    """List a page, or all pages of a sitemap. Pages that are as in `known` keep its size and time.

    Raises:
        RootUnreadable: no such page, no answer, or of a type that no parser takes.
    """
    if is_sitemap(url):
        return _scan_sitemap(url, known)
    return RootListing(files=(_scan_page(url, known.get(url)),))


def refuse_type(url: str, content_type: str | None) -> None:
    """Raise UnsupportedFormat where the declared type, and the name, are of a kind that no parser takes."""
    if media_type(content_type) not in _GENERIC_TYPES:
        choose(b"", url, content_type)


def _scan_page(url: str, known: KnownFile | None) -> SourceFile:
    told = probe(url, Validators(known.etag, known.last_modified) if known else Validators())
    if known and told.unchanged:
        return SourceFile(url, url, known.size, known.mtime_ns)
    try:
        refuse_type(url, told.content_type)
    except UnsupportedFormat as error:
        raise RootUnreadable(str(error)) from error
    page = SourceFile(url, url, told.size, _time_ns(told.last_modified))
    if known and (page.size, page.mtime_ns) != (known.size, known.mtime_ns) and _is_same(url, known):
        return SourceFile(url, url, known.size, known.mtime_ns)
    return page


def _is_same(url: str, known: KnownFile) -> bool:
    """Compare the content itself: many servers tell no date, or the time of the request."""
    try:
        return bytes_checksum(fetch(url).content) == known.checksum
    except SourceError:
        return False  # the reader will meet the same error and report it for this page


def _time_ns(last_modified: str | None) -> int:
    try:
        return int(parsedate_to_datetime(last_modified or "").timestamp() * 1e9)
    except (ValueError, OverflowError):
        return time.time_ns()


def _scan_sitemap(url: str, known: Mapping[str, KnownFile]) -> RootListing:
    found = read_sitemap(url)
    settled = time.time_ns() - _SETTLED_NS
    files: list[SourceFile] = []
    probes = 0
    for address, changed in found.pages.items():
        before = known.get(address)
        if before is None:
            files.append(SourceFile(address, address, -1, changed or time.time_ns()))
        elif changed is not None and changed <= settled:
            newer = changed > before.mtime_ns
            files.append(SourceFile(address, address, before.size, changed if newer else before.mtime_ns))
        elif probes < MAX_PROBES:
            probes += 1
            try:
                files.append(_scan_page(address, before))
            except RootUnreadable as error:
                found.errors.append(ScanError(address, str(error), address))
        else:
            files.append(SourceFile(address, address, before.size, before.mtime_ns))
    return RootListing(
        files=tuple(sorted(files, key=lambda file: file.uri)),
        errors=tuple(sorted(found.errors, key=lambda error: error.path)),
        skipped=tuple(sorted(set(found.skipped))),
    )
