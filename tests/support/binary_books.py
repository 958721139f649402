"""Binary workbooks (MS-XLSB), put together from their records."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from tests.support.office_files import relations, types, zipped


def record(kind: int, data: bytes = b"") -> bytes:
    """A record: its kind and its size as numbers of seven bits a byte."""
    return _number(kind) + _number(len(data)) + data


def _number(value: int) -> bytes:
    return bytes([value]) if value < 0x80 else bytes([value & 0x7F | 0x80]) + _number(value >> 7)


def text(value: str) -> bytes:
    return struct.pack("<I", len(value)) + value.encode("utf-16-le")


def row(number: int, *cells: bytes) -> bytes:
    """A row of a sheet."""
    return record(0, struct.pack("<I", number) + b"\0" * 13) + b"".join(cells)


def cell(kind: int, column: int, data: bytes, style: int = 0) -> bytes:
    """A cell with its number of a column; a kind from 12 to 18 has none."""
    place = b"" if 12 <= kind <= 18 else struct.pack("<I", column)
    return record(kind, place + struct.pack("<I", style) + data)


def xlsb(
    sheets: Mapping[str, bytes],
    strings: Sequence[str] = (),
    formats: Sequence[str] = (),
    more: Mapping[str, str | bytes] | None = None,
    *,
    since_1904: bool = False,
) -> bytes:
    """A workbook; each sheet is its records, and style n of a cell, from 1 on, has the n-th of the formats."""
    book = record(153, struct.pack("<III", since_1904, 0, 0))
    targets = {"styles": "styles:styles.bin", "strings": "sharedStrings:sharedStrings.bin"}
    parts: dict[str, str | bytes] = {
        "[Content_Types].xml": types("ms-excel.sheet.binary.macroEnabled.main").replace("+xml", "")
    }
    for number, (name, records) in enumerate(sheets.items(), start=1):
        book += record(156, struct.pack("<II", 0, number) + text(f"s{number}") + text(name))
        targets[f"s{number}"] = f"worksheet:worksheets/sheet{number}.bin"
        parts[f"xl/worksheets/sheet{number}.bin"] = record(129) + record(145) + records + record(146) + record(130)
    codes = b"".join(record(44, struct.pack("<H", n) + text(code)) for n, code in enumerate(formats, start=164))
    # The styles of styles, which no cell names, come before those of cells.
    looks = record(626) + record(47, struct.pack("<HH", 0, 14) + b"\0" * 12) + record(627) + record(617)
    for number in (0, *range(164, 164 + len(formats))):
        looks += record(47, struct.pack("<HH", 0, number) + b"\0" * 12)
    return zipped(
        {
            **parts,
            "xl/workbook.bin": book,
            "xl/_rels/workbook.bin.rels": relations(**targets),
            "xl/styles.bin": codes + looks + record(618),
            "xl/sharedStrings.bin": b"".join(record(19, b"\0" + text(value)) for value in strings),
            **(more or {}),
        }
    )
