"""Source roots in object stores and on other file systems that fsspec speaks to."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

import fsspec

from rag_assets.documents.normalize import normalize
from rag_assets.documents.registry import supported
from rag_assets.errors import RootUnreadable
from rag_assets.sources.listing import Findings, RootListing, ScanError, SourceFile

_TIME_FIELDS = ("mtime", "LastModified", "last_modified", "updated", "created")


def scan_remote(root: str) -> RootListing:
    """List an fsspec URI such as `s3://bucket/folder`, and everything below it.

    Raises:
        RootUnreadable: no such root, no access, or no driver for its kind of store.
    """
    # Each store has errors of its own kind, and none of them may look like an empty root.
    try:
        filesystem, path = fsspec.core.url_to_fs(root)
        filesystem.invalidate_cache()
        info = filesystem.info(path) if path.strip("/") else {"type": "directory"}
        entries = [info] if info["type"] == "file" else filesystem.ls(path, detail=True)
    except ImportError as error:
        raise RootUnreadable(f"{root}: a driver for this kind of store is not installed: {error}") from error
    except Exception as error:
        raise RootUnreadable(f"{root}: {type(error).__name__}: {error}") from error
    walk = _Walk(filesystem, path.rstrip("/"))
    if info["type"] != "file":
        # Object stores list a folder's own marker object among its contents.
        walk.seen.add(walk.root)
    walk.run(entries)
    return walk.findings.listing()


def open_remote(uri: str, limit: int) -> bytes:
    """Return at most `limit` bytes of a file."""
    with fsspec.open(uri, "rb") as file:
        data: bytes = file.read(limit)
    return data


class _Walk:
    def __init__(self, filesystem: Any, root: str) -> None:
        self.filesystem = filesystem
        self.root = root
        self.findings = Findings()
        self.folders: list[str] = []
        self.seen: set[str] = set()

    def run(self, entries: list[dict[str, Any]]) -> None:
        self._take(entries)
        while self.folders:
            folder = self.folders.pop()
            try:
                self._take(self.filesystem.ls(folder, detail=True))
            # One folder that cannot be listed must not hide the others, whatever the store raises for it.
            except Exception as error:
                relative, uri = self._relative(folder) + "/", self._uri(folder) + "/"
                message = f"{relative}: {type(error).__name__}: {error}"
                self.findings.errors.append(ScanError(relative, message, uri))

    def _take(self, entries: list[dict[str, Any]]) -> None:
        for entry in entries:
            path = entry["name"].rstrip("/")
            if path in self.seen or path.rpartition("/")[2].startswith("."):
                continue
            self.seen.add(path)
            if entry["type"] == "directory":
                self.folders.append(path)
            elif entry["type"] == "file":
                self._file(entry, path)

    def _file(self, entry: dict[str, Any], path: str) -> None:
        relative = self._relative(path)
        if not supported(relative):
            self.findings.skipped.append(relative)
            return
        size = entry.get("size")
        found = SourceFile(self._uri(path), relative, -1 if size is None else int(size), _mtime_ns(entry))
        self.findings.files.append(found)

    def _uri(self, path: str) -> str:
        uri: str = self.filesystem.unstrip_protocol(path)
        return uri

    def _relative(self, path: str) -> str:
        inside = path.removeprefix(self.root).lstrip("/")
        return normalize(inside or path.rpartition("/")[2])


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
