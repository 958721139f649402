"""Folders and files that are for nobody else on this machine: they hold what is in tenants' documents."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

_log = logging.getLogger(__name__)

FOLDER, FILE = 0o700, 0o600
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def make_private(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for ourselves alone; one that is there and ours is closed
    with all in it.

    Raises:
        OSError: it cannot be made.
    """
    if folder.is_dir():
        close_to_others(folder)
        return
    if not folder.parent.exists():
        make_private(folder.parent)
    folder.mkdir(mode=FOLDER, exist_ok=True)


def close_to_others(folder: Path) -> None:
    """Take a folder and all in it from group and others, and say so; what is not ours, or is a link, stays.

    A folder that is closed already is not looked into: nobody reaches what is in there.
    """
    found = folder.stat()
    if not found.st_mode & _OTHERS or not _is_ours(found):
        return
    for path in _inside(folder):
        state = path.lstat()
        if state.st_mode & _OTHERS and _is_ours(state) and not stat.S_ISLNK(state.st_mode):
            path.chmod(stat.S_IMODE(state.st_mode) & ~_OTHERS)
    folder.chmod(stat.S_IMODE(found.st_mode) & ~_OTHERS)  # last: a walk that was cut short begins again
    _log.warning("%s was open to others (%s) and is closed to them now", folder, stat.filemode(found.st_mode))


def _inside(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        yield from (Path(parent, name) for name in (*folders, *files))


def _is_ours(state: os.stat_result) -> bool:
    return state.st_uid == os.geteuid()
