"""Outlook messages (`.msg`, MS-OXMSG): the message, and each attachment as a source of its own."""

from __future__ import annotations

import datetime
import io
import struct
from collections.abc import Iterator

import olefile  # type: ignore[import-untyped]

from rag_assets.documents.decoding import decode
from rag_assets.documents.model import Record
from rag_assets.documents.normalize import normalize
from rag_assets.documents.parsers.mail import Attachment, Body, Letter, part_kind, take_signed
from rag_assets.documents.parsers.nested import opened
from rag_assets.documents.parsers.rtf import rtf_document
from rag_assets.documents.reasons import in_words
from rag_assets.errors import ParseError

_TYPE = "application/vnd.ms-outlook"
# Property ids of MS-OXPROPS.
_SUBJECT, _BODY, _HTML, _RTF = 0x0037, 0x1000, 0x1013, 0x1009
_SENDER_NAME, _SENDER_SMTP, _SENDER_ADDRESS = 0x0C1A, 0x5D01, 0x0C1F
_TO, _CC = 0x0E04, 0x0E03
_SENT, _DELIVERED = 0x0039, 0x0E06
_CODEPAGE, _INTERNET_CODEPAGE = 0x3FFD, 0x3FDE
_DATA, _FILE_NAME, _LONG_FILE_NAME, _MIME, _CONTENT_ID, _HIDDEN = 0x3701, 0x3704, 0x3707, 0x370E, 0x3712, 0x7FFE
_EPOCH = datetime.datetime(1601, 1, 1, tzinfo=datetime.UTC)
_MAX_RTF = 64 * 1024 * 1024  # bytes unpacked


