"""Source roots on the local disk."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import quote_from_bytes, unquote, urlsplit

from rag_assets.documents.normalize import normalize
from rag_assets.documents.registry import supported
from rag_assets.errors import InvalidArgument, ParseError, RootUnreadable
from rag_assets.sources import ignore
from rag_assets.sources.beneath import Place, folder_at, read_at, status_of
from rag_assets.sources.listing import NO_PARSER, Findings, RootListing, ScanError, SourceFile
from rag_assets.sources.options import RootOptions
from rag_assets.sources.patterns import Patterns, patterns_of
from rag_assets.sources.secrets import shown

LEADS_OUT = "a link that leads out of the root"
LEADS_NOWHERE = "a link that leads nowhere"
NO_FILE = "neither a file nor a folder"


def to_path(root: str) -> Path:
    """Return the absolute path that a path or `file://` URI names.

    Raises:
        RootUnreadable: the path is relative, or the URI names another host.
    """
    text = root
    if root.lower().startswith("file:"):
        parts = urlsplit(root)
        if parts.netloc not in ("", "localhost"):
            raise RootUnreadable(f"{shown(root)}: a file URI must name this machine: file:///path")
        # File names are bytes: those that are not UTF-8 come back as they were.
        text = unquote(parts.path, errors="surrogateescape")
    path = Path(os.path.normpath(os.path.expanduser(text)))
    if "\0" in text or not path.is_absolute():
        raise RootUnreadable(f"{root!r}: a local root must be an absolute path")
    return path


def scan_local(root: str, options: RootOptions) -> RootListing:
    """List a folder and everything below it, or one file.

    Left out are hidden entries, what the names of files and folders or the patterns of the root's owner exclude, and
    symbolic links that lead out of the root. A linked folder that is also reached without the link is listed once.

    Raises:
        RootUnreadable: the root is missing, may not be listed, or its options hold what is no pattern.
    """
    path = to_path(root)
    try:
        patterns = patterns_of(options)
        # The links of the root's own path are the operator's; from here on none is followed unseen.
        real = os.path.realpath(path)
        status = status_of(real)
        if stat.S_ISREG(status.st_mode):
            return _single_file(path, real, status, options)
        if not stat.S_ISDIR(status.st_mode):
            raise RootUnreadable(f"{path}: neither a folder nor a file")
        return _Walk(path, real, patterns).run()
    except OSError as error:
        raise RootUnreadable(f"{path}: {error.strerror or error}") from error
    except InvalidArgument as error:
        raise RootUnreadable(f"{path}: {error}") from error


def locate(root: str, uri: str) -> SourceFile:
    """A file of a root as it is now, found without a listing.

    Raises:
        RootUnreadable: `root` or `uri` is no local one.
        ParseError: the file is gone, may not be seen, or lies outside of the root.
    """
    path, base = to_path(uri), to_path(root)
    real, real_base = os.path.realpath(path), os.path.realpath(base)
    if not _is_inside(real, real_base):
        raise ParseError(f"{uri} lies outside of its root {root}")
    try:
        status = status_of(real)
    except OSError as error:
        raise ParseError(f"{uri} could not be read: {error.strerror or error}") from error
    return _source(uri, path.name, Place.of(real, status), RootOptions())


def _single_file(path: Path, real: str, status: os.stat_result, options: RootOptions) -> RootListing:
    findings = Findings()
    reason = ignore.left_out_file(path.name)
    if reason not in (None, ignore.HIDDEN):  # who names a hidden file means it
        findings.skip(normalize(path.name), reason)
    elif not supported(path.name):
        findings.skip(normalize(path.name), NO_PARSER)
    else:
        findings.files.append(_source(path.as_uri(), normalize(path.name), Place.of(real, status), options))
    return findings.listing()


def _source(uri: str, path_in_root: str, place: Place, options: RootOptions) -> SourceFile:
    inode = place.inode if place.inode < 2**63 else place.inode - 2**64  # as the database holds it
    return SourceFile(
        uri,
        path_in_root,
        place.size,
        place.mtime_ns,
        place.ctime_ns,
        inode if place.lasting else None,
        place,
        options,
    )


def _is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder to be listed: its path without links, its path below the root, "" or with "/" at its end, its URI
    likewise, and the patterns that hold around it."""

    real: str
    relative: str
    uri: str
    patterns: Patterns


