"""Office files that no light library reads well: refused with what to do about it."""

from __future__ import annotations

import io

import olefile  # type: ignore[import-untyped]

from rag_assets.documents.model import Record
from rag_assets.documents.names import suffix
from rag_assets.documents.parsers.zips import OLE_MAGIC
from rag_assets.errors import ParseError

_ENCRYPTED = "the office file is encrypted and needs a password"
_REASONS = {
    "EncryptedPackage": _ENCRYPTED,
    "\tDRMContent": "the office file is encrypted by a rights service and needs its permission",
    "EncryptedSummary": _ENCRYPTED,
    "WordDocument": "the format of Word 97 to 2003 is not read: save it as .docx",
    "PowerPoint Document": "the format of PowerPoint 97 to 2003 is not read: save it as .pptx",
}
_WORD_FLAGS, _WORD_ENCRYPTED = 10, 0x0100  # of the file's first block (MS-DOC, 2.5.2)
_NEW_SUFFIX = {".ppt": ".pptx", ".pps": ".pptx", ".pot": ".pptx"}


def parse_legacy_office(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Raise ParseError, always: its text says in which format to save the file."""
    newer = _NEW_SUFFIX.get(suffix(name), ".docx")
    reason = _reason(data) if data.startswith(OLE_MAGIC) else None
    raise ParseError(reason or f"this old or damaged office format is not read: save it as {newer}")


def _reason(data: bytes) -> str | None:
    try:
        with olefile.OleFileIO(io.BytesIO(data)) as ole:
            stream = next((stream for stream in _REASONS if ole.exists(stream)), None)
            if stream == "WordDocument":
                flags = ole.openstream(stream).read(_WORD_FLAGS + 2)[_WORD_FLAGS:]
                if int.from_bytes(flags, "little") & _WORD_ENCRYPTED:
                    return _ENCRYPTED
            return _REASONS.get(stream or "")
    # A damaged container raises nearly anything.
    except Exception:
        return None
