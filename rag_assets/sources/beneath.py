"""Files and folders of this machine, opened without following any link and without ever waiting for one.

A listing resolves the links that it allows, and notes where a file lies and which file it is (`Place`). What is opened
later is that very file, whoever has put a link, a pipe or another folder in its place since: each folder on the way
from `/` is opened by its descriptor, and the last step shows that the file is the one that was listed.

A file system that does not answer, such as a network share whose server is away, cannot be interrupted here: whoever
mounts it decides how long it waits (`soft`, `timeo`).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rag_assets.errors import ParseError

MAX_DEPTH = 256  # folders within each other, from `/`: each look-up goes through all of them
_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A pipe that nobody writes to, or a terminal, must not hold this process.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Place:
    """Where a file lies, as an absolute path without links, and which one it is.

    `lasting`: its file system gives a file the same number each time. Where that is not so, as on some in user space,
    a file is known by its size and times.
    """

    path: str
    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    lasting: bool = True

    @staticmethod
    def of(path: str, status: os.stat_result, lasting: bool = True) -> Place:
        return Place(
            path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, lasting
        )

    def is_that_of(self, status: os.stat_result) -> bool:
        """Whether it is the file that has this status."""
        if status.st_dev != self.device:
            return False
        if self.lasting:
            return status.st_ino == self.inode
        return (status.st_size, status.st_mtime_ns, status.st_ctime_ns) == (self.size, self.mtime_ns, self.ctime_ns)


@contextmanager
def folder_at(path: str, to_list: bool = False) -> Iterator[int]:
    """The descriptor of a folder, given by its absolute path; a link on the way is an error. One that is not `to_list`
    may only serve to look up what lies in it.

    Raises:
        OSError: it cannot be opened.
    """
    parts = [part for part in path.split("/") if part]
    if len(parts) > MAX_DEPTH:
        raise OSError(errno.ENAMETOOLONG, f"it lies deeper than {MAX_DEPTH} folders", path)
    current = os.open("/", os.O_RDONLY | _FOLDER)
    try:
        for number, part in enumerate(parts, 1):
            below = _open_folder(part, current, to_list and number == len(parts))
            os.close(current)
            current = below
        yield current
    finally:
        os.close(current)


def _open_folder(name: str, parent: int, to_list: bool) -> int:
    try:
        return os.open(name, os.O_RDONLY | _FOLDER, dir_fd=parent)
    except PermissionError:
        if to_list:
            raise
        # One may go through a folder that one may not list.
        return os.open(name, getattr(os, "O_PATH", 0) | _FOLDER, dir_fd=parent)


def status_of(path: str) -> os.stat_result:
    """The status of what lies at an absolute path without links, or of the link that has come there.

    Raises:
        OSError: there is nothing, or a folder on the way cannot be gone through.
    """
    parent, name = os.path.split(path)
    with folder_at(parent) as folder:
        return os.stat(name or ".", dir_fd=folder, follow_symlinks=False)


def read_place(place: Place, limit: int) -> bytes:
    """At most `limit` bytes of a file.

    Raises:
        OSError: it cannot be opened or read.
        ParseError: it is no regular file, or another than the one that was listed.
    """
    parent, name = os.path.split(place.path)
    with folder_at(parent) as folder:
        return read_at(folder, name, limit, place)


def read_at(folder: int, name: str, limit: int, place: Place | None = None) -> bytes:
    """At most `limit` bytes of the file of this name in a folder, which has to be that of `place` if one is given;
    raises like `read_place`."""
    # Opening a device may already do something, so it is not opened to see what it is.
    _check(name, os.stat(name, dir_fd=folder, follow_symlinks=False), place)
    with open(os.open(name, _FILE, dir_fd=folder), "rb") as file:
        _check(name, os.fstat(file.fileno()), place)
        return file.read(limit)


def _check(name: str, status: os.stat_result, place: Place | None) -> None:
    shown = place.path if place else name
    if not stat.S_ISREG(status.st_mode):
        raise ParseError(f"{shown} is no regular file")
    if place is not None and not place.is_that_of(status):
        raise ParseError(f"{shown} was replaced after it was listed; the next scan reads what is there then")
