"""Zip data from strangers, read within bounds and only in memory."""

from __future__ import annotations

import io
import zipfile
import zlib
from itertools import pairwise

from rag_assets.documents.reasons import in_words
from rag_assets.errors import ParseError
from rag_assets.printing import counted

ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")  # how zip data begins; the second with no entry at all
OLE_MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # how office files began that are no zip

MAX_CENTRAL_ENTRIES = 100_000
FREE_BYTES = 16 * 1024 * 1024  # an entry this small is harmless whatever its ratio
MAX_RATIO = 200  # unpacked over packed; text rarely exceeds 20, and deflate cannot exceed 1,032
_ENCRYPTED = 0x1
_LOCAL_HEADER = 30  # bytes, before the name and the extra field


def open_zip(data: bytes) -> zipfile.ZipFile:
    """Open zip data.

    Raises:
        ParseError: damaged; more than 100,000 entries; or entries that share their bytes, as in a bomb.
    """
    # Before the directory is read: an object for each of some millions of entries would fill the memory.
    if data.count(b"PK\x01\x02") > MAX_CENTRAL_ENTRIES:
        raise ParseError(f"the zip lists more than {MAX_CENTRAL_ENTRIES:,} entries")
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as error:
        if data.startswith(OLE_MAGIC):
            raise ParseError("it is an OLE container and no zip: an encrypted file, or one of an old kind") from error
        raise ParseError(f"the zip is damaged: {in_words(error)}") from error
    _refuse_overlaps(archive)
    return archive


def _refuse_overlaps(archive: zipfile.ZipFile) -> None:
    for before, after in pairwise(sorted(archive.infolist(), key=lambda info: info.header_offset)):
        if before.header_offset + _LOCAL_HEADER + before.compress_size > after.header_offset:
            raise ParseError(f"the zip's entries {before.filename!r} and {after.filename!r} share the same bytes")


def read_entry(archive: zipfile.ZipFile, info: zipfile.ZipInfo, limit: int) -> bytes:
    """Return the bytes of one entry.

    Raises:
        ParseError: encrypted, damaged, packed in an unknown way, larger than `limit` bytes, or packed so
            tightly that it is a bomb.
    """
    if info.flag_bits & _ENCRYPTED:
        raise ParseError("it is encrypted and needs a password: save it without one")
    if info.file_size > max(FREE_BYTES, MAX_RATIO * info.compress_size):
        raise ParseError(f"it unpacks to more than {MAX_RATIO} times its size, like a zip bomb")
    if info.file_size > limit:
        raise ParseError(f"it unpacks to {counted(info.file_size, 'byte')} where {limit:,} are allowed")
    try:
        with archive.open(info) as file:
            # The size in the directory may be a lie: what is read is what counts.
            data = file.read(limit + 1)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError) as error:
        raise ParseError(f"it is damaged: {in_words(error)}") from error
    except (NotImplementedError, RuntimeError) as error:
        raise ParseError(f"it cannot be unpacked: {in_words(error)}") from error
    if len(data) > limit:
        raise ParseError(f"it unpacks to more than {counted(limit, 'byte')}")
    return data
