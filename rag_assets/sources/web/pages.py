"""Web addresses as source roots: one page, or the pages of a sitemap, and which of them have changed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from rag_assets.documents.checksum import bytes_checksum
from rag_assets.documents.names import media_type
from rag_assets.documents.registry import choose
from rag_assets.errors import InvalidArgument, RootUnreadable, SourceError, UnsupportedFormat
from rag_assets.sources.deadline import Deadline, scanning
from rag_assets.sources.listing import (
    NOINDEX_READ,
    NOINDEX_TOLD,
    Findings,
    KnownFile,
    RootListing,
    ScanError,
    SourceFile,
)
from rag_assets.sources.options import RootOptions
from rag_assets.sources.patterns import patterns_of
from rag_assets.sources.secrets import login_of, public_name, shown, with_login
from rag_assets.sources.web.fetch import Validators, fetch, probe
from rag_assets.sources.web.sitemap import Sitemap, is_sitemap, read_sitemap

MAX_PROBES = 1000  # pages of a sitemap that are asked for in one scan
_SETTLED_NS = 2 * 24 * 3600 * 10**9  # a date without a time may stand for a change later on that day
_GENERIC_TYPES = frozenset({"", "application/octet-stream", "binary/octet-stream"})


def scan_web(url: str, known: Mapping[str, KnownFile], options: RootOptions) -> RootListing:
    """List a page, or all pages of a sitemap. Pages that are as in `known` keep its size and time.

    Raises:
        RootUnreadable: no such page, no answer in time, or of a type that no parser takes.
    """
    return _WebScan(url, known, options).run()


def refuse_type(url: str, content_type: str | None) -> None:
    """Raise UnsupportedFormat where the declared type, and the name, are of a kind that no parser takes."""
    if media_type(content_type) not in _GENERIC_TYPES:
        choose(b"", public_name(url), content_type)


class _WebScan:
    """One look at a root, which has to end by its deadline."""

    def __init__(self, root: str, known: Mapping[str, KnownFile], options: RootOptions) -> None:
        self._root, self._known, self._options = root, known, options
        self._deadline: Deadline = scanning(shown(root))
        self._findings = Findings()
        self._probes = 0

    def run(self) -> RootListing:
        if is_sitemap(self._root):
            self._sitemap()
        else:
            self._page(self._root)
        return self._findings.listing()

    def _sitemap(self) -> None:
        try:
            patterns = patterns_of(self._options)
        except InvalidArgument as error:
            raise RootUnreadable(f"{shown(self._root)}: {error}") from error
        found = read_sitemap(self._root, self._deadline)
        self._findings.errors += found.errors
        for one, why in found.skipped:
            self._findings.skip(one, why)
        for address, changed in _with_login(self._root, found):
            reason = patterns.left_out(_path(address), is_folder=False)
            if reason is not None:
                self._findings.skip(public_name(address), reason)
            else:
                self._listed(address, changed)
        if self._deadline.is_over():
            self._findings.errors.append(ScanError(shown(self._root), str(self._deadline.passed()), self._root))

    def _listed(self, address: str, changed: int | None) -> None:
        """Take a page that the sitemap lists; it is asked for only where that cannot tell whether it has changed."""
        before = self._known.get(address)
        if before is None:
            self._add(address, -1, changed or time.time_ns())
        elif self._may_now_be_indexed(before):
            self._add(address, -1, time.time_ns())
        elif changed is not None and changed <= time.time_ns() - _SETTLED_NS:
            self._add(address, before.size, max(changed, before.mtime_ns))
        elif self._probes < MAX_PROBES and not self._deadline.is_over():
            self._probes += 1
            try:
                self._page(address)
            except RootUnreadable as error:
                self._findings.errors.append(ScanError(public_name(address), str(error), address))
        else:
            self._add(address, before.size, before.mtime_ns)

    def _page(self, url: str) -> None:
        """Ask for one page; raises RootUnreadable."""
        known = self._known.get(url)
        told = probe(url, Validators(known.etag, known.last_modified) if known else Validators(), self._deadline)
        if told.noindex and not self._options.noindex:
            self._asks_not_to_be_indexed(url, known)
            return
        if known and (self._may_now_be_indexed(known) or known.checksum.startswith(NOINDEX_TOLD)):
            known = None
        if known and told.unchanged:
            self._add(url, known.size, known.mtime_ns)
            return
        try:
            refuse_type(url, told.content_type)
        except UnsupportedFormat as error:
            raise RootUnreadable(str(error)) from error
        size, mtime_ns = told.size, _time_ns(told.last_modified)
        if known and (size, mtime_ns) != (known.size, known.mtime_ns) and self._is_same(url, known):
            size, mtime_ns = known.size, known.mtime_ns
        self._add(url, size, mtime_ns)

    def _asks_not_to_be_indexed(self, url: str, known: KnownFile | None) -> None:
        """Have the page read unless it was left out before: the reader takes away what is known of it."""
        if known and known.checksum.startswith(NOINDEX_READ):
            self._add(url, known.size, known.mtime_ns)
        else:
            self._add(url, -1, time.time_ns())

    def _may_now_be_indexed(self, known: KnownFile) -> bool:
        return self._options.noindex and known.checksum.startswith(NOINDEX_READ)

    def _is_same(self, url: str, known: KnownFile) -> bool:
        """Compare the content itself: many servers tell no date, or the time of the request."""
        try:
            found = bytes_checksum(fetch(url, until=self._deadline).content)
            return found == known.checksum.removeprefix(NOINDEX_READ)
        except SourceError:
            return False  # the reader will meet the same error and report it for this page

    def _add(self, url: str, size: int, mtime_ns: int) -> None:
        self._findings.files.append(SourceFile(url, public_name(url), size, mtime_ns, options=self._options))


def _with_login(root: str, found: Sitemap) -> list[tuple[str, int | None]]:
    """The pages by address; those to which the sitemap's own user and password may be sent carry them."""
    login, scheme = login_of(root), urlsplit(public_name(root)).scheme.lower()
    return [
        (with_login(address, login) if login and address.lower().startswith(f"{scheme}://") else address, changed)
        for address, changed in found.pages.items()
    ]


def _path(address: str) -> str:
    parts = urlsplit(public_name(address))
    return (parts.path.strip("/") or "index") + (f"?{parts.query}" if parts.query else "")


def _time_ns(last_modified: str | None) -> int:
    try:
        return int(parsedate_to_datetime(last_modified or "").timestamp() * 1e9)
    except (ValueError, OverflowError):
        return time.time_ns()
