from __future__ import annotations

import pytest

from rag_assets.documents.isolated import parse_file

CARDS = """BEGIN:VCARD
VERSION:4.0
UID:urn:1
FN:Kim Lee
N:Lee;Kim;;;
ORG:Pumps\\, Ltd;Service
TEL;TYPE="work,voice":tel:+49-30-1
item1.EMAIL;TYPE=INTERNET:kim@exam
 ple.com
ADR;TYPE=work:;;Street 1;Town;;12345;Germany
NOTE:Knows valves\\; ask\\nbefore noon.
PHOTO;ENCODING=b;TYPE=JPEG:/9j/4AAQ
END:VCARD
begin:vcard
version:2.1
n;CHARSET=UTF-8;ENCODING=QUOTED-PRINTABLE:M=C3=BC=
ller;Jo
tel;HOME:+49 40 2
end:vcard
BEGIN:VCARD
UID:urn:1
FN:Impostor
END:VCARD
"""


@pytest.mark.parametrize("name", ["people.vcf", "export.txt"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_each_card_is_a_source_that_says_what_people_see(name: str, newline: str) -> None:
    records = parse_file(CARDS.replace("\n", newline).encode(), name)
    assert [(one.key, one.name, one.status, one.place) for one in records] == [
        ("urn:1", "Kim Lee", "ready", "contact 1"),
        ("Jo Müller", "Jo Müller", "ready", "contact 2"),
        ("urn:1#3", "Impostor", "failed", "contact 3"),
    ]
    assert [one.document.text for one in records if one.document] == [
        "Kim Lee\nOrganisation: Pumps, Ltd, Service\nPhone (work): +49-30-1\nE-mail: kim@example.com\n"
        "Address (work): Street 1, Town, 12345, Germany\n\nKnows valves; ask\nbefore noon.",
        "Jo Müller\nPhone (home): +49 40 2",
    ]


@pytest.mark.parametrize("data", [b"nothing", b"BEGIN:VCALENDAR", b"FN:Kim"])
def test_what_holds_no_card_says_so(data: bytes) -> None:
    (record,) = parse_file(data, "people.vcf")
    assert record.status in ("failed", "no_text")


def test_a_card_that_says_nothing_or_never_ends_is_no_harm() -> None:
    assert parse_file(b"BEGIN:VCARD\nREV:1\nEND:VCARD\n", "a.vcf")[0].status == "no_text"
    assert parse_file(b"BEGIN:VCARD\nFN:Kim", "a.vcf")[0].status == "ready"
