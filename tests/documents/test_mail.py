from __future__ import annotations

import struct
from collections.abc import Iterable
from email.message import EmailMessage
from typing import Any

import pytest

from rag_assets.documents.model import Record
from rag_assets.documents.parsers.mail import MAX_LEVELS, MAX_PARTS
from rag_assets.documents.parsers.msg import unpacked_rtf
from rag_assets.documents.registry import parse
from rag_assets.errors import ParseError
from tests.support.office_files import docx, paragraph, zipped
from tests.support.ole_files import inside, msg, ole, properties

SUBJECT, BODY, HTML, RTF, SENDER, ADDRESS, TO, SENT = 0x37, 0x1000, 0x1013, 0x1009, 0x0C1A, 0x5D01, 0x0E04, 0x39
DATA, LONG_NAME, MIME, HIDDEN = 0x3701, 0x3707, 0x370E, 0x7FFE
ATTACHED = "__attach_version1.0_#{:08X}"


def mail(body: str = "Hello", subject: str = "Hi") -> EmailMessage:
    message = EmailMessage()
    message["From"] = "Ann <ann@example.com>"
    message["Subject"] = subject
    message["Date"] = "Tue, 02 Jan 2024 10:00:00 +0100"
    if body:
        message.set_content(body)
    return message


def text(record: Record) -> str:
    assert record.document is not None, record.error
    return record.document.text


def one(data: bytes, name: str = "a.eml") -> Record:
    (record,) = parse(data, name)
    return record


def test_a_mail_is_its_subject_the_headers_that_matter_and_its_text() -> None:
    record = one(mail("Dear Bob,\n\nwe agree.\n", "Größe").as_bytes())
    assert text(record) == (
        "Größe\n\nFrom: Ann <ann@example.com>\nDate: 2024-01-02 10:00:00+01:00\n\nDear Bob,\n\nwe agree."
    )
    assert record.document is not None
    assert record.document.title == "Größe"
    assert record.document.metadata["from"] == "Ann <ann@example.com>"


def test_attachments_are_records_of_their_own_kind_and_key() -> None:
    message = mail()
    message.add_attachment(docx(paragraph("Contract")), maintype="application", subtype="x", filename="../c.docx")
    message.add_attachment(b"id,name\n1,x\n2,y\n", maintype="text", subtype="csv", filename="list.csv")
    message.add_attachment(b"\0\1\2", maintype="application", subtype="x", filename="tool.exe")
    message.add_attachment(b"%PDF-1.4 broken", maintype="application", subtype="pdf", filename="bad.pdf")
    main, contract, *rows, broken = parse(message.as_bytes(), "a.eml")
    assert (main.key, main.status) == ("", "ready")
    assert (contract.key, text(contract)) == (".._c.docx".strip(". "), "Contract")
    assert [row.key for row in rows] == ["list.csv#1", "list.csv#2"]
    assert (broken.key, broken.status) == ("bad.pdf", "failed")
    assert main.document is not None
    assert main.document.metadata["attachments_not_read"] == ["tool.exe"]


def test_attachments_of_one_name_keep_keys_of_their_own() -> None:
    message = mail()
    for content in ("one", "two"):
        message.add_attachment(content, filename="a.txt")
    assert [(record.key, text(record).strip()) for record in parse(message.as_bytes(), "a.eml")[1:]] == [
        ("a.txt", "one"),
        ("a (2).txt", "two"),
    ]


def test_of_two_alternatives_the_one_that_says_more_is_taken_once() -> None:
    message = mail("We meet at ten in the usual place.")
    message.add_alternative("<p>We meet at <b>ten</b> in the usual place.</p>", subtype="html")
    assert text(one(message.as_bytes())).count("usual place") == 1
    stub = mail("View in browser")
    stub.add_alternative("<style>p{}</style><h1>News</h1><p>One two three four five six seven</p>", subtype="html")
    assert text(one(stub.as_bytes())).endswith("News\n\nOne two three four five six seven")


def test_pictures_that_the_text_shows_are_no_attachments() -> None:
    message = mail("")
    message.set_content("<p>Text <img src='cid:logo'></p>", subtype="html")
    message.add_related(b"\x89PNG\r\n\x1a\n\0", maintype="image", subtype="png", cid="<logo>")
    assert [record.key for record in parse(message.as_bytes(), "a.eml")] == [""]


def test_a_forwarded_mail_is_a_record_and_its_attachments_are_too() -> None:
    inner = mail("Inner text", "Inner/one")
    inner.add_attachment("deep", filename="deep.txt")
    outer = mail("Outer text")
    outer.add_attachment(inner)
    keys = [record.key for record in parse(outer.as_bytes(), "a.eml")]
    assert keys == ["", "Inner_one.eml", "Inner_one.eml#deep.txt"]


def test_mails_in_mails_end_at_a_depth() -> None:
    message = mail("level 0")
    for level in range(1, 8):
        outer = mail(f"level {level}")
        outer.add_attachment(message)
        message = outer
    records = parse(message.as_bytes(), "a.eml")
    assert records[-1].status == "failed"
    assert "nested" in (records[-1].error or "")
    assert [record.status for record in records[:-1]] == ["ready"] * 4


