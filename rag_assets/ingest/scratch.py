"""A folder for what a process has cut and embedded until it is published; what killed processes left goes with the
next one."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PREFIX = "rag-ingest-"


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder that nobody else may read, taken away at the end.

    As long as its process lives it is locked: a killed one leaves texts of a tenant, and whoever makes a folder next
    takes away those of this user that nobody holds.

    Raises:
        OSError: it cannot be made.
    """
    _sweep(Path(tempfile.gettempdir()))
    folder, lock = _made()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _made() -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        lock = os.open(folder, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():  # else somebody swept before it was locked
            return folder, lock
        os.close(lock)


def _sweep(where: Path) -> None:
    for folder in where.glob(f"{_PREFIX}*"):
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue  # gone meanwhile, somebody else's, or none of ours
        try:
            if os.fstat(lock).st_uid == os.getuid():
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:
            continue  # at work
        finally:
            os.close(lock)
