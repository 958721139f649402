"""Files inside files: entries of archives and attachments of mails, read within bounds that they share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace

from rag_assets.documents.building import failed
from rag_assets.documents.model import Record
from rag_assets.documents.names import part_name
from rag_assets.documents.normalize import normalize
from rag_assets.documents.registry import parse
from rag_assets.errors import ParseError, UnsupportedFormat
from rag_assets.printing import counted

MAX_DEPTH = 4  # an archive in a mail in an archive in an archive
MAX_FILES = 10_000
MAX_BYTES = 512 * 1024 * 1024  # of all files inside one file, at every depth together


@dataclass
class Budget:
    """What may still be read from inside one file."""

    depth: int = 0
    files: int = field(default_factory=lambda: MAX_FILES)
    bytes: int = field(default_factory=lambda: MAX_BYTES)


_budget: ContextVar[Budget | None] = ContextVar("budget of nested files", default=None)


@contextmanager
def opened() -> Iterator[Budget]:
    """Go one level deeper; the outermost container starts a budget that all inner ones share.

    Raises:
        ParseError: the containers are nested too deeply.
    """
    outer = _budget.get()
    budget = outer or Budget()
    if budget.depth >= MAX_DEPTH:
        raise ParseError(f"files are nested more than {MAX_DEPTH} levels deep")
    budget.depth += 1
    token = None if outer else _budget.set(budget)
    try:
        yield budget
    finally:
        budget.depth -= 1
        if token is not None:
            _budget.reset(token)


def inner_records(data: bytes, path: str, content_type: str | None, budget: Budget) -> list[Record]:
    """Return the records of a file inside another; each key and part begins with `path`.

    Raises:
        UnsupportedFormat: no parser takes the file.
        ParseError: the budget is used up.
    """
    budget.files -= 1
    budget.bytes -= len(data)
    if budget.files < 0:
        raise ParseError(f"more than {MAX_FILES:,} files inside one file")
    if budget.bytes < 0:
        raise ParseError(f"the files inside one file unpack to more than {MAX_BYTES // 2**20} MB")
    records = parse(data, path, content_type)
    return [replace(record, key=part_name(path, record.key), part=part_name(path, record.part)) for record in records]


class Collected:
    """The records of a container: every key once, and what no parser takes by name."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.unread: list[str] = []
        self._keys: dict[str, int] = {}

    def unique(self, path: str) -> str:
        """Return `path`, with a number where an earlier file has the same one."""
        path = normalize(path)
        count = self._keys[path] = self._keys.get(path, 0) + 1
        if count == 1:
            return path
        folder, slash, name = path.rpartition("/")
        stem, dot, ending = name.rpartition(".")
        # In front of the suffix, which says what kind of file it is.
        return self.unique(f"{folder}{slash}{stem} ({count}).{ending}" if dot and stem else f"{path} ({count})")

    def add(self, data: bytes, path: str, content_type: str | None, budget: Budget) -> None:
        """Add the records of one inner file; what cannot be read fails alone."""
        try:
            self.records += inner_records(data, path, content_type, budget)
        except UnsupportedFormat:
            self.unread.append(path)
        except ParseError as error:
            self.fail(path, str(error))

    def fail(self, path: str, reason: str) -> None:
        self.records.append(replace(failed(path, path, f"{path}: {reason}"), part=path))

    def unread_note(self) -> str:
        """Return one line about the files that no parser takes, or `""`."""
        if not self.unread:
            return ""
        names = ", ".join(self.unread[:5]) + (", …" if len(self.unread) > 5 else "")
        files = counted(len(self.unread), "file inside is of a kind", "files inside are of kinds")
        return f"{files} that no parser takes: {names}"
