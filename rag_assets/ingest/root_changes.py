"""What has changed under a source root since it was last read."""

from __future__ import annotations

import time
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from rag_assets.documents.names import is_web
from rag_assets.documents.registry import PARSER_VERSION, supported
from rag_assets.settings import load_settings
from rag_assets.sources.listing import NOINDEX, NOINDEX_READ
from rag_assets.sources.pushed import is_pushed
from rag_assets.sources.scan import RootListing, SourceFile
from rag_assets.store.roots import Root, Skipped
from rag_assets.store.sources import FileState, hash_uri


@dataclass(frozen=True)
class RootChanges:
    """The decision about a root: which files to read, and which have gone.

    `gone` are those that the scan before has seen, `held` those that an earlier one has found gone, and kept. `shared`
    are files that another root of the space has covered, and that are not known to be this one's too, or not as they
    are now.
    """

    to_read: tuple[SourceFile, ...]
    kept: tuple[str, ...]  # uris that are as they were
    gone: tuple[str, ...]
    held: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()


def decide(
    listing: RootListing, known: Mapping[str, FileState], elsewhere: Container[str] = frozenset()
) -> RootChanges:
    """Compare what lies under a root with what was read before.

    A file whose size, times, number and parser are the same is not read again until its day has come, unless it was
    held back as gone; nor is one that another root of the space has covered in this scan: `elsewhere`. What lies under
    a folder that could not be listed counts as there, because not seeing it is no proof that it has gone; nor is that
    this process has no parser for it, which another one had.
    """
    to_read: list[SourceFile] = []
    kept: list[SourceFile] = []
    shared: list[SourceFile] = []
    today, days = _day(time.time()), load_settings().reread_days
    for file in listing.files:
        same = _is_same(file, known.get(file.uri), today, days)
        if file.uri not in elsewhere:
            (kept if same else to_read).append(file)
        elif not same:
            shared.append(file)
    listed = {file.uri for file in listing.files}
    hidden = tuple(prefix for error in listing.errors for prefix in (error.uri, *error.also))
    away = [uri for uri in known if uri not in listed and _is_seen(uri) and not _under(uri, hidden)]
    return RootChanges(
        to_read=tuple(to_read),
        kept=tuple(file.uri for file in kept),
        gone=tuple(uri for uri in away if not known[uri].held),
        held=tuple(uri for uri in away if known[uri].held),
        shared=tuple(file.uri for file in shared),
    )


def _is_same(file: SourceFile, state: FileState | None, today: int, days: int) -> bool:
    return (
        state is not None
        and not state.held
        and (state.size, state.mtime_ns) == (file.size, file.mtime_ns)
        and state.parser_version == PARSER_VERSION
        and _agree(state.ctime_ns, file.ctime_ns)
        and _agree(state.inode, file.inode)
        and not _is_due(file.uri, state, today, days)
    )


def _agree(known: int | None, found: int | None) -> bool:
    return known is None or found is None or known == found


def _is_due(uri: str, state: FileState, today: int, days: int) -> bool:
    """Whether a file has to be read again however it looks: after half of the days to all of them, so that what was
    first read on one day is not all read again on one day. It turns at midnight UTC: once a day there is work."""
    if state.read_at is None:
        return False
    if state.read_at.timestamp() <= 0:
        return True  # by `let_files_be_reread`
    if not days:
        return False
    earlier = int.from_bytes(hash_uri(uri)[:4], "big") % (days // 2 + 1)
    return today >= _day(state.read_at.timestamp()) + days - earlier


def _day(seconds: float) -> int:
    return int(seconds // 86400)


def _is_seen(uri: str) -> bool:
    """Whether a listing would name the file if it were there."""
    return is_web(uri) or is_pushed(uri) or supported(uri)


def _under(uri: str, hidden: Sequence[str]) -> bool:
    return any(uri == part or uri.startswith(part.rstrip("/") + "/") for part in hidden)


_EXAMPLES = 5
# A bucket costs a request to list, a page one to see whether it has changed.
_REMOTE_EVERY_S = 900


def skipped_by_reason(listing: RootListing, noindex: Sequence[str] = ()) -> dict[str, Skipped]:
    """What of a root is not read, by reason, with the first files and folders; `noindex` are pages that ask for it."""
    found = {
        reason: Skipped(count=count, examples=tuple(islice(_named(listing, reason), _EXAMPLES)))
        for reason, count in listing.skipped_counts.items()
    }
    if noindex:
        found[NOINDEX] = Skipped(count=len(noindex), examples=tuple(sorted(noindex)[:_EXAMPLES]))
    return found


def left_out_before(listing: RootListing, changes: RootChanges, known: Mapping[str, FileState]) -> list[str]:
    """The pages that were left out when they were last read, as they ask for it, and are as they were."""
    left_out = {uri for uri in changes.kept if known[uri].checksum.startswith(NOINDEX_READ)}
    return [file.path_in_root for file in listing.files if file.uri in left_out]


def _named(listing: RootListing, reason: str) -> Iterator[str]:
    return (one.path for one in listing.skipped if one.reason == reason)


def interval_s(root: Root) -> int | None:
    """Seconds between two looks at the root; None where it is looked at each time."""
    return root.options.interval_s or (_REMOTE_EVERY_S if is_remote(root.uri) else None)


def is_due(root: Root, now: datetime) -> bool:
    """Whether the root is to be looked at now."""
    return root.next_scan_at is None or now >= root.next_scan_at


def is_remote(uri: str) -> bool:
    """Whether a root is reached over a network."""
    return "://" in uri and not uri.lower().startswith("file:") and not is_pushed(uri)
