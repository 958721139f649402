"""Source roots on the local disk."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from urllib.parse import unquote, urlsplit

from rag_assets.documents.normalize import normalize
from rag_assets.documents.registry import supported
from rag_assets.errors import RootUnreadable
from rag_assets.sources.listing import Findings, RootListing, ScanError, SourceFile


def to_path(root: str) -> Path:
    """Return the absolute path that a path or `file://` URI names.

    Raises:
        RootUnreadable: the path is relative, or the URI names another host.
    """
    text = root
    if root.lower().startswith("file:"):
        parts = urlsplit(root)
        if parts.netloc not in ("", "localhost"):
            raise RootUnreadable(f"{root}: a file URI must name this machine: file:///path")
        # File names are bytes: those that are not UTF-8 come back as they were.
        text = unquote(parts.path, errors="surrogateescape")
    path = Path(os.path.normpath(os.path.expanduser(text)))
    if "\0" in text or not path.is_absolute():
        raise RootUnreadable(f"{root!r}: a local root must be an absolute path")
    return path


def scan_local(root: str) -> RootListing:
    """List a folder and everything below it, or one file.

    Hidden entries are left out, as are symbolic links that lead out of the root. A linked folder that is also
    reached without the link is listed once.

    Raises:
        RootUnreadable: the root is missing, or may not be listed.
    """
    path = to_path(root)
    try:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):
            return _single_file(path)
        if not stat.S_ISDIR(mode):
            raise RootUnreadable(f"{path}: neither a folder nor a file")
        entries = _entries(path)
    except OSError as error:
        raise RootUnreadable(f"{path}: {error.strerror or error}") from error
    return _Walk(path).run(entries)


def _single_file(path: Path) -> RootListing:
    findings = Findings()
    _add(findings, path, path.name)
    return findings.listing()


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return sorted((e for e in entries if not e.name.startswith(".")), key=lambda entry: entry.name)


def _add(findings: Findings, path: Path, relative: str) -> None:
    if not supported(path.name):
        findings.skipped.append(normalize(relative))
        return
    status = path.stat()
    found = SourceFile(path.as_uri(), normalize(relative), status.st_size, status.st_mtime_ns)
    findings.files.append(found)


class _Walk:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.real_root = Path(os.path.realpath(root))
        self.findings = Findings()
        self.seen = {self.real_root}
        self.folders: list[Path] = []
        self.linked: list[Path] = []

    def run(self, entries: list[os.DirEntry[str]]) -> RootListing:
        self._take(entries)
        # Linked folders last: what can be reached without a link is listed under its own path.
        while self.folders or self.linked:
            self._folder(self.folders.pop() if self.folders else self.linked.pop(0))
        return self.findings.listing()

    def _folder(self, folder: Path) -> None:
        real = Path(os.path.realpath(folder))
        if real in self.seen:
            return
        self.seen.add(real)
        try:
            self._take(_entries(folder))
        except OSError as error:
            self._error(folder, error, "/")

    def _take(self, entries: list[os.DirEntry[str]]) -> None:
        for entry in entries:
            path = Path(entry.path)
            try:
                self._entry(entry, path)
            except OSError as error:
                self._error(path, error, "")

    def _entry(self, entry: os.DirEntry[str], path: Path) -> None:
        linked = entry.is_symlink()
        if linked and not self._inside(path):
            return
        if entry.is_dir():
            (self.linked if linked else self.folders).append(path)
        elif entry.is_file():
            _add(self.findings, path, self._relative(path))

    def _inside(self, path: Path) -> bool:
        return Path(os.path.realpath(path)).is_relative_to(self.real_root)

    def _relative(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    def _error(self, path: Path, error: OSError, end: str) -> None:
        relative = normalize(self._relative(path)) + end
        message = f"{relative}: {error.strerror or error}"
        self.findings.errors.append(ScanError(relative, message, path.as_uri() + end))
