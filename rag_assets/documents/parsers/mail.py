"""E-mail (RFC 5322, `.eml`): the message, and each attachment as a source of its own."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from email.errors import MessageError
from email.header import decode_header, make_header
from email.message import Message
from email.parser import BytesFeedParser
from email.policy import Policy, compat32
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any

from lxml import html  # type: ignore[import-untyped]

from rag_assets.documents.building import TextBuilder, paragraphs, whole_file
from rag_assets.documents.decoding import decode, in_ascii_form
from rag_assets.documents.model import Document, Record
from rag_assets.documents.normalize import normalize
from rag_assets.documents.parsers.html.blocks import add_blocks
from rag_assets.documents.parsers.nested import Collected, opened
from rag_assets.documents.quality import figures
from rag_assets.errors import ParseError

_TYPE = "message/rfc822"
_HEADERS = ("From", "To", "Cc", "Date")
_FORWARDED = frozenset({_TYPE, "message/global"})
_ENCRYPTED = frozenset({"multipart/encrypted", "application/pkcs7-mime", "application/x-pkcs7-mime"})
_PROTECTED = "application/x-microsoft-rpmsg-message"  # by a rights service: what stands beside it only says so
_ENCRYPTED_NAMES = {".p7m": "application/pkcs7-mime", ".rpmsg": _PROTECTED}
_PGP = "-----BEGIN PGP MESSAGE-----"
_SIGNATURES = frozenset({"application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature"})
_MUCH_SHORTER = 0.5  # a text alternative with fewer words than this share of the HTML's is only a stub
_UNSAFE = re.compile(r"[\x00-\x1f/\\]+")
MAX_PARTS = 10_000
MAX_LEVELS = 50  # of parts in parts; a mail that is forwarded as such is three
_STEP = 1024  # bytes between two looks at what was read: some 25 more levels


@dataclass(frozen=True)
class Body:
    """A part of what a mail says: HTML or plain text."""

    text: str
    is_html: bool = False

    @property
    def words(self) -> int:
        return len(_built([self]).document().text.split())


@dataclass
class Attachment:
    name: str
    data: bytes
    content_type: str | None = None


@dataclass
class Letter:
    """A mail of any format: what it says about itself, its bodies in order, and its attachments."""

    subject: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    bodies: list[Body] = field(default_factory=list)
    attachments: list[Attachment] = field(default_factory=list)
    counts: dict[str, Any] = field(default_factory=dict)  # quality figures

    def document(self, content_type: str, unread: list[str]) -> Document:
        builder = TextBuilder()
        builder.add("heading", " ".join(self.subject.split()))
        builder.add("paragraph", "\n".join(f"{name}: {value}" for name, value in self.headers.items() if value))
        _built(self.bodies, builder)
        metadata: dict[str, object] = {name.lower(): value for name, value in self.headers.items() if value}
        if self.attachments:
            metadata["attachments"] = [attachment.name for attachment in self.attachments]
        if unread:
            metadata["attachments_not_read"] = unread
        if self.counts:
            metadata = figures(metadata, **self.counts)
        return builder.document(title=self.subject, content_type=content_type, metadata=metadata)

    def refuse_encrypted(self, kinds: Iterable[str]) -> None:
        """Raise ParseError where the parts of these media types hide what the mail says."""
        found = set(kinds)
        says = "\n".join(body.text for body in self.bodies).strip()
        if _PROTECTED in found or says.startswith(_PGP) or (not says and found & _ENCRYPTED):
            raise ParseError("the mail is encrypted, or signed in a way that hides its text")

    def records(self, name: str, content_type: str) -> list[Record]:
        """Return the record of the message, and those of its attachments with their names as keys."""
        collected = Collected()
        with opened() as budget:
            for attachment in self.attachments:
                path = collected.unique(attachment.name)
                collected.add(attachment.data, path, attachment.content_type, budget)
        document = self.document(content_type, collected.unread)
        if not self.subject and not any(body.text.strip() for body in self.bodies):
            return [Record("", name, "no_text", error="the mail has no subject and no text"), *collected.records]
        return [*whole_file(document, name), *collected.records]


def parse_eml(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Parse a mail or a web page saved as MHTML.

    Of alternatives the plain text is taken, unless it says much less than the HTML. Pictures that the text shows
    are passed over; other attachments are parsed by their own kinds. What comes after `MAX_PARTS` parts or the first
    one below `MAX_LEVELS` is not read; `metadata["quality"]` says so.

    Raises:
        ParseError: no mail, or an encrypted one.
    """
    message, is_whole = _message(in_ascii_form(data))
    if not message.keys():
        raise ParseError("the file has no mail headers: it is no mail")
    letter = Letter(header(message, "Subject"))
    letter.headers = {key: value for key in _HEADERS if (value := header(message, key))}
    _take(message, letter)
    if not is_whole:
        letter.counts = {"parts_read": sum(1 for _ in message.walk()), "parts_left_out": True}
    letter.refuse_encrypted(_kind(part) for part in message.walk())
    return letter.records(name, _TYPE)