def mixed(parts: Iterable[str]) -> bytes:
    """A mail with these parts, each with its own headers."""
    head = "Subject: Many\nContent-Type: multipart/mixed; boundary=b\n\n"
    return (head + "".join(f"--b\n{part}\n" for part in parts) + "--b--\n").encode()


def quality(record: Record) -> dict[str, Any]:
    assert record.document is not None, record.error
    figures: dict[str, Any] = record.document.metadata["quality"]
    return figures


def test_of_a_mail_of_very_many_parts_the_first_are_read_and_the_record_says_so() -> None:
    record = one(mixed(f"Content-Type: text/plain\n\nNote {number} of many." for number in range(30_000)))
    assert text(record).endswith(f"Note {MAX_PARTS - 2} of many.")
    assert (quality(record)["parts_read"], quality(record)["parts_left_out"]) == (MAX_PARTS, True)
    assert "parts_left_out" not in quality(one(mixed(["Content-Type: text/plain\n\nOne note."])))


def test_so_it_is_with_attachments() -> None:
    files = (f"Content-Disposition: attachment; filename={number}.txt\n\nNote {number}." for number in range(30_000))
    main, *attached = parse(mixed(files), "a.eml")
    assert quality(main)["parts_left_out"] is True
    assert len(attached) == MAX_PARTS - 1
    assert {record.status for record in attached} == {"ready"}


@pytest.mark.parametrize("levels", [2 * MAX_LEVELS, 30_000])
def test_parts_in_parts_end_at_a_depth_and_what_stands_above_is_read(levels: int) -> None:
    nested = "".join(
        f"Content-Type: multipart/mixed; boundary=b{level}\n\n--b{level}\nContent-Type: text/plain\n\n"
        f"Level {level}.\n--b{level}\n"
        for level in range(levels)
    )
    record = one(f"Subject: Deep\n{nested}Content-Type: text/plain\n\nThe end.\n".encode())
    assert text(record).endswith(f"Level {MAX_LEVELS - 2}.")
    assert quality(record)["parts_left_out"] is True


def test_mails_in_mails_without_end_are_read_to_a_depth() -> None:
    forwarded = "Content-Type: message/rfc822\n\nSubject: Inner\n" * 30_000
    main, *inner = parse(f"Subject: Outer\n{forwarded}\nThe end.\n".encode(), "a.eml")
    assert quality(main)["parts_left_out"] is True
    assert [record.status for record in inner] == ["ready"] * 3 + ["failed"]
    assert "nested" in (inner[-1].error or "")


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"Subject: Gr\xc3\xb6\xc3\x9fe\n\nText", "Größe\n\nText"),
        (b"Subject: =?utf-8?q?Gr=C3=B6=C3=9Fe?=\n\nText", "Größe\n\nText"),
        (b"Subject: =?nonsense?q?x?=\n\nText", "=?nonsense?q?x?=\n\nText"),
        (b"Subject: a\nContent-Type: text/plain; charset=koi8-r\n\n\xf0\xd2\xc9\xd7\xc5\xd4", "a\n\nПривет"),
        (b"Subject: a\nContent-Type: text/plain; charset=nonsense\n\nText", "a\n\nText"),
        (b"Subject: a\nContent-Type: text/plain; format=flowed\n\nOne \ntwo\n> three", "a\n\nOne two\n> three"),
        (b"Subject: a\nContent-Transfer-Encoding: base64\n\nSGVsbG8", "a\n\nHello"),
        (b"Subject: a \xf0\x9f\x98\x80\n\nText", "a 😀\n\nText"),
        (b"Subject: a\nDate: yesterday\n\nText", "a\n\nDate: yesterday\n\nText"),
    ],
)
def test_headers_and_bodies_in_any_encoding_are_read(raw: bytes, expected: str) -> None:
    assert text(one(raw)) == expected


def test_an_encrypted_mail_and_a_file_that_is_no_mail_fail_with_a_reason() -> None:
    secret = b"Subject: a\nContent-Type: application/pkcs7-mime; name=smime.p7m\n\nMIIB"
    assert "encrypted" in (one(secret).error or "")
    assert "no mail headers" in (one(b"\n\njust text").error or "")
    assert one(b"X-Mailer: y\n\n").status == "no_text"


def test_a_mail_whose_text_is_hidden_says_that_it_is_encrypted() -> None:
    named = b"Subject: a\nContent-Type: application/octet-stream; name=smime.p7m\n\nMIIB"
    inline = b"Subject: a\n\n-----BEGIN PGP MESSAGE-----\n\nhQEMA\n-----END PGP MESSAGE-----\n"
    rights = (
        b"Subject: a\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/plain\n\nThis is protected\n"
        b"--b\nContent-Type: application/x-microsoft-rpmsg-message; name=message.rpmsg\n\nx\n--b--\n"
    )
    for raw in (named, inline, rights):
        assert "encrypted" in (one(raw).error or "")
    for kind, name in (("application/pkcs7-mime", "smime.p7m"), ("", "smime.p7m"), ("", "message.rpmsg")):
        part = inside(ATTACHED.format(0), properties({DATA: b"\x30\x82", LONG_NAME: name, MIME: kind}), header=8)
        record = one(msg(properties({SUBJECT: "Secret plan"}), part), "a.msg")
        assert record.status == "failed"
        assert "encrypted" in (record.error or "")


