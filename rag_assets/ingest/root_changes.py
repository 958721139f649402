"""What has changed under a source root since it was last read."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from rag_assets.documents.names import is_web
from rag_assets.documents.registry import PARSER_VERSION, supported
from rag_assets.sources.scan import RootListing, SourceFile
from rag_assets.store.roots import Root, Skipped
from rag_assets.store.sources import FileState


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

    A file whose size, time and parser are the same is not read again, unless it was held back as gone; nor is one that
    another root of the space has covered in this scan: `elsewhere`. What lies under a folder that could not be listed
    counts as there, because not seeing it is no proof that it has gone; nor is that this process has no parser for it,
    which another one had.
    """
    to_read: list[SourceFile] = []
    kept: list[SourceFile] = []
    shared: list[SourceFile] = []
    for file in listing.files:
        same = _is_same(file, known.get(file.uri))
        if file.uri not in elsewhere:
            (kept if same else to_read).append(file)
        elif not same:
            shared.append(file)
    listed = {file.uri for file in listing.files}
    hidden = tuple(error.uri for error in listing.errors)
    away = [uri for uri in known if uri not in listed and _is_seen(uri) and not _under(uri, hidden)]
    return RootChanges(
        to_read=tuple(to_read),
        kept=tuple(file.uri for file in kept),
        gone=tuple(uri for uri in away if not known[uri].held),
        held=tuple(uri for uri in away if known[uri].held),
        shared=tuple(file.uri for file in shared),
    )


def _is_same(file: SourceFile, state: FileState | None) -> bool:
    return (
        state is not None
        and not state.held
        and (state.size, state.mtime_ns) == (file.size, file.mtime_ns)
        and state.parser_version == PARSER_VERSION
    )


def _is_seen(uri: str) -> bool:
    """Whether a listing would name the file if it were there."""
    return is_web(uri) or supported(uri)


def _under(uri: str, hidden: Sequence[str]) -> bool:
    return any(uri == part or uri.startswith(part.rstrip("/") + "/") for part in hidden)


_EXAMPLES = 5
# A bucket costs a request to list, a page one to see whether it has changed.
_REMOTE_EVERY_S = 900


def skipped_by_reason(listing: RootListing) -> dict[str, Skipped]:
    """What of a root is not read, by reason, with the first files."""
    if not listing.skipped:
        return {}
    return {"no parser": Skipped(count=len(listing.skipped), examples=listing.skipped[:_EXAMPLES])}


def interval_s(root: Root) -> int | None:
    """Seconds between two looks at the root; None where it is looked at each time."""
    return root.options.interval_s or (_REMOTE_EVERY_S if is_remote(root.uri) else None)


def is_remote(uri: str) -> bool:
    """Whether a root is reached over a network."""
    return "://" in uri and not uri.lower().startswith("file:")
