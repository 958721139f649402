"""Ways to damage a file, for the fuzzer and for its quick form in the tests."""

from __future__ import annotations

import io
import random
import zipfile
from collections.abc import Callable, Mapping, Sequence

_INTERESTING = (
    b"\0", b"\xff", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b"\x1a", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"%", b"<",
    b"&#0;", b"&#xD800;", b"]]>", b"<!--", b"<![CDATA[", b"<!ENTITY a SYSTEM 'file:///etc/passwd'>&a;",
    b"{" * 200, b"[" * 5000, b"<div>" * 3000, b"> " * 2000, b"-1", b"0", b"65536", b"4294967295",
    b"99999999999999999999", b"1e999", b"NaN", b"obj", b"endobj", b"stream\r\n", b"endstream", b"startxref",
    b"PK\x01\x02", b"PK\x05\x06", b"{\\rtf1", b"\\bin99999999 ",
    b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n", b"\xd0\xcf\x11\xe0", b"```", b"|---|---|",
    b"\t" * 500,
)  # fmt: skip
_SHARE_INSIDE = 0.7  # of the damaged zip files, the share whose damage is in an entry and not in the zip itself


def mutated(seed: bytes, randomness: random.Random, others: Sequence[bytes] = ()) -> bytes:
    """Return the bytes of a file with some damage; `others` are files to take parts from.

    Most damage to a zip file is done to what it holds: a reader of zip files refuses nearly all of the rest.
    """
    if seed.startswith(b"PK") and randomness.random() < _SHARE_INSIDE:
        damaged = _inside_zip(seed, randomness, others)
        if damaged is not None:
            return damaged
    data = bytearray(seed)
    for _ in range(randomness.choice((1, 1, 2, 3, 8, 40))):
        randomness.choice(_WAYS)(data, randomness)
    if others and randomness.random() < 0.1:
        other = randomness.choice(others)
        data[_place(data, randomness) :] = other[_place(other, randomness) :]
    return bytes(data)


def _inside_zip(seed: bytes, randomness: random.Random, others: Sequence[bytes]) -> bytes | None:
    try:
        with zipfile.ZipFile(io.BytesIO(seed)) as archive:
            entries = [(info.filename, archive.read(info)) for info in archive.infolist()]
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, OSError):
        return None
    chosen = randomness.randrange(len(entries)) if entries else -1
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, (name, data) in enumerate(entries):
            if number == chosen and randomness.random() < 0.1:
                continue  # an entry that others refer to is missing
            content = mutated(data, randomness, others) if number == chosen else data
            archive.writestr(zipfile.ZipInfo(name), content)
    return target.getvalue()


def _place(data: bytes | bytearray, randomness: random.Random) -> int:
    return randomness.randint(0, len(data))


def _flip(data: bytearray, randomness: random.Random) -> None:
    if data:
        data[randomness.randrange(len(data))] ^= 1 << randomness.randrange(8)


def _replace(data: bytearray, randomness: random.Random) -> None:
    place = _place(data, randomness)
    piece = randomness.choice(_INTERESTING)
    data[place : place + len(piece)] = piece


def _insert(data: bytearray, randomness: random.Random) -> None:
    place = _place(data, randomness)
    data[place:place] = randomness.choice(_INTERESTING)


def _noise(data: bytearray, randomness: random.Random) -> None:
    place = _place(data, randomness)
    count = randomness.choice((1, 4, 100))
    data[place : place + count] = randomness.randbytes(count)


def _delete(data: bytearray, randomness: random.Random) -> None:
    place = _place(data, randomness)
    del data[place : place + randomness.choice((1, 2, 10, 200))]


def _truncate(data: bytearray, randomness: random.Random) -> None:
    del data[_place(data, randomness) :]


def _repeat(data: bytearray, randomness: random.Random) -> None:
    place = _place(data, randomness)
    piece = data[place : place + randomness.choice((2, 30, 500))]
    data[place:place] = piece * randomness.choice((1, 2, 50))


def _digits(data: bytearray, randomness: random.Random) -> None:
    """Change a number in text: a length, an offset, a count."""
    places = [place for place in range(len(data)) if 0x30 <= data[place] <= 0x39]
    if places:
        data[randomness.choice(places)] = randomness.randint(0x30, 0x39)


_WAYS: tuple[Callable[[bytearray, random.Random], None], ...] = (
    _flip, _flip, _replace, _insert, _noise, _delete, _truncate, _repeat, _digits
)  # fmt: skip


def zipped(files: Mapping[str, str | bytes]) -> bytes:
    """Return a zip file; the same files give the same bytes."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return target.getvalue()