def test_a_signed_outlook_message_says_what_was_signed() -> None:
    whole = (
        b"Content-Type: multipart/signed; boundary=b\n\n--b\nContent-Type: text/plain\n\nWe agree.\n"
        b"--b\nContent-Type: application/pkcs7-signature; name=smime.p7s\n\nMIIB\n--b--\n"
    )
    signed = properties({DATA: whole, LONG_NAME: "smime.p7m", MIME: "multipart/signed"})
    data = msg(properties({SUBJECT: "Contract"}), inside(ATTACHED.format(0), signed, header=8))
    assert text(one(data, "a.msg")) == "Contract\n\nWe agree."


def test_an_outlook_message_has_sender_time_text_and_attachments() -> None:
    message = properties(
        {SUBJECT: "Größe", BODY: "Dear Bob\r\n", SENDER: "Ann", ADDRESS: "ann@example.com", TO: "Bob"},
        {SENT: struct.pack("<Q", 133_486_776_000_000_000)},
    )
    file = inside(ATTACHED.format(0), properties({DATA: b"id\n1\n", LONG_NAME: "list.txt"}), header=8)
    logo = properties({DATA: b"\x89PNG", LONG_NAME: "logo.png", MIME: "image/png"}, {HIDDEN: b"\1" + b"\0" * 7})
    nested = properties({SUBJECT: "Inner", BODY: "Deep text"})
    forwarded = inside(f"{ATTACHED.format(2)}/__substg1.0_3701000D", nested, header=24)
    attachments = {
        **file,
        **inside(ATTACHED.format(1), logo, header=8),
        **inside(ATTACHED.format(2), properties({}), header=8),
        **forwarded,
    }
    main, attached, inner = parse(msg(message, attachments), "download", "application/octet-stream")
    assert text(main) == "Größe\n\nFrom: Ann <ann@example.com>\nTo: Bob\nDate: 2024-01-02 14:00:00+00:00\n\nDear Bob"
    assert (attached.key, text(attached).strip()) == ("list.txt", "id\n1")
    assert (inner.key, text(inner)) == ("Inner.txt", "Inner\n\nDeep text")


def test_an_outlook_message_with_only_html_or_only_packed_rich_text_is_read() -> None:
    page = properties({SUBJECT: "a", HTML: b"<p>From <b>HTML</b></p>"})
    assert text(one(msg(page), "a.msg")) == "a\n\nFrom HTML"
    rich = b"{\\rtf1\\ansi From {\\b rich} text\\par}"
    plain = struct.pack("<II4sI", len(rich) + 12, len(rich), b"MELA", 0) + rich
    assert text(one(msg(properties({SUBJECT: "a", RTF: plain})), "a.msg")) == "a\n\nFrom rich text"


def test_packed_rich_text_is_unpacked_as_its_specification_shows() -> None:
    # The examples of MS-OXRTFCP, 4.1.1 and 4.1.2: a plain run, and one that copies from what it writes.
    simple = bytes.fromhex(
        "2d0000002b0000004c5a4675f1c5c7a703000a007263706731323542320af32068656c090020627705b06c647d0a800fa0"
    )
    assert unpacked_rtf(simple) == b"{\\rtf1\\ansi\\ansicpg1252\\pard hello world}\r\n"
    crossing = bytes.fromhex("1a0000001c0000004c5a4675e2d44b51410004205758595a0d6e7d010eb0")
    assert unpacked_rtf(crossing) == b"{\\rtf1 WXYZWXYZWXYZWXYZWXYZ}"


@pytest.mark.parametrize("data", [b"", b"x" * 16, struct.pack("<II4sI", 0, 2**31, b"LZFu", 0)])
def test_packed_rich_text_that_is_damaged_or_huge_is_refused(data: bytes) -> None:
    with pytest.raises(ParseError, match="RTF body"):
        unpacked_rtf(data)


def test_a_damaged_outlook_message_fails_with_a_reason() -> None:
    whole = msg(properties({SUBJECT: "a", BODY: "b"}))
    for data in (whole[:600], ole({"Other": b"x" * 5000}), b"no message"):
        record = one(data, "a.msg")
        assert record.status == "failed"
        assert "message" in (record.error or "")


def test_a_mail_in_a_zip_in_a_mail_has_the_whole_path_as_its_key() -> None:
    outer = mail("outer")
    packed = zipped({"box/inner.eml": mail("inner text").as_bytes()})
    outer.add_attachment(packed, maintype="application", subtype="zip", filename="box.zip")
    assert [record.key for record in parse(outer.as_bytes(), "a.eml")] == ["", "box.zip#box/inner.eml"]