@dataclass
class _Reading:
    """How much of a mail has been read."""

    parts: int = 1
    is_full: bool = False


class _Part(Message):
    """A part of a mail, which holds no more parts than a mail may."""

    def __init__(self, reading: _Reading, policy: Policy[Message] = compat32) -> None:
        super().__init__(policy)
        self._reading, self._level = reading, 1

    def attach(self, part: Message) -> None:  # type: ignore[override]
        """Take a part in, which the parser has made and fills afterwards."""
        assert isinstance(part, _Part)
        part._level = self._level + 1
        self._reading.parts += 1
        if self._reading.parts > MAX_PARTS or part._level > MAX_LEVELS:
            self._reading.is_full = True
            if self.get_payload() is None:
                self.set_payload([] if self.get_content_maintype() == "multipart" else "")
        else:
            super().attach(part)


def take_signed(data: bytes, letter: Letter) -> None:
    """Add what a signed part says, which is a mail by itself, to the letter that holds it."""
    _take(_message(data)[0], letter)


def part_kind(content_type: str, name: str) -> str:
    """Return the media type of a part; for one of an encrypted mail it is often in its name alone."""
    return next((kind for end, kind in _ENCRYPTED_NAMES.items() if name.lower().endswith(end)), content_type.lower())


def _kind(part: Message) -> str:
    return part_kind(part.get_content_type(), part.get_filename() or "")


def _message(data: bytes) -> tuple[Message, bool]:
    """Return the mail, and whether that is all of it."""
    reading = _Reading()
    parser = BytesFeedParser(partial(_Part, reading))
    for start in range(0, len(data), _STEP):
        parser.feed(data[start : start + _STEP])
        if reading.is_full:
            break
    return parser.close(), not reading.is_full


def header(message: Message, name: str) -> str:
    # The raw value: the parsed one has already lost bytes that the standard forbids and old programs write.
    raw = next((str(value) for key, value in message.raw_items() if key.lower() == name.lower()), "")
    text = " ".join(normalize(_decoded_words(raw)).split())
    return _iso(text) if name == "Date" else text


def _decoded_words(raw: str) -> str:
    """Return a header's text with its encoded words (RFC 2047) decoded, as far as they can be."""
    with contextlib.suppress(ParseError, UnicodeError):
        raw = decode(raw.encode("utf-8", "surrogateescape"))
    with contextlib.suppress(LookupError, ValueError, MessageError):
        return str(make_header(decode_header(raw)))
    return raw


def _iso(date: str) -> str:
    try:
        return parsedate_to_datetime(date).isoformat(sep=" ")
    except (ValueError, TypeError, IndexError, OverflowError):
        return date


def _take(part: Message, letter: Letter) -> None:
    kind = _kind(part)
    if kind == "multipart/alternative":
        letter.bodies += _best(part, letter)
    elif kind in _FORWARDED and (packed := _packed(part)):
        letter.attachments.append(packed)
    elif part.is_multipart() and kind != "message/rfc822":
        for inner in _inner(part):
            _take(inner, letter)
    elif kind == "message/rfc822":
        letter.attachments += [_forwarded(inner) for inner in _inner(part)]
    elif _is_body(part):
        letter.bodies.append(_body(part))
    elif kind not in _ENCRYPTED | _SIGNATURES and not _is_shown_picture(part):
        letter.attachments.append(_attachment(part))


