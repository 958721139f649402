"""Source roots in object stores that fsspec speaks to."""

from __future__ import annotations

import time
from datetime import datetime
from functools import partial
from typing import Any

import fsspec

from rag_assets.documents.normalize import normalize
from rag_assets.documents.registry import supported
from rag_assets.errors import InvalidArgument, RootUnreadable
from rag_assets.sources import addresses, ignore
from rag_assets.sources.deadline import Deadline, reading, scanning, within
from rag_assets.sources.listing import NO_PARSER, Findings, RootListing, ScanError, SourceFile
from rag_assets.sources.options import RootOptions
from rag_assets.sources.patterns import Patterns, patterns_of

_TIME_FIELDS = ("mtime", "LastModified", "last_modified", "updated", "created")


def scan_remote(root: str, options: RootOptions) -> RootListing:
    """List the address of an object store such as `s3://bucket/folder`, and everything below it.

    Raises:
        RootUnreadable: no such root, no access, no driver for its kind of store, or no answer in time.
    """
    deadline = scanning(root)
    try:
        patterns = patterns_of(options)
    except InvalidArgument as error:
        raise RootUnreadable(f"{root}: {error}") from error
    filesystem, path, is_file, entries = _first_look(root, deadline)
    walk = _Walk(filesystem, path, deadline, patterns)
    if is_file:
        walk.take("", entries, patterns)
    else:
        walk.run(entries)
    return walk.findings.listing()


def open_remote(uri: str, limit: int) -> bytes:
    """Return at most `limit` bytes of a file.

    Raises:
        RootUnreadable: not in time, or the address is of no kind that is read.
    """

    def read() -> bytes:
        filesystem, path = driver(uri)
        with filesystem.open(path, "rb") as file:
            data: bytes = file.read(limit)
        return data

    return within(reading(uri), read)


def driver(uri: str) -> tuple[Any, str]:
    """The file system of an address, and the path in it. fsspec's own way would follow a `::` in the name of a file."""
    scheme = addresses.scheme_of(uri)
    if scheme not in addresses.STORES:
        raise RootUnreadable(f"{uri}: {addresses.ALLOWED}")
    kind = fsspec.get_filesystem_class(scheme)
    # What fsspec asks of each kind of store, and offers under no other name.
    return kind(**kind._get_kwargs_from_urls(uri)), kind._strip_protocol(uri)


def _first_look(root: str, deadline: Deadline) -> tuple[Any, str, bool, list[dict[str, Any]]]:
    def look() -> tuple[Any, str, bool, list[dict[str, Any]]]:
        filesystem, path = driver(root)
        filesystem.invalidate_cache()
        info = filesystem.info(path) if path.strip("/") else {"type": "directory"}
        is_file = info["type"] == "file"
        return filesystem, path, is_file, [info] if is_file else filesystem.ls(path, detail=True)

    # Each store has errors of its own kind, and none of them may look like an empty root.
    try:
        return within(deadline, look)
    except RootUnreadable:
        raise
    except ImportError as error:
        raise RootUnreadable(f"{root}: a driver for this kind of store is not installed: {error}") from error
    except Exception as error:
        raise RootUnreadable(f"{root}: {said(error)}") from error


def said(error: Exception) -> str:
    """What went wrong, in words where the error has some."""
    if isinstance(error, FileNotFoundError):
        return "No such file or directory"
    if isinstance(error, PermissionError):
        return f"no access: {error.strerror or error}"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


