"""The values that a scan of a source root returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class SourceFile:
    """A file under a root. `uri` is its identity everywhere; `path_in_root` is for people.

    `size` is in bytes, -1 where unknown. `mtime_ns` is in nanoseconds since the epoch; where a store does not
    tell it, it is the time of the scan, so that the file counts as changed.
    """

    uri: str
    path_in_root: str
    size: int
    mtime_ns: int


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
    prefix of the URIs of all files in the folder.
    """

    path: str
    message: str
    uri: str = ""


@dataclass(frozen=True)
class RootListing:
    """Files that a parser takes, parts that could not be listed, paths that no parser takes; all sorted."""

    files: tuple[SourceFile, ...]
    errors: tuple[ScanError, ...] = ()
    skipped: tuple[str, ...] = ()


@dataclass
class Findings:
    """A listing while it is being made."""

    files: list[SourceFile] = field(default_factory=list)
    errors: list[ScanError] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def listing(self) -> RootListing:
        return RootListing(
            files=tuple(sorted(self.files, key=lambda file: file.uri)),
            errors=tuple(sorted(self.errors, key=lambda error: error.path)),
            skipped=tuple(sorted(self.skipped)),
        )
