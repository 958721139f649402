"""A mailbox is its mails; text under the name of an office file is what it is."""

from __future__ import annotations

import pytest

from rag_assets.documents.isolated import parse_file
from rag_assets.documents.model import Record
from rag_assets.documents.parsers import nested
from rag_assets.documents.registry import choose, parse, supported
from rag_assets.errors import UnsupportedFormat

MAILBOX = b"""From kim@example.com Thu Jan  1 09:00:00 2026
From: Kim <kim@example.com>
Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?= from the pump house
Date: Thu, 1 Jan 2026 09:00:00 +0000

The pump leaks.

>From Monday on it is off.

From here on, 10:30 in 2026, nobody may enter
without a key.

From - Fri Jan  2 10:00:00 2026
>From old@example.com Fri Jan  2 10:00:00 2026
From: Lee <lee@example.com>
Subject: Gasket
Date: Fri, 2 Jan 2026 10:00:00 +0000
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="b"

--b

A gasket is attached.
--b
Content-Type: text/csv
Content-Disposition: attachment; filename="prices.csv"

part,price
Gasket,12.50
--b--

From lee@example.com Sat Jan  3 10:00:00 2026
Subject: Gasket
Date: Fri, 2 Jan 2026 11:00:00 +0000

Again.
"""


def text(record: Record) -> str:
    assert record.document is not None, record.error
    return record.document.text


@pytest.mark.parametrize("name", ["old.mbox", "Inbox", "export.txt"])
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_each_mail_of_a_mailbox_is_a_source_of_its_own(name: str, newline: bytes) -> None:
    records = parse_file(MAILBOX.replace(b"\n", newline), name)
    first, second = "2026-01-01 Grüße from the pump house.eml", "2026-01-02 Gasket.eml"
    assert [(one.part, one.status) for one in records] == [
        (first, "ready"),
        (second, "ready"),
        (f"{second}#prices.csv", "ready"),
        ("2026-01-02 Gasket (2).eml", "ready"),
    ]
    assert "From Monday on it is off.\n\nFrom here on, 10:30 in 2026, nobody may enter\nwithout a key." in text(
        records[0]
    )
    assert "A gasket is attached." in text(records[1])
    assert "12.50" in text(records[2])
    assert records[2].key.startswith(f"{second}#prices.csv#")


def test_a_mail_that_cannot_be_read_fails_alone() -> None:
    damaged = MAILBOX.replace(b"Again.", b"-----BEGIN PGP MESSAGE-----")
    records = parse_file(damaged, "old.mbox")
    assert [one.status for one in records] == ["ready", "ready", "ready", "failed"]
    assert "encrypted" in (records[3].error or "")


def test_a_single_mail_that_was_saved_with_its_first_line_is_that_mail() -> None:
    (record,) = parse_file(MAILBOX[: MAILBOX.index(b"\nFrom - ")], "saved.eml")
    assert record.key == ""
    assert "The pump leaks." in text(record)


def test_a_mailbox_with_too_many_mails_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nested, "MAX_FILES", 2)
    (record,) = parse(MAILBOX, "old.mbox")
    assert record.status == "failed"
    assert "3 mails where 2 are allowed" in (record.error or "")


@pytest.mark.parametrize("data", [b"", b"no mail", b"From here to 2026", b"From a 10:00 2026\n\nno headers"])
def test_what_is_no_mailbox_says_so(data: bytes) -> None:
    (record,) = parse_file(data, "old.mbox")
    assert record.status in ("failed", "no_text")


def test_a_text_that_begins_as_a_mail_does_is_a_text() -> None:
    assert choose(b"From January 2019 to March 2026\nSummary: nothing happened", "a.txt").name == "text"
    assert choose(b"From 10:00 to 11:00 in 2026\n\nnothing happened", "README").name == "text"


@pytest.mark.parametrize(
    ("name", "data", "kind", "said"),
    [
        ("a.xls", b"<table><tr><td>Gasket</td><td>12.50</td></tr></table>", "html", "Gasket"),
        ("a.xls", b"\xef\xbb\xbf\n<html xmlns:x='urn:x'><body><p>Gasket</body></html>", "html", "Gasket"),
        ("a.xls", b"part\tprice\nGasket\t12.50\n", "csv", "Gasket"),
        ("a.xls", "part\tprice\nGasket\t12.50\n".encode("utf-16"), "csv", "Gasket"),
        ("a.xlsx", b"part;price\nGasket;12.50\n", "csv", "Gasket"),
        ("a.xls", b"<?xml version='1.0'?><Workbook><Cell><Data>Gasket</Data></Cell></Workbook>", "xml", "Gasket"),
        ("a.doc", b"Gaskets cost 12.50.\r\n\x1a", "text", "Gaskets"),
        ("a.doc", b"<div>Gaskets cost 12.50.</div>", "html", "Gaskets"),
        ("a.doc", b"{\\rtf1 Gaskets cost 12.50.}", "rtf", "Gaskets"),
        ("a.txt", b"%PDF-1.4 damaged", "pdf", None),
        ("a.doc",
         b"Date: Thu, 1 Jan 2026 09:00:00 +0000\r\nSubject: Exported\r\nMIME-Version: 1.0\r\n"
         b"Content-Type: multipart/related;\r\n boundary=b\r\n\r\n--b\r\nContent-Type: text/html\r\n\r\n"
         b"<p>Gaskets cost 12.50.</p>\r\n--b--\r\n", "mail", "Gaskets"),
    ],
)  # fmt: skip
def test_text_under_the_name_of_an_office_file_is_read_as_what_it_is(
    name: str, data: bytes, kind: str, said: str | None
) -> None:
    assert choose(data, name).name == kind
    records = parse_file(data, name)
    if said is not None:
        assert any(said in text(record) for record in records)


@pytest.mark.parametrize("name", ["a.docx", "a.ppt", "a.xls"])
@pytest.mark.parametrize("data", [b"just words", b"\x01\x02\x03\x04,;\t"])
def test_what_no_program_would_open_stays_a_fault(name: str, data: bytes) -> None:
    (record,) = parse_file(data, name)
    assert record.status == "failed"


def test_mailboxes_are_known_by_their_names() -> None:
    assert supported("old.mbox")
    assert supported("Inbox")
    with pytest.raises(UnsupportedFormat):
        choose(b"x", "a.unknown")


def test_what_no_library_writes_or_knows_does_not_fail_a_mail() -> None:
    forwarded = 'Subject: Inner\nContent-Type: multipart/mixed; boundary="ü"\n\n--ü\n\nDeep words.\n--ü--\n'
    head = 'Subject: Outer\nContent-Type: multipart/mixed; boundary="b"\n\n--b\nContent-Type: message/rfc822\n\n'
    outer = f"{head}{forwarded}\n--b--\n"
    records = parse_file(outer.encode(), "a.eml")
    assert [record.status for record in records] == ["ready", "ready"]
    unknown = "Subject: =?utf-8?q?Plain?= =?qÿştn-8?q?x?=\n\nWords."
    (record,) = parse_file(unknown.encode(), "a.eml")
    assert "Words." in text(record)
