from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.documents.registry import parse
from tests.support.binary_books import cell, record, row, text, xlsb
from tests.support.office_files import relations

REAL, TEXT = 5, 6


def real(value: float) -> bytes:
    return struct.pack("<d", value)


def read(data: bytes, name: str = "a.xlsb") -> str:
    (found,) = parse(data, name)
    assert found.document is not None, found.error
    return found.document.text


def test_cells_of_every_kind_say_what_a_reader_sees() -> None:
    cells = (
        cell(7, 0, struct.pack("<I", 1)),
        cell(REAL, 1, real(7030), style=1),
        cell(REAL, 2, real(36.5), style=2),
        cell(2, 3, struct.pack("<I", 12345 << 2 | 3)),
        cell(2, 4, real(1.5)[4:]),
        cell(4, 5, b"\1"),
        cell(3, 6, b"\x2a"),
        cell(TEXT, 7, text("inline")),
        cell(62, 8, b"\0" + text("rich")),
        cell(8, 9, text("formula") + b"\0\0"),
        cell(9, 10, real(0.25) + b"\0\0", style=3),
        cell(2, 11, struct.pack("<i", -7 << 2 | 2)),
    )
    short = (cell(REAL, 0, real(1)), cell(16, 0, real(2)), cell(12, 0, b""), cell(18, 0, struct.pack("<I", 0)))
    data = xlsb({"A": row(0, *cells) + row(1, *short)}, ["first", "second"], ["00000", "[h]:mm", "0%"])
    for name in ("a.xlsb", "a.xlsx", "download"):
        assert read(data, name) == (
            "A\n\nsecond | 07030 | 876:00 | 123.45 | 1.5 | TRUE | #N/A | inline | rich | formula | 25% | -7\n"
            "1 | 2 |  | first"
        )


def test_sheets_dates_merged_cells_and_comments_are_those_of_the_book() -> None:
    rows = row(0, cell(TEXT, 0, text("Kind")), cell(TEXT, 1, text("Day")))
    rows += row(1, cell(TEXT, 0, text("sweet")), cell(REAL, 1, real(43830), style=1)) + row(2, cell(REAL, 1, real(1)))
    merged = record(176, struct.pack("<4I", 1, 2, 0, 0))
    comment = record(635, struct.pack("<5I", 0, 1, 1, 27, 27) + b"\0" * 16) + record(637, b"\0" + text("Why?"))
    more: dict[str, str | bytes] = {
        "xl/worksheets/_rels/sheet2.bin.rels": relations(c="comments:../comments1.bin"),
        "xl/comments1.bin": record(632, text("Ann")) + comment,
    }
    data = xlsb({"First": b"", "Second": rows + merged}, (), ["d mmm yyyy"], more, since_1904=True)
    assert read(data) == "First\n\nSecond\n\nKind | Day\nsweet | 1 Jan 2024\nsweet | 1\n\n[Comment by Ann on AB2]: Why?"


@given(st.floats(-1e9, 1e9).map(lambda value: round(value, 2)))
def test_a_number_is_the_same_in_either_way_of_writing_it(value: float) -> None:
    whole = round(value * 100)
    cells = [cell(REAL, 0, real(value))]
    if -(2**29) <= whole < 2**29:
        cells.append(cell(2, 1, struct.pack("<i", whole << 2 | 3)))
    lines = read(xlsb({"A": row(0, *cells)})).split("\n\n")[1].split(" | ")
    assert len(set(lines)) == 1
    assert float(lines[0]) == value


def test_one_cell_in_the_last_row_and_column_costs_nothing_and_one_beyond_is_left_out() -> None:
    rows = row(0, cell(REAL, 0, real(1)), cell(REAL, 2**32 - 1, real(9)))
    assert read(xlsb({"A": rows + row(2**32 - 1, cell(REAL, 16_383, real(2)))})) == "A\n\n1\n\n2"


@pytest.mark.parametrize(
    "damaged",
    [
        record(0, b"\0"),
        row(0, cell(TEXT, 0, struct.pack("<I", 2**31))),
        row(0) + b"\x05\x7f",
        row(0, record(REAL, b"\0" * 9)),
        row(0, record(4, b"\0" * 8)),
        b"\x80",
    ],
)
def test_a_damaged_book_fails_with_a_reason(damaged: bytes) -> None:
    more = {"xl/worksheets/sheet1.bin": damaged}
    (found,) = parse(xlsb({"A": b""}, more=more), "a.xlsb")
    assert found.status == "failed"
    assert "the workbook is damaged" in (found.error or "")