def parse_msg(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Parse an Outlook message.

    Raises:
        ParseError: damaged, encrypted, or no message.
    """
    try:
        with olefile.OleFileIO(io.BytesIO(data)) as ole:
            if not ole.exists("__properties_version1.0"):
                raise ParseError("the file holds no Outlook message")
            letter = _letter(ole, [])
    except (OSError, struct.error, IndexError, ValueError) as error:
        raise ParseError(f"the message is damaged: {in_words(error)}") from error
    return letter.records(name, _TYPE)


class _Properties:
    """The properties of a message or attachment: the streams in one storage."""

    def __init__(self, ole: olefile.OleFileIO, storage: list[str], header: int) -> None:
        self.ole, self.storage = ole, storage
        self.fixed = dict(self._fixed(header))
        page = self.fixed.get(_CODEPAGE) or self.fixed.get(_INTERNET_CODEPAGE)
        self.codepage = f"cp{struct.unpack('<I', page[:4])[0]}" if page else None

    def _fixed(self, header: int) -> Iterator[tuple[int, bytes]]:
        data = self._stream("__properties_version1.0") or b""
        for start in range(header, len(data) - 15, 16):
            tag, _, value = struct.unpack("<II8s", data[start : start + 16])
            yield tag >> 16, value

    def _stream(self, name: str) -> bytes | None:
        path = [*self.storage, name]
        if not self.ole.exists(path) or self.ole.get_type(path) != olefile.STGTY_STREAM:
            return None
        return bytes(self.ole.openstream(path).read())

    def binary(self, key: int) -> bytes | None:
        return self._stream(f"__substg1.0_{key:04X}0102")

    def text(self, key: int) -> str:
        wide = self._stream(f"__substg1.0_{key:04X}001F")
        if wide is not None:
            return wide.decode("utf-16-le", "replace").rstrip("\0")
        narrow = self._stream(f"__substg1.0_{key:04X}001E")
        if narrow is None:
            return ""
        try:
            return decode(narrow.rstrip(b"\0"), self.codepage)
        except ParseError:
            return narrow.decode("cp1252", "replace")

    def time(self, key: int) -> str:
        value = self.fixed.get(key)
        ticks = struct.unpack("<Q", value)[0] if value else 0
        try:
            moment = _EPOCH + datetime.timedelta(microseconds=ticks // 10)
        except OverflowError:
            return ""
        return moment.replace(microsecond=0).isoformat(sep=" ") if ticks else ""


def _letter(ole: olefile.OleFileIO, storage: list[str]) -> Letter:
    # The header of the property stream is longer in the outermost message.
    properties = _Properties(ole, storage, header=24 if storage else 32)
    address = properties.text(_SENDER_SMTP) or properties.text(_SENDER_ADDRESS)
    sender = properties.text(_SENDER_NAME)
    if "@" in address and address not in sender:
        sender = f"{sender} <{address}>".strip()
    headers = {
        "From": sender,
        "To": properties.text(_TO),
        "Cc": properties.text(_CC),
        "Date": properties.time(_SENT) or properties.time(_DELIVERED),
    }
    cleaned = {name: " ".join(normalize(value).split()) for name, value in headers.items()}
    letter = Letter(" ".join(normalize(properties.text(_SUBJECT)).split()), cleaned, _bodies(properties))
    parts = list(_attachments(ole, storage))
    if not storage:  # one that was forwarded does not fail the message that tells of it
        letter.refuse_encrypted(part_kind(part.content_type or "", part.name) for part in parts if not _is_signed(part))
    for part in parts:
        if _is_signed(part):
            take_signed(part.data, letter)
        else:
            letter.attachments.append(part)
    return letter


def _is_signed(part: Attachment) -> bool:
    """Tell whether it is the message itself with its signature, in which Outlook keeps it as it came."""
    return (part.content_type or "").lower() == "multipart/signed"


def _bodies(properties: _Properties) -> list[Body]:
    plain = properties.text(_BODY)
    if plain.strip():
        return [Body(plain)]
    page = properties.binary(_HTML)
    if page:
        return [Body(decode(page, properties.codepage), is_html=True)]
    packed = properties.binary(_RTF)
    return [Body(rtf_document(unpacked_rtf(packed)).text)] if packed else []


def _attachments(ole: olefile.OleFileIO, storage: list[str]) -> Iterator[Attachment]:
    depth = len(storage)
    names = sorted({entry[depth] for entry in ole.listdir() if entry[:depth] == storage and len(entry) > depth + 1})
    for name in names:
        if not name.startswith("__attach_version1.0_"):
            continue
        place = [*storage, name]
        properties = _Properties(ole, place, header=8)
        title = properties.text(_LONG_FILE_NAME) or properties.text(_FILE_NAME)
        inner = [*place, f"__substg1.0_{_DATA:04X}000D"]
        data = properties.binary(_DATA)
        if ole.exists([*inner, "__properties_version1.0"]):
            yield _forwarded(ole, inner)
        elif data is not None and not _is_shown(properties):
            yield Attachment(title.replace("/", "_").replace("\\", "_") or name, data, properties.text(_MIME) or None)


def _is_shown(properties: _Properties) -> bool:
    """Tell a picture that stands in the text from a file that was attached."""
    hidden = properties.fixed.get(_HIDDEN)
    return bool(hidden and hidden[0]) and properties.text(_MIME).startswith("image/")


def _forwarded(ole: olefile.OleFileIO, storage: list[str]) -> Attachment:
    """Return a message in a message as plain text, with those in it: it is no file that could be read alone."""
    with opened():
        letter = _letter(ole, storage)
    document = letter.document(_TYPE, [])
    title = letter.subject.replace("/", "_").replace("\\", "_")[:100]
    return Attachment(f"{title or 'message'}.txt", document.text.encode(), "text/plain")


_RTF_DICTIONARY = (
    b"{\\rtf1\\ansi\\mac\\deff0\\deftab720{\\fonttbl;}{\\f0\\fnil \\froman \\fswiss \\fmodern \\fscript "
    b"\\fdecor MS Sans SerifSymbolArialTimes New RomanCourier{\\colortbl\\red0\\green0\\blue0\r\n\\par "
    b"\\pard\\plain\\f0\\fs20\\b\\i\\u\\tab\\tx"
)


def unpacked_rtf(data: bytes) -> bytes:
    """Return the RTF in a compressed body (MS-OXRTFCP).

    Raises:
        ParseError: neither packed nor plain RTF, or larger than 64 MiB.
    """
    if len(data) < 16:
        raise ParseError("the message's RTF body is damaged")
    size, kind = struct.unpack("<4xI4s4x", data[:16])
    if kind == b"MELA":
        return data[16 : 16 + size]
    if kind != b"LZFu" or size > _MAX_RTF:
        raise ParseError("the message's RTF body is packed in an unknown way, or too large")
    return _unpacked(data, size)


def _unpacked(data: bytes, size: int) -> bytes:
    window = bytearray(_RTF_DICTIONARY.ljust(4096, b" "))
    write, place, output = len(_RTF_DICTIONARY), 16, bytearray()
    while place < len(data) and len(output) < size:
        control = data[place]
        place += 1
        for bit in range(8):
            width = 2 if control >> bit & 1 else 1
            token = data[place : place + width]
            place += width
            if len(token) < width:
                return bytes(output)
            if width == 1:
                found = token
            else:
                pair = token[0] << 8 | token[1]
                start = pair >> 4
                if start == write:
                    return bytes(output)
                found = b""
            for step in range(1 if width == 1 else (pair & 15) + 2):
                byte = found[0] if width == 1 else window[(start + step) % 4096]
                output.append(byte)
                window[write] = byte
                write = (write + 1) % 4096
    return bytes(output[:size])
