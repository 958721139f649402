"""Office files that no light library reads well: refused with what to do about it."""

from __future__ import annotations

import io

import olefile  # type: ignore[import-untyped]

from rag_assets.documents.containers import OLE_MAGIC
from rag_assets.documents.model import Record
from rag_assets.documents.names import suffix
from rag_assets.errors import ParseError

_REASONS = {
    "EncryptedPackage": "the office file is encrypted and needs a password",
    "WordDocument": "the format of Word 97 to 2003 is not read: save it as .docx",
    "PowerPoint Document": "the format of PowerPoint 97 to 2003 is not read: save it as .pptx",
}
_NEW_SUFFIX = {".ppt": ".pptx", ".pps": ".pptx", ".pot": ".pptx", ".xlsb": ".xlsx"}


def parse_legacy_office(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Raise ParseError, always: its text says in which format to save the file."""
    stream = _main_stream(data) if data.startswith(OLE_MAGIC) else None
    newer = _NEW_SUFFIX.get(suffix(name), ".docx")
    raise ParseError(_REASONS.get(stream or "", f"this old or damaged office format is not read: save it as {newer}"))


def _main_stream(data: bytes) -> str | None:
    try:
        with olefile.OleFileIO(io.BytesIO(data)) as ole:
            return next((stream for stream in _REASONS if ole.exists(stream)), None)
    # A damaged container raises nearly anything.
    except Exception:
        return None
