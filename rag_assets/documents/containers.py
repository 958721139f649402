"""What a zip or OLE file holds: an office document, a mail, a book, or just files."""

from __future__ import annotations

import contextlib
import io
import re
import zipfile

import olefile  # type: ignore[import-untyped]

from rag_assets.documents.parsers.zips import OLE_MAGIC, ZIP_MAGIC, open_zip, read_entry
from rag_assets.errors import ParseError

_SMALL_PART = 1024 * 1024  # bytes
_MAIN_PART = re.compile(
    rb"(wordprocessingml|ms-word|presentationml|ms-powerpoint|spreadsheetml|ms-excel)[^\"'<>]{0,80}main(\+xml)?[\"']"
)
_OOXML = {b"w": "docx", b"p": "pptx", b"s": "xlsx"}
# In lower case: the names of streams mean the same in either.
_OLE_STREAMS = (
    ("__properties_version1.0", "msg"),
    ("encryptedpackage", "legacy-office"),
    ("\tdrmcontent", "legacy-office"),
    ("worddocument", "legacy-office"),
    ("powerpoint document", "legacy-office"),
    ("workbook", "xls"),
    ("book", "xls"),
)


def container_format(data: bytes) -> str | None:
    """Return the name of the format that zip or OLE data is in, judged by its parts; None for anything else.

    Zip data without a sign of an office document or book is `zip`, also where it is damaged. OLE data of an
    unknown kind is None.
    """
    if data.startswith(ZIP_MAGIC):
        return _zip_format(data)
    if data.startswith(OLE_MAGIC):
        return _ole_format(data)
    return None


def _zip_format(data: bytes) -> str:
    with contextlib.suppress(ParseError, UnicodeDecodeError), open_zip(data) as archive:
        names = {info.filename: info for info in archive.infolist()}
        if "[Content_Types].xml" in names:
            types = read_entry(archive, names["[Content_Types].xml"], _SMALL_PART)
            return _ooxml_format(types, names)
        if "mimetype" in names:
            return _by_media_type(read_entry(archive, names["mimetype"], _SMALL_PART))
        if "META-INF/container.xml" in names:
            return "epub"
    return "zip"


def _ooxml_format(types: bytes, names: dict[str, zipfile.ZipInfo]) -> str:
    main = _MAIN_PART.search(types)
    if main and not main.group(2):
        return "xlsb"
    if main:
        return _OOXML[main.group(1).removeprefix(b"ms-").replace(b"excel", b"sheet")[:1]]
    for folder, name in (("word/document.xml", "docx"), ("ppt/presentation.xml", "pptx"), ("xl/workbook.xml", "xlsx")):
        if folder in names:
            return name
    return "zip"


def _by_media_type(media_type: bytes) -> str:
    if media_type.strip() == b"application/epub+zip":
        return "epub"
    return "odf" if b"opendocument" in media_type else "zip"


def _ole_format(data: bytes) -> str | None:
    try:
        with olefile.OleFileIO(io.BytesIO(data)) as ole:
            streams = {entry[0].lower() for entry in ole.listdir() if len(entry) == 1}
    # A damaged file raises nearly anything; it is then named by its suffix, whose parser says what is wrong.
    except Exception:
        return None
    return next((name for stream, name in _OLE_STREAMS if stream in streams), None)
