"""Zip archives: every file inside is a source of its own, with its path as the key."""

from __future__ import annotations

import re
import stat
import zipfile

from rag_assets.documents.model import Record
from rag_assets.documents.parsers.nested import Budget, Collected, opened
from rag_assets.documents.parsers.zips import open_zip, read_entry
from rag_assets.errors import ParseError
from rag_assets.printing import counted

_UTF8_NAME = 0x800
_DRIVE = re.compile(r"^[A-Za-z]:")


def parse_zip(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Parse the files in a zip; nothing is written to disk, so a path in it is a name and nothing else.

    Encrypted and damaged entries fail alone. Hidden files, links and folders are passed over; kinds that no
    parser takes are named in one `no_text` record for the archive itself.

    Raises:
        ParseError: damaged; too many files, bytes or levels; or a zip bomb.
    """
    collected = Collected()
    with opened() as budget, open_zip(data) as archive:
        entries = [info for info in archive.infolist() if _is_file(info)]
        if len(entries) > budget.files:
            raise ParseError(f"the zip holds {counted(len(entries), 'file')} where {budget.files:,} are allowed")
        unpacked = sum(info.file_size for info in entries)
        if unpacked > budget.bytes:
            raise ParseError(f"the zip unpacks to {counted(unpacked, 'byte')} where {budget.bytes:,} are allowed")
        for info in entries:
            _add_entry(archive, info, collected, budget)
    note = collected.unread_note()
    if note:
        collected.records.append(Record("", name, "no_text", error=note))
    return collected.records or [Record("", name, "no_text", error="the archive holds no files")]


def _add_entry(archive: zipfile.ZipFile, info: zipfile.ZipInfo, collected: Collected, budget: Budget) -> None:
    path = collected.unique(_path(info))
    try:
        data = read_entry(archive, info, max(budget.bytes, 0))
    except ParseError as error:
        collected.fail(path, str(error))
        return
    collected.add(data, path, None, budget)


def _is_file(info: zipfile.ZipInfo) -> bool:
    path = _path(info)
    hidden = any(part.startswith(".") or part == "__MACOSX" for part in path.split("/"))
    return not info.is_dir() and not hidden and bool(path) and not stat.S_ISLNK(info.external_attr >> 16)


def _path(info: zipfile.ZipInfo) -> str:
    """Return an entry's path without drive, root and steps upwards."""
    name = info.filename
    if not info.flag_bits & _UTF8_NAME:
        name = _decoded(name)
    parts = _DRIVE.sub("", name.replace("\\", "/")).split("/")
    return "/".join(part for part in parts if part not in ("", ".", ".."))


def _decoded(name: str) -> str:
    """Return a name that was read as code page 437, as the UTF-8 that most programs write without saying so."""
    try:
        return name.encode("cp437").decode("utf-8")
    except UnicodeError:
        return name
