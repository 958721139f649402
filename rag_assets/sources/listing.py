"""The values that a scan of a source root returns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from rag_assets.sources.beneath import Place
from rag_assets.sources.options import DEFAULT_OPTIONS, RootOptions

NO_PARSER = "no parser takes it"
NOINDEX = "the page asks robots not to index it (noindex)"
# Before the checksum of a page that was read, and left out for that; where its server asked, and not the page itself,
# the longer one: then the same bytes may be wanted again.
NOINDEX_READ = "noindex:"
NOINDEX_TOLD = f"{NOINDEX_READ}header:"
_LARGEST = 2**63 - 1
NAMED_SKIPPED = 200  # names kept for each reason; beyond, what is left out is counted only


@dataclass(frozen=True)
class Given:
    """What somebody handed over with a document that lies at no address: how its bytes are `read`, its number, and
    since when it is as it is."""

    read: Callable[[], bytes]
    id: int
    at: datetime
    content_type: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SourceFile:
    """A file under a root. `uri` is its identity everywhere; `path_in_root` is for people.

    `size` is in bytes, -1 where unknown. `mtime_ns` is in nanoseconds since the epoch; where a store does not
    tell it, it is the time of the scan, so that the file counts as changed. `ctime_ns` and `inode` are those of its
    file system, None where it has none or they do not last. `place` is where a file of this machine was found,
    `options` are those of its root, and `given` is what was handed over with it.

    Sizes and times are those that 64 bits hold: a server may say anything, and so does `touch`, and one file of the
    year 9999 must not keep the others of its tenant from being stored.
    """

    uri: str
    path_in_root: str
    size: int
    mtime_ns: int
    ctime_ns: int | None = None
    inode: int | None = None
    place: Place | None = field(default=None, repr=False)
    options: RootOptions = field(default=DEFAULT_OPTIONS, repr=False)
    given: Given | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("size", "mtime_ns", "ctime_ns"):
            value = getattr(self, name)
            if value is not None and not -_LARGEST <= value <= _LARGEST:
                object.__setattr__(self, name, max(-_LARGEST, min(value, _LARGEST)))


class KnownFile(Protocol):
    """What is known of a file that was read before. `checksum` is that of its bytes, `etag` and `last_modified`
    are what its web server said of that version."""

    @property
    def size(self) -> int: ...
    @property
    def mtime_ns(self) -> int: ...
    @property
    def checksum(self) -> str: ...
    @property
    def etag(self) -> str | None: ...
    @property
    def last_modified(self) -> str | None: ...


@dataclass(frozen=True)
class ScanError:
    """A part of a root that could not be listed: its sources must be kept, for nobody knows what is there.

    `path` is relative to the root and ends with `/` for a folder; `uri` is that of the file, or the common
    prefix of the URIs of all files in the folder; `also` are further such prefixes.
    """

    path: str
    message: str
    uri: str = ""
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class Skipped:
    """What was left out of a listing, and why; the path of a folder, of which nothing was looked at, ends with `/`."""

    path: str
    reason: str


@dataclass(frozen=True)
class RootListing:
    """Files to be read, parts that could not be listed, and what is left out; all sorted.

    `skipped_counts` has the number of paths by reason, `skipped` the names of the first 200 of each.
    """

    files: tuple[SourceFile, ...]
    errors: tuple[ScanError, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    skipped_counts: Mapping[str, int] = field(default_factory=dict)


@dataclass
class Findings:
    """A listing while it is being made."""

    files: list[SourceFile] = field(default_factory=list)
    errors: list[ScanError] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def skip(self, path: str, reason: str) -> None:
        """Count what is left out, and name it unless many were for the same reason."""
        self.counts[reason] += 1
        if self.counts[reason] <= NAMED_SKIPPED:
            self.skipped.append(Skipped(path, reason))

    def listing(self) -> RootListing:
        return RootListing(
            files=tuple(sorted(self.files, key=lambda file: file.uri)),
            errors=tuple(sorted(self.errors, key=lambda error: error.path)),
            skipped=tuple(sorted(self.skipped, key=lambda one: (one.path, one.reason))),
            skipped_counts=dict(sorted(self.counts.items())),
        )
