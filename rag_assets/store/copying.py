"""Rows as binary COPY takes them, where what is copied is in the server's own form already."""

from __future__ import annotations

from struct import Struct

BINARY_COPY = b"PGCOPY\n\xff\r\n\0" + bytes(8)  # no flags, and no more header
END_OF_COPY = b"\xff\xff"
_FIELDS, _LENGTH = Struct(">h"), Struct(">i")


def copied_row(*fields: bytes) -> bytes:
    """One row of fields, none of them null, each as its type sends it in binary."""
    parts = [_FIELDS.pack(len(fields))]
    for field in fields:
        parts += _LENGTH.pack(len(field)), field
    return b"".join(parts)