class _Walk:
    def __init__(self, filesystem: Any, root: str, deadline: Deadline, patterns: Patterns) -> None:
        self._filesystem, self._root = filesystem, root.rstrip("/")
        self._deadline, self._top = deadline, patterns
        self.findings = Findings()
        self._folders: list[tuple[str, Patterns]] = []
        self._seen: set[tuple[str, str]] = set()

    def run(self, entries: list[dict[str, Any]]) -> None:
        """List what lies below the root, whose own entries these are."""
        self._seen.add((self._root, "directory"))
        self._visit(self._root, entries, self._top)
        while self._folders:
            folder, patterns = self._folders.pop()
            try:
                listed = within(self._deadline, partial(self._filesystem.ls, folder, detail=True))
            # One folder that cannot be listed must not hide the others, whatever the store raises for it.
            except Exception as error:
                self._error(folder, error)
            else:
                self._visit(folder, listed, patterns)

    def _visit(self, folder: str, entries: list[dict[str, Any]], around: Patterns) -> None:
        relative = "" if folder == self._root else self._relative(folder) + "/"
        names = {_name(entry) for entry in entries}
        read = partial(self._read, folder)
        try:
            if relative and not around.options.all_folders and ignore.is_marked_by_programs(names, read):
                self.findings.skip(relative, ignore.PROGRAMS)
                return
            patterns = around.within(relative, names, read)
        except Exception as error:
            if not relative:
                raise RootUnreadable(f"{self._uri(folder)}: {_text(error)}") from error
            self._error(folder, error)
            return
        self.take(relative, entries, patterns)

    def take(self, folder: str, entries: list[dict[str, Any]], patterns: Patterns) -> None:
        """Take the files, and the folders to be listed, among these entries of a folder ("" or ending with "/")."""
        names = {_name(entry) for entry in entries}
        for entry in entries:
            path, name, kind = entry["name"].rstrip("/"), _name(entry), entry["type"]
            # Object stores list a folder's own marker among its contents.
            if not name or (path, kind) in self._seen or (kind == "file" and entry["name"].endswith("/")):
                continue
            self._seen.add((path, kind))
            relative = folder + normalize(name)
            if kind == "directory":
                self._folder(path, name, relative, names, patterns)
            elif kind == "file":
                self._file(entry, path, relative, patterns)

    def _folder(self, path: str, name: str, relative: str, names: set[str], patterns: Patterns) -> None:
        reason = ignore.left_out_folder(name)
        if reason is None and not patterns.options.all_folders and ignore.is_filled_by_programs(name, names):
            reason = ignore.PROGRAMS
        reason = reason or patterns.left_out(relative, is_folder=True)
        if reason is None:
            self._folders.append((path, patterns))
        else:
            self.findings.skip(f"{relative}/", reason)

    def _file(self, entry: dict[str, Any], path: str, relative: str, patterns: Patterns) -> None:
        reason = ignore.left_out_file(_name(entry)) or patterns.left_out(relative, is_folder=False)
        if reason is None and not supported(relative):
            reason = NO_PARSER
        if reason is not None:
            self.findings.skip(relative, reason)
            return
        size = -1 if entry.get("size") is None else int(entry["size"])
        found = SourceFile(self._uri(path), relative, size, _mtime_ns(entry), options=patterns.options)
        self.findings.files.append(found)

    def _read(self, folder: str, name: str, limit: int) -> bytes:
        def read() -> bytes:
            with self._filesystem.open(f"{folder}/{name}", "rb") as file:
                data: bytes = file.read(limit)
            return data

        return within(self._deadline, read)

    def _error(self, folder: str, error: Exception) -> None:
        relative = self._relative(folder) + "/"
        self.findings.errors.append(ScanError(relative, f"{relative}: {_text(error)}", self._uri(folder) + "/"))

    def _uri(self, path: str) -> str:
        uri: str = self._filesystem.unstrip_protocol(path)
        return uri

    def _relative(self, path: str) -> str:
        inside = path.removeprefix(self._root).lstrip("/")
        return normalize(inside or path.rpartition("/")[2])


def _text(error: Exception) -> str:
    if isinstance(error, RootUnreadable):
        return str(error).partition(": ")[2] or str(error)
    return said(error)


def _name(entry: dict[str, Any]) -> str:
    name: str = entry["name"].rstrip("/").rpartition("/")[2]
    return name


def _mtime_ns(entry: dict[str, Any]) -> int:
    value = next((entry[field] for field in _TIME_FIELDS if entry.get(field) is not None), None)
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            value = None
    if isinstance(value, datetime):
        return int(value.timestamp() * 1e9)
    return int(value * 1e9) if isinstance(value, (int, float)) else time.time_ns()
