"""Bytes that are plainly no text: what a person would call the file, whatever its name says."""

from __future__ import annotations

import re

from rag_assets.documents.parsers.zips import OLE_MAGIC, ZIP_MAGIC

CONTAINER_MAGIC = (*ZIP_MAGIC, OLE_MAGIC)
_SNIFFED = 1024  # bytes
_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF87a", "a GIF image"),
    (b"GIF89a", "a GIF image"),
    (b"BM", "a BMP image"),
    (b"II*\x00", "a TIFF image"),
    (b"MM\x00*", "a TIFF image"),
    (b"\x00\x00\x01\x00", "an icon"),
    (b"8BPS", "a Photoshop image"),
    (b"wOF", "a font"),
    (b"\x00\x01\x00\x00\x00", "a font"),
    (b"OTTO", "a font"),
    (b"\x1f\x8b\x08", "a gzip archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ\x00", "an xz archive"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a program"),
    (b"\xca\xfe\xba\xbe", "a program"),
    (b"\xcf\xfa\xed\xfe", "a program"),
    (b"\x00asm", "a program"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"PAR1", "a Parquet file"),
    (b"ID3", "a sound file"),
    (b"OggS", "a sound file"),
    (b"fLaC", "a sound file"),
    (b"\x1aE\xdf\xa3", "a video"),
)
_RIFF = {b"WAVE": "a sound file", b"AVI ": "a video", b"WEBP": "a WebP image"}
_CONTAINERS = (*((magic, "a zip archive") for magic in ZIP_MAGIC), (OLE_MAGIC, "an OLE container"))

# How a mail begins in a mailbox: who sent it and when, and headers below. A sentence that begins so has no headers.
MAIL_BEGINS = re.compile(
    rb"(?:\A|(?<=\n)\r?\n?)From (?=[^\r\n]{0,200}?\d\d:\d\d[^\r\n]{0,40}?\d{4})[^\r\n]*+\r?\n"
    rb"(?=(?:>?From [^\r\n]*+\r?\n)?[!-9;-~]++:)"
)

# The first line of a manual page: a remark of roff, or the name of the page.
_MANUAL = re.compile(rb"(?:[.'][ \t]*\\[\"#]|\.TH[ \t]+\S|\.Dd[ \t]+\S)")


def is_manual_page(head: bytes) -> bool:
    """Tell whether bytes begin as the source of a manual page does."""
    return _MANUAL.match(head) is not None


def is_mailbox(head: bytes) -> bool:
    """Tell whether bytes begin as a mailbox does."""
    return MAIL_BEGINS.match(head) is not None


def media_kind(data: bytes) -> str | None:
    """Return what the data is, such as "a PNG image", if it is of a kind that no parser reads; else None.

    The magic number alone does not count: a text may begin with "BM" or "MZ", but holds no zero byte.
    """
    head = data[:_SNIFFED]
    if 0 not in head and not head.startswith((b"\xff\xd8\xff", b"\x1f\x8b\x08")):
        return None
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    if head.startswith(b"RIFF"):
        return _RIFF.get(head[8:12])
    if head[4:8] == b"ftyp":
        return "a HEIF image" if head[8:11] in (b"hei", b"mif", b"avi") else "a video"
    return None


def binary_kind(data: bytes) -> str | None:
    """Like `media_kind`, and also names containers and PDF: kinds that a parser of text must not be given."""
    for magic, kind in _CONTAINERS:
        if data.startswith(magic):
            return kind
    return media_kind(data)
