"""Mailboxes (`.mbox`): each mail is a source of its own, and so are its attachments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from email.parser import BytesHeaderParser

from rag_assets.documents.decoding import in_ascii_form
from rag_assets.documents.model import Record
from rag_assets.documents.names import suffix
from rag_assets.documents.parsers.mail import file_name, header, parse_eml
from rag_assets.documents.parsers.nested import Collected, opened
from rag_assets.documents.sniff import MAIL_BEGINS
from rag_assets.errors import ParseError
from rag_assets.printing import counted

_QUOTED = re.compile(rb"^>(>*From )", re.MULTILINE)
_HEAD = 64 * 1024  # bytes in which the headers of a mail are looked for
_LONG_NAME = 100  # characters


def parse_mbox(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Parse the mails of a mailbox; each is called after its day and subject, and one that cannot be read fails alone.

    Raises:
        ParseError: no mailbox, or one with more mails than a file may hold.
    """
    data = in_ascii_form(data)
    places = [match.span() for match in MAIL_BEGINS.finditer(data)]
    if not places:
        raise ParseError("the file is no mailbox: no mail begins in it")
    if len(places) == 1 and suffix(name) == ".eml":
        return parse_eml(next(_mails(data, places)), name, content_type)
    collected = Collected()
    with opened() as budget:
        if len(places) > budget.files:
            raise ParseError(f"the mailbox holds {counted(len(places), 'mail')} where {budget.files:,} are allowed")
        for mail in _mails(data, places):
            collected.add(mail, collected.unique(_called(mail)), "message/rfc822", budget)
    return collected.records


def _mails(data: bytes, places: list[tuple[int, int]]) -> Iterator[bytes]:
    ends = [start for start, _ in places[1:]] + [len(data)]
    for (_, start), end in zip(places, ends, strict=True):
        # A line of a mail that begins as a mail does has a mark in front.
        yield _QUOTED.sub(rb"\1", data[start:end])


def _called(mail: bytes) -> str:
    message = BytesHeaderParser().parsebytes(mail[:_HEAD])
    day = re.match(r"\d{4}-\d\d-\d\d", header(message, "Date"))
    subject = file_name(header(message, "Subject"))[:_LONG_NAME] or "mail"
    return f"{day[0]} {subject}.eml" if day else f"{subject}.eml"
