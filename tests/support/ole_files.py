"""OLE containers (MS-CFB) with given streams, Outlook messages, and old workbooks, as small as they can be."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

_SECTOR, _MINI, _CUTOFF = 512, 64, 4096  # bytes
_END, _FREE, _FAT = 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFD


class _Store:
    """Sectors of one size, and the chain of each."""

    def __init__(self, size: int) -> None:
        self.size, self.data, self.chains = size, b"", list[int]()

    def add(self, data: bytes) -> int:
        if not data:
            return _END
        start, count = len(self.chains), -(-len(data) // self.size)
        self.data += data.ljust(count * self.size, b"\0")
        self.chains += [*range(start + 1, start + count), _END]
        return start


def ole(streams: Mapping[str, bytes]) -> bytes:
    """A container; the key of a stream is its path with `/`."""
    folders = {path.rsplit("/", depth)[0] for path in streams for depth in range(1, path.count("/") + 1)}
    names = ["", *sorted({*folders, *streams})]
    big, small = _Store(_SECTOR), _Store(_MINI)
    starts = {name: (small if len(data) < _CUTOFF else big).add(data) for name, data in streams.items()}
    starts[""] = big.add(small.data)
    sizes = {"": len(small.data), **{name: len(data) for name, data in streams.items()}}
    mini_fat = big.add(struct.pack(f"<{len(small.chains)}I", *small.chains).ljust(_SECTOR, b"\xff"))
    directory = big.add(b"".join(_entry(names, name, starts, sizes) for name in names))
    count = 1
    while count * 128 < len(big.chains) + count:
        count += 1
    first = len(big.chains)
    fat = [*big.chains, *[_FAT] * count]
    fat += [_FREE] * (count * 128 - len(fat))
    header = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 16 + struct.pack("<HHHHH6x", 0x3E, 3, 0xFFFE, 9, 6)
    mini_sectors = -(-len(small.chains) * 4 // _SECTOR)
    header += struct.pack("<IIIIIIIII", 0, count, directory, 0, _CUTOFF, mini_fat, mini_sectors, _END, 0)
    header += struct.pack(f"<{count}I", *range(first, first + count))
    return header.ljust(_SECTOR, b"\xff") + big.data + struct.pack(f"<{len(fat)}I", *fat)


def _entry(names: list[str], name: str, starts: Mapping[str, int], sizes: Mapping[str, int]) -> bytes:
    is_folder = name and name not in starts
    inside = [n for n, other in enumerate(names) if other and _folder(other) == name] if is_folder or not name else []
    beside = [n for n, other in enumerate(names) if name and other > name and _folder(other) == _folder(name)]
    title = (name.rpartition("/")[2] or "Root Entry").encode("utf-16-le")
    return (
        title.ljust(64, b"\0")
        + struct.pack("<HBB", len(title) + 2, 1 if is_folder else 2 if name else 5, 1)
        + struct.pack("<III", _FREE, beside[0] if beside else _FREE, inside[0] if inside else _FREE)
        + b"\0" * 36
        + struct.pack("<IQ", starts.get(name, 0), sizes.get(name, 0))
    )


def _folder(name: str) -> str:
    return name.rpartition("/")[0]


def properties(values: Mapping[int, str | bytes], fixed: Mapping[int, bytes] | None = None) -> dict[str, bytes]:
    """The streams of a message's or attachment's properties by id; `fixed` are values of eight bytes."""
    streams = {}
    for key, value in values.items():
        kind, data = ("001F", value.encode("utf-16-le")) if isinstance(value, str) else ("0102", value)
        streams[f"__substg1.0_{key:04X}{kind}"] = data
    entries = b"".join(struct.pack("<II8s", key << 16 | 0x40, 6, data) for key, data in (fixed or {}).items())
    streams["__properties_version1.0"] = entries
    return streams


def inside(folder: str, streams: Mapping[str, bytes], header: int) -> dict[str, bytes]:
    """Streams moved into a storage, with the header of their property stream."""
    return {
        f"{folder}/{name}": b"\0" * header + data if name == "__properties_version1.0" else data
        for name, data in streams.items()
    }


def msg(message: Mapping[str, bytes], attachments: Mapping[str, bytes] | None = None) -> bytes:
    streams = {name: b"\0" * 32 + data if name == "__properties_version1.0" else data for name, data in message.items()}
    return ole({**streams, **(attachments or {})})


def xls(name: str, cells: Mapping[tuple[int, int], str | float], formats: Sequence[str] = ()) -> bytes:
    """A workbook of Excel 97 with one sheet; numbers as floats, texts as strings; a number format for each column."""

    def record(kind: int, data: bytes) -> bytes:
        return struct.pack("<HH", kind, len(data)) + data

    start = record(0x809, struct.pack("<HHHHII", 0x600, 5, 0, 0, 0, 0)) + record(0x42, struct.pack("<H", 1200))
    for number, code in enumerate(formats, start=164):
        start += record(0x41E, struct.pack("<HHB", number, len(code), 1) + code.encode("utf-16-le"))
    for number in range(164, 164 + len(formats)):
        start += record(0xE0, struct.pack("<HHHBBBBIIH", 0, number, 0, 0, 0, 0, 4, 0, 0, 0))
    bound = record(
        0x85, struct.pack("<IHBB", len(start) + 4 + 8 + len(name) + 4, 0, len(name), 0) + name.encode("ascii")
    )
    body = record(0x809, struct.pack("<HHHHII", 0x600, 16, 0, 0, 0, 0))
    for (row, column), value in cells.items():
        style = column if formats else 0
        if isinstance(value, str):
            body += record(0x204, struct.pack("<HHHHB", row, column, style, len(value), 1) + value.encode("utf-16-le"))
        else:
            body += record(0x203, struct.pack("<HHHd", row, column, style, value))
    end = record(0x0A, b"")
    return ole({"Workbook": (start + bound + end + body + end).ljust(4096, b"\0")})
