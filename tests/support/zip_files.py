"""Zip archives made for tests."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Collection, Mapping


def zip_of(files: Mapping[str, str | bytes], locked: Collection[str] = ()) -> bytes:
    """Return a zip of these files; those that are `locked` say that they need a password."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    data = bytearray(target.getvalue())
    for name in locked:
        encoded = name.encode()
        for header, offset, name_at in ((b"PK\x03\x04", 6, 30), (b"PK\x01\x02", 8, 46)):
            start = data.find(header)
            while data[start + name_at : start + name_at + len(encoded)] != encoded:
                start = data.index(header, start + 1)
            data[start + offset] |= 1
    return bytes(data)