class _Walk:
    def __init__(self, root: Path, real_root: str, patterns: Patterns) -> None:
        self._real_root, self._options = real_root, patterns.options
        self._findings = Findings()
        self._top = _Folder(real_root, "", root.as_uri().rstrip("/") + "/", patterns)
        self._seen: set[str] = set()
        self._folders: list[_Folder] = []
        self._linked: deque[_Folder] = deque()

    def run(self) -> RootListing:
        """List everything; raises OSError and InvalidArgument for the root itself."""
        self._list(self._top)
        # Linked folders last: what can be reached without a link is listed under its own path.
        while self._folders or self._linked:
            folder = self._folders.pop() if self._folders else self._linked.popleft()
            try:
                self._list(folder)
            except (OSError, InvalidArgument, ParseError) as error:
                self._error(folder.relative, folder.uri, error)
        return self._findings.listing()

    def _list(self, folder: _Folder) -> None:
        if folder.real in self._seen:
            return
        self._seen.add(folder.real)
        with folder_at(folder.real, to_list=True) as descriptor:
            with os.scandir(descriptor) as found:
                entries = sorted(found, key=lambda entry: entry.name)
            names = {entry.name for entry in entries}
            read = partial(read_at, descriptor)
            if folder is not self._top and not self._options.all_folders and ignore.is_marked_by_programs(names, read):
                self._findings.skip(folder.relative, ignore.PROGRAMS)
                return
            patterns = folder.patterns.within(folder.relative, names, read)
            self._take(_Folder(folder.real, folder.relative, folder.uri, patterns), entries, names)

    def _take(self, folder: _Folder, entries: Iterable[os.DirEntry[str]], names: set[str]) -> None:
        for entry in entries:
            try:
                self._entry(folder, entry, names)
            except (OSError, ParseError) as error:
                self._error(folder.relative + normalize(entry.name), folder.uri + _quoted(entry.name), error)

    def _entry(self, folder: _Folder, entry: os.DirEntry[str], names: set[str]) -> None:
        if entry.is_symlink():
            self._link(folder, entry.name, names)
        elif entry.is_dir(follow_symlinks=False):
            self._folder(folder, entry.name, _below(folder.real, entry.name), names, self._folders.append)
        elif entry.is_file(follow_symlinks=False):
            if self._is_read(folder, entry.name):
                status = entry.stat(follow_symlinks=False)
                lasting = entry.inode() == status.st_ino
                self._add(folder, entry.name, Place.of(_below(folder.real, entry.name), status, lasting))
        else:
            self._skip(folder, entry.name, NO_FILE)

    def _link(self, folder: _Folder, name: str, names: set[str]) -> None:
        real = os.path.realpath(_below(folder.real, name))
        if not _is_inside(real, self._real_root):
            self._skip(folder, name, LEADS_OUT)
            return
        try:
            status = status_of(real)
        except FileNotFoundError:
            self._skip(folder, name, LEADS_NOWHERE)
            return
        if stat.S_ISDIR(status.st_mode):
            self._folder(folder, name, real, names, self._linked.append)
        elif stat.S_ISREG(status.st_mode):
            if self._is_read(folder, name):
                self._add(folder, name, Place.of(real, status))
        else:
            self._skip(folder, name, LEADS_NOWHERE if stat.S_ISLNK(status.st_mode) else NO_FILE)

    def _folder(self, folder: _Folder, name: str, real: str, names: set[str], put: Callable[[_Folder], object]) -> None:
        relative = folder.relative + normalize(name)
        reason = ignore.left_out_folder(name)
        if reason is None and not self._options.all_folders and ignore.is_filled_by_programs(name, names):
            reason = ignore.PROGRAMS
        reason = reason or folder.patterns.left_out(relative, is_folder=True)
        if reason is None:
            put(_Folder(real, f"{relative}/", f"{folder.uri}{_quoted(name)}/", folder.patterns))
        else:
            self._findings.skip(f"{relative}/", reason)

    def _is_read(self, folder: _Folder, name: str) -> bool:
        reason = ignore.left_out_file(name) or folder.patterns.left_out(folder.relative + normalize(name), False)
        if reason is None and not supported(name):
            reason = NO_PARSER
        if reason is not None:
            self._skip(folder, name, reason)
        return reason is None

    def _add(self, folder: _Folder, name: str, place: Place) -> None:
        found = _source(folder.uri + _quoted(name), folder.relative + normalize(name), place, self._options)
        self._findings.files.append(found)

    def _skip(self, folder: _Folder, name: str, reason: str) -> None:
        self._findings.skip(folder.relative + normalize(name), reason)

    def _error(self, relative: str, uri: str, error: Exception) -> None:
        message = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        self._findings.errors.append(ScanError(relative, f"{relative}: {message}", uri))


def _below(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}"


def _quoted(name: str) -> str:
    return quote_from_bytes(os.fsencode(name))
