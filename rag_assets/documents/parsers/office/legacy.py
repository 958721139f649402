"""Word and PowerPoint files of before 2007, which programs of this system read; what is encrypted is refused.

LibreOffice comes first: it keeps headings, tables, notes and text boxes, which are then read as of a new file. Where it
is missing or fails, the others find the words of most files.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import olefile  # type: ignore[import-untyped]

from rag_assets.documents.blank import is_blank
from rag_assets.documents.building import TextBuilder, paragraphs, whole_file
from rag_assets.documents.decoding import decode
from rag_assets.documents.model import Record
from rag_assets.documents.names import suffix
from rag_assets.documents.normalize import normalize
from rag_assets.documents.parsers.office.docx import parse_docx
from rag_assets.documents.parsers.office.pptx import parse_pptx
from rag_assets.documents.parsers.zips import OLE_MAGIC
from rag_assets.documents.quality import figures
from rag_assets.documents.tools import Tool, run
from rag_assets.errors import ParseError

_ENCRYPTED = "the office file is encrypted and needs a password: save it without one"
_REASONS = {
    "EncryptedPackage": _ENCRYPTED,
    "\tDRMContent": "the office file is encrypted by a rights service and needs its permission",
    "EncryptedSummary": _ENCRYPTED,
}
_WORD_FLAGS, _WORD_ENCRYPTED = 10, 0x0100  # of the file's first block (MS-DOC, 2.5.2)
_POWERPOINT_SUFFIXES = frozenset({".ppt", ".pps", ".pot"})
_BEFORE_OLE = (b"\xdb\xa5", b"\x31\xbe\x00\x00")  # Word 2, and Word of DOS
_PICTURE = re.compile(r"\[pic\]")  # what antiword writes for one
_ROW = re.compile(r"^\|.*\|$")


@dataclass(frozen=True)
class _Reader:
    """A program, and what makes records of its output."""

    tool: Tool
    records: Callable[[bytes, str], list[Record]]


@dataclass(frozen=True)
class _Kind:
    program: str
    newer: str
    suffix: str
    content_type: str
    readers: tuple[_Reader, ...]

    def refusal(self) -> str:
        """What helps where none of the programs is installed."""
        names = [reader.tool.name for reader in self.readers]
        listed = ", ".join(names[:-1]) + f" or {names[-1]}"
        return (
            f"the format of {self.program} 97 to 2003 is read by {listed}, of which none is installed: install one and "
            f"ingest with --retry-failed, or save it as {self.newer}"
        )

    def way_out(self, tried: list[_Reader]) -> str:
        """What helps where the installed programs have failed."""
        best = self.readers[0]
        if best in tried:
            return f"save it as {self.newer}"
        return f"install {best.tool.name} and ingest with --retry-failed, or save it as {self.newer}"


def _office(newer: str) -> Tool:
    def arguments(source: str, folder: str) -> list[str]:
        # A profile of its own: one that is in use makes it do nothing, and say nothing.
        profile = f"-env:UserInstallation=file://{folder}/profile"
        quiet = ("--headless", "--norestore", "--nologo", "--nodefault", "--nolockcheck")
        return [*quiet, profile, "--convert-to", newer.removeprefix("."), "--outdir", folder, source]

    return Tool("LibreOffice", ("soffice", "libreoffice"), arguments, f"in{newer}")


def _as_docx(data: bytes, name: str) -> list[Record]:
    return parse_docx(data, name, None)


def _as_pptx(data: bytes, name: str) -> list[Record]:
    return parse_pptx(data, name, None)


def _as_text(data: bytes, name: str) -> list[Record]:
    text = normalize(decode(data, "utf-8"))
    if is_blank(text):
        raise ParseError("it finds no text")
    builder = TextBuilder()
    for block in paragraphs(text):
        lines = _PICTURE.sub("", text[block.start : block.end]).split("\n")
        if all(_ROW.match(line) for line in lines):
            cells = (line.strip("|").split("|") for line in lines)
            builder.add("table", "\n".join(" | ".join(" ".join(cell.split()) for cell in row) for row in cells))
        else:
            builder.add("paragraph", "\n".join(line.rstrip() for line in lines))
    return whole_file(builder.document(), name)


_ANTIWORD = Tool("antiword", ("antiword",), lambda source, folder: ["-m", "UTF-8.txt", "-w", "0", source])
_CATDOC = Tool("catdoc", ("catdoc",), lambda source, folder: ["-d", "utf-8", "-w", source])
_CATPPT = Tool("catppt", ("catppt",), lambda source, folder: ["-d", "utf-8", source])
_WORD = _Kind(
    "Word",
    ".docx",
    ".doc",
    "application/msword",
    (_Reader(_office(".docx"), _as_docx), _Reader(_ANTIWORD, _as_text), _Reader(_CATDOC, _as_text)),
)
_POWERPOINT = _Kind(
    "PowerPoint",
    ".pptx",
    ".ppt",
    "application/vnd.ms-powerpoint",
    (_Reader(_office(".pptx"), _as_pptx), _Reader(_CATPPT, _as_text)),
)


def parse_legacy_office(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Parse a Word or PowerPoint file of before 2007 by the first installed program that can.

    Raises:
        ParseError: encrypted, damaged, or read by no installed program; its text says what to do.
    """
    kind = _POWERPOINT if suffix(name) in _POWERPOINT_SUFFIXES else _WORD
    if data.startswith(OLE_MAGIC):
        kind = _of_container(data) or kind
    elif not data.startswith(_BEFORE_OLE):
        raise ParseError(f"this old or damaged office format is not read: save it as {kind.newer}")
    installed = [reader for reader in kind.readers if reader.tool.path()]
    if not installed:
        raise ParseError(kind.refusal())
    reasons, without_text = [], None
    for reader in installed:
        try:
            records = reader.records(run(reader.tool, data, kind.suffix), name)
        except ParseError as error:
            reasons.append(f"{reader.tool.name}: {str(error).removeprefix(f'{reader.tool.name} ')}")
            continue
        if any(record.status == "ready" for record in records):
            return [_named(record, kind, reader.tool.name) for record in records]
        without_text = without_text or records
    if without_text is not None:
        return without_text
    raise ParseError(f"no program here can read it ({'; '.join(reasons)}): {kind.way_out(installed)}")


def _named(record: Record, kind: _Kind, reader: str) -> Record:
    """Return the record as one of the file that was given; what is embedded in it is of a kind of its own."""
    if record.key or record.document is None:
        return record
    metadata = figures(record.document.metadata, read_by=reader)
    return replace(record, document=replace(record.document, content_type=kind.content_type, metadata=metadata))


def _of_container(data: bytes) -> _Kind | None:
    try:
        with olefile.OleFileIO(io.BytesIO(data)) as ole:
            reason = next((_REASONS[stream] for stream in _REASONS if ole.exists(stream)), None)
            kind = _POWERPOINT if ole.exists("PowerPoint Document") else None
            if reason is None and kind is None and ole.exists("WordDocument"):
                kind = _WORD
                flags = ole.openstream("WordDocument").read(_WORD_FLAGS + 2)[_WORD_FLAGS:]
                reason = _ENCRYPTED if int.from_bytes(flags, "little") & _WORD_ENCRYPTED else None
    # A damaged container raises nearly anything; whether it can be read is for the program to say.
    except Exception:
        return None
    if reason:
        raise ParseError(reason)
    return kind
