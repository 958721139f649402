"""What has changed under a source root since it was last read."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from rag_assets.documents.names import is_web
from rag_assets.documents.registry import PARSER_VERSION, supported
from rag_assets.sources.scan import RootListing, SourceFile
from rag_assets.store.sources import FileState


@dataclass(frozen=True)
class RootChanges:
    """The decision about a root: which files to read, and which have gone."""

    to_read: tuple[SourceFile, ...]
    kept: tuple[str, ...]  # uris that are as they were
    gone: tuple[str, ...]


def decide(listing: RootListing, known: dict[str, FileState], elsewhere: Container[str] = frozenset()) -> RootChanges:
    """Compare what lies under a root with what was read before.

    A file whose size, time and parser are the same is not read again, nor is one that another root of the
    space has covered in this scan: `elsewhere`. What lies under a folder that could not be listed counts as
    there, because not seeing it is no proof that it has gone; nor is that this process has no parser for it, which
    another one had.
    """
    to_read: list[SourceFile] = []
    kept: list[SourceFile] = []
    for file in listing.files:
        if file.uri in elsewhere:
            continue
        state = known.get(file.uri)
        same = (
            state is not None
            and (state.size, state.mtime_ns) == (file.size, file.mtime_ns)
            and state.parser_version == PARSER_VERSION
        )
        (kept if same else to_read).append(file)
    listed = {file.uri for file in listing.files}
    hidden = tuple(error.uri for error in listing.errors)
    gone = tuple(uri for uri in known if uri not in listed and _is_seen(uri) and not _under(uri, hidden))
    return RootChanges(tuple(to_read), tuple(file.uri for file in kept), gone)


def _is_seen(uri: str) -> bool:
    """Whether a listing would name the file if it were there."""
    return is_web(uri) or supported(uri)


def _under(uri: str, hidden: Sequence[str]) -> bool:
    return any(uri == part or uri.startswith(part.rstrip("/") + "/") for part in hidden)
