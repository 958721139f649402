"""Mail and rich text that an editor or a program has saved in another encoding than they are written in."""

from __future__ import annotations

import base64
import quopri

import pytest

from rag_assets.documents.model import Record
from rag_assets.documents.registry import parse

MAIL = (
    "Subject: Größe\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n"
    "--b\r\nContent-Type: text/plain; charset={}\r\n\r\nDear Bob, naïve prices in €.\r\n"
    '--b\r\nContent-Disposition: attachment; filename="n.txt"\r\n\r\nA note.\r\n--b--\r\n'
)
ENCODINGS = ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]


def text(record: Record) -> str:
    assert record.document is not None, record.error
    return record.document.text


@pytest.mark.parametrize("declared", ["utf-8", "iso-8859-1", "utf-16"])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_mail_is_read_in_whatever_encoding_it_was_saved(encoding: str, declared: str) -> None:
    mail, note = parse(MAIL.format(declared).encode(encoding), "a.eml")
    assert text(mail) == "Größe\n\nDear Bob, naïve prices in €."
    assert (note.key, text(note).strip()) == ("n.txt", "A note.")


@pytest.mark.parametrize("transfer", ["base64", "8bit"])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_a_part_in_utf_16_is_read(encoding: str, transfer: str) -> None:
    said = "Dear Bob,\r\nnaïve prices.\r\n"
    body = said.encode(encoding)
    body = base64.encodebytes(body) if transfer == "base64" else body
    head = (
        f"Subject: a\r\nContent-Type: text/plain; charset={encoding}\r\nContent-Transfer-Encoding: {transfer}\r\n\r\n"
    )
    (record,) = parse(head.encode() + body, "a.eml")
    assert text(record) == "a\n\nDear Bob,\nnaïve prices."


@pytest.mark.parametrize("encoding", ENCODINGS[:3])
def test_rich_text_is_read_in_whatever_encoding_it_was_saved(encoding: str) -> None:
    (record,) = parse("{\\rtf1\\ansi Gr\\'f6\\'dfe und {\\b mehr}\\par}".encode(encoding), "a.rtf")
    assert text(record) == "Größe und mehr"


@pytest.mark.parametrize("kind", ["message/rfc822", "message/global"])
@pytest.mark.parametrize("coding", ["base64", "quoted-printable", "BASE64"])
def test_a_forwarded_mail_that_is_encoded_is_read_with_its_attachments(coding: str, kind: str) -> None:
    inner = MAIL.format("utf-8").replace("Größe", "Inner").encode()
    encoded = base64.encodebytes(inner) if coding.lower() == "base64" else quopri.encodestring(inner)
    outer = (
        b"Subject: Outer\nContent-Type: multipart/mixed; boundary=o\n\n"
        b"--o\nContent-Type: text/plain\n\nSee below.\n--o\n"
        + f"Content-Type: {kind}\nContent-Transfer-Encoding: {coding}\n".encode()
        + b'Content-Disposition: attachment; filename="f.eml"\n\n'
        + encoded
        + b"\n--o--\n"
    )
    mail, forwarded, note = parse(outer, "a.eml")
    assert text(mail) == "Outer\n\nSee below."
    assert (forwarded.key, text(forwarded)) == ("Inner.eml", "Inner\n\nDear Bob, naïve prices in €.")
    assert note.key == "Inner.eml#n.txt"


def test_a_forwarded_mail_that_only_says_that_it_is_encoded_is_read_as_it_is() -> None:
    outer = (
        b"Subject: Outer\nContent-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\nSubject: Inner\n\nText\n"
    )
    _, forwarded = parse(outer, "a.eml")
    assert text(forwarded) == "Inner\n\nText"


def test_lines_of_json_may_each_begin_with_a_mark() -> None:
    lines = "".join(f'\ufeff{{"id": "{number}", "text": "Note {number}"}}\r\n' for number in range(3))
    assert [(record.key, record.status) for record in parse(lines.encode(), "a.jsonl")] == [
        (str(number), "ready") for number in range(3)
    ]
