"""What is text is read, whatever its kind is called; what is none is passed over without a fault."""

from __future__ import annotations

import json

import pytest

from rag_assets.documents.isolated import parse_file
from rag_assets.documents.model import Document
from rag_assets.documents.registry import supported


def only(data: bytes, name: str) -> Document:
    (record,) = parse_file(data, name)
    assert record.status == "ready", record.error
    assert record.document is not None
    return record.document


@pytest.mark.parametrize(
    "name",
    [
        "App.tsx", "Main.kt", "Program.cs", "View.swift", "Page.vue", "main.tf", "lib.scala", "a.proto", "x.lua",
        "Dockerfile", "Dockerfile.dev", "Makefile", "README", "LICENSE", "NOTES.1", "deploy/Jenkinsfile",
        "build.gradle",
        "fix.patch", "app.conf", "CODEOWNERS",
    ],
)  # fmt: skip
def test_code_and_files_that_go_by_their_names_are_read(name: str) -> None:
    assert supported(name)
    text = "the quick word 'wombat' stands here\n\nand here\n"
    assert only(text.encode(), name).text == text


@pytest.mark.parametrize("data", [b"\x7fELF\x02\x01\x01\x00" + bytes(range(256)) * 8, b"\x1f\x8b\x08\x00" + bytes(64)])
@pytest.mark.parametrize("name", ["tool", "core.1234"])
def test_a_program_without_a_suffix_is_no_fault(data: bytes, name: str) -> None:
    (record,) = parse_file(data, name)
    assert record.status == "no_text"
    assert record.error


def test_binary_bytes_under_the_name_of_a_text_stay_a_fault() -> None:
    (record,) = parse_file(b"\x89PNG\r\n\x1a\n\x00\x00", "notes.txt")
    assert record.status == "failed"


def test_a_notebook_is_its_cells_and_what_they_printed() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Wear\n", "\n", "Why seals leak."]},
        {
            "cell_type": "code",
            "source": "print('```')",
            "outputs": [
                {"output_type": "stream", "name": "stdout", "text": ["42 leaks\n"]},
                {"output_type": "display_data", "data": {"image/png": "iVBORw0KGgo=", "text/plain": ["<Figure>"]}},
                {"output_type": "error", "ename": "E", "evalue": "", "traceback": ["\x1b[0;31mE"]},
            ],
        },
    ]
    document = only(json.dumps({"cells": cells, "nbformat": 4}).encode(), "wear.ipynb")
    assert document.title == "Wear"
    assert "Why seals leak." in document.text
    assert "42 leaks" in document.text
    assert "iVBOR" not in document.text
    assert "\x1b" not in document.text
    assert {block.kind for block in document.blocks} == {"heading", "paragraph", "code"}


@pytest.mark.parametrize("data", [b"[1, 2]", b"{}", b'{"cells": 3}', b"{", b"[" * 5000, b'{"worksheets": null}'])
def test_what_is_no_notebook_says_so(data: bytes) -> None:
    (record,) = parse_file(data, "x.ipynb")
    assert record.status == "failed"
    assert "not a notebook" in (record.error or "")


CALENDAR = b"""BEGIN:VCALENDAR\r
VERSION:2.0\r
PRODID:-//x//y//EN\r
BEGIN:VEVENT\r
UID:one@example.com\r
DTSTART;TZID=Europe/Berlin:20260301T090000\r
SUMMARY:Boiler inspection\\, yearly\r
DESCRIPTION:Bring the red\r
 \x20key.\\nAsk for Kim.\r
LOCATION:Hall 4\r
ORGANIZER;CN=Kim Lee:mailto:kim@example.com\r
END:VEVENT\r
BEGIN:VTODO\r
UID:two@example.com\r
SUMMARY:Order gaskets\r
END:VTODO\r
BEGIN:VEVENT\r
UID:one@example.com\r
SUMMARY:Impostor\r
END:VEVENT\r
END:VCALENDAR\r
"""


def test_each_entry_of_a_calendar_is_a_record() -> None:
    records = parse_file(CALENDAR, "plan.ics")
    assert [(one.key, one.status) for one in records] == [
        ("one@example.com", "ready"),
        ("two@example.com", "ready"),
        ("one@example.com#2", "failed"),
    ]
    assert [one.place for one in records] == ["event 1", "task 1", "event 2"]
    document = records[0].document
    assert document is not None
    assert document.title == "Boiler inspection, yearly"
    assert "Bring the red key.\nAsk for Kim." in document.text
    assert "Where: Hall 4" in document.text
    assert "Organizer: Kim Lee" in document.text


def test_a_value_that_its_kind_does_not_allow_is_kept_as_text() -> None:
    damaged = CALENDAR.replace(b"DTSTART;TZID=Europe/Berlin:20260301T090000", b"DTSTART:next week")
    first = parse_file(damaged, "plan.ics")[0].document
    assert first is not None
    assert "Begins: next week" in first.text


@pytest.mark.parametrize(
    "data", [b"BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY", b"nothing", b"BEGIN:VEVENT\r\nEND:VTODO\r\n"]
)
def test_a_damaged_calendar_fails_alone(data: bytes) -> None:
    (record,) = parse_file(data, "x.ics")
    assert record.status in ("failed", "no_text")
    assert record.error