def _inner(part: Message) -> list[Message]:
    payload = part.get_payload()
    return [inner for inner in payload if isinstance(inner, Message)] if isinstance(payload, list) else []


def _best(part: Message, letter: Letter) -> list[Body]:
    choices = []
    for inner in _inner(part):
        alone = Letter()
        _take(inner, alone)
        letter.attachments += alone.attachments
        choices.append(alone.bodies)
    rich = next((bodies for bodies in choices if any(body.is_html for body in bodies)), [])
    plain = next((bodies for bodies in choices if bodies and not any(body.is_html for body in bodies)), [])
    words = sum(body.words for body in plain)
    return rich if rich and words < _MUCH_SHORTER * sum(body.words for body in rich) else plain or rich


def _is_body(part: Message) -> bool:
    kind = part.get_content_type()
    named = part.get_content_disposition() == "attachment" or part.get_filename()
    return kind in ("text/plain", "text/html", "text/enriched") and not named


def _is_shown_picture(part: Message) -> bool:
    return (
        part.get_content_maintype() in ("image", "font")
        and part.get_content_disposition() != "attachment"
        and bool(part["Content-ID"] or part["Content-Location"])
    ) or part.get_content_type() == "text/css"


def _payload(part: Message) -> bytes:
    payload = part.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""


def _body(part: Message) -> Body:
    data = _payload(part)
    try:
        text = decode(data, part.get_content_charset())
    except ParseError:
        text = data.decode("utf-8", "replace")
    is_html = part.get_content_type() == "text/html"
    flowed = not is_html and str(part.get_param("format", "")).lower() == "flowed"
    return Body(_unflowed(text) if flowed else text, is_html)


def _unflowed(text: str) -> str:
    """Join the lines that end in a space, which RFC 3676 has wrapped; the signature's mark is not one of them."""
    return re.sub(r"(?<!\n--)(?<=\S) \r?\n(?![>\r\n])", " ", text)


def _attachment(part: Message) -> Attachment:
    kind = part.get_content_type()
    name = file_name(part.get_filename() or "")
    return Attachment(name or f"attachment.{part.get_content_subtype()}", _payload(part), kind)


def _packed(part: Message) -> Attachment | None:
    """Return a forwarded mail that is encoded as a file would be, which standards forbid and some programs do."""
    coding = str(part.get("Content-Transfer-Encoding", "")).strip().lower()
    inner = next(iter(_inner(part)), None)
    if coding not in ("base64", "quoted-printable") or inner is None:
        return None
    carrier = Message()
    carrier["Content-Transfer-Encoding"] = coding
    carrier.set_payload(_source(inner).lstrip().decode("ascii", "surrogateescape"))
    data = _payload(carrier)
    message, _ = _message(data)
    # The programs that only say so have written the mail as it is.
    return replace(_forwarded(message), data=data) if message.keys() else None


def _forwarded(message: Message) -> Attachment:
    subject = file_name(header(message, "Subject"))[:100]
    return Attachment(f"{subject or 'message'}.eml", _source(message), _TYPE)


def _source(message: Message) -> bytes:
    """Return a mail as it is written; one whose boundary is not ASCII cannot be written as bytes."""
    try:
        return message.as_bytes()
    except UnicodeEncodeError:
        return message.as_string().encode("utf-8", "replace")


def file_name(name: str) -> str:
    return " ".join(_UNSAFE.sub("_", normalize(_decoded_words(name))).split()).strip(". ")


def _built(bodies: list[Body], builder: TextBuilder | None = None) -> TextBuilder:
    builder = builder or TextBuilder()
    for body in bodies:
        text = normalize(body.text)
        if not body.is_html:
            for block in paragraphs(text):
                builder.add("paragraph", text[block.start : block.end])
        elif text.strip():
            parser = html.HTMLParser(encoding="utf-8", remove_comments=True)
            add_blocks(html.document_fromstring(text.encode(), parser=parser), builder)
    return builder
