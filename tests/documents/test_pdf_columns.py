"""Columns of a page are read one after the other, whatever order they are printed in; the rows of tables stay rows."""

from __future__ import annotations

from typing import Any

import pytest

from rag_assets.chunking import ChunkingSpec, chunk_document
from rag_assets.documents.model import Document
from rag_assets.documents.registry import parse
from tests.support.pdf_files import named, pdf, placed, prints

LEFT = (
    "The pump is switched off",
    "before any cover of it is",
    "opened, and the hose stays",
    "closed until the pressure",
    "has gone down to nothing.",
    "Then the filter is taken out",
)
RIGHT = (
    "A blue lamp tells that all",
    "of the water has run out of",
    "the tank; where it is red, a",
    "valve is stuck and has to be",
    "cleaned by somebody who",
    "knows how this is done here",
)
THIRD = (
    "Spare parts are sent on the",
    "same day where the order is",
    "here before noon, and on the",
    "next one otherwise, to every",
    "place of the country that a",
    "parcel may be brought to at",
)
Placed = tuple[str, float, float]


def column(lines: tuple[str, ...], x: float, top: float = 200, pitch: float = 12) -> list[Placed]:
    return [(line, x, top - pitch * number) for number, line in enumerate(lines)]


def woven(*columns: list[Placed]) -> list[Placed]:
    """From top to bottom, and from left to right."""
    return sorted((line for lines in columns for line in lines), key=lambda line: (-line[2], line[1]))


def document_of(*pages: bytes) -> Document:
    (record,) = parse(pdf(*pages), "a.pdf")
    assert record.document is not None, record.error
    return record.document


def lines_of(*pages: bytes) -> list[str]:
    return [line.strip() for line in document_of(*pages).text.split("\n") if line.strip()]


def columns_in(*pages: bytes) -> Any:
    return document_of(*pages).metadata["quality"]["columns"]


@pytest.mark.parametrize("lower", [0, 5, 7])
def test_two_columns_that_are_printed_line_by_line_are_read_one_after_the_other(lower: float) -> None:
    page = placed(*woven(column(LEFT, 10), column(RIGHT, 160, 200 - lower)))
    assert lines_of(page) == [*LEFT, *RIGHT]
    assert columns_in(page) == 2


def test_three_columns_too() -> None:
    page = placed(*woven(column(LEFT, 8), column(RIGHT, 106), column(THIRD, 204)), size=7)
    assert lines_of(page) == [*LEFT, *RIGHT, *THIRD]
    assert columns_in(page) == 3


def test_text_in_one_column_is_counted_as_one() -> None:
    page = placed(*column(LEFT, 10))
    assert lines_of(page) == list(LEFT)
    assert columns_in(page) == 1
    assert columns_in(page, placed(*woven(column(LEFT, 10), column(RIGHT, 160)))) == 2


def test_what_runs_across_all_columns_parts_what_stands_above_from_what_stands_below() -> None:
    across = "This heading of the next part runs across both of the columns"
    above, below = woven(column(LEFT, 10), column(RIGHT, 160)), woven(column(THIRD, 10, 100), column(LEFT, 160, 100))
    page = placed(*above, (across, 10, 120), *below)
    assert lines_of(page) == [*LEFT, *RIGHT, across, *THIRD, *LEFT]


def test_the_header_and_the_footer_of_a_page_stay_at_its_edges() -> None:
    page = placed(
        ("Manual of the pump", 10, 240),
        ("Second edition", 200, 240),
        *woven(column(LEFT, 10), column(RIGHT, 160)),
        ("Printed in May", 10, 110),
        ("Page 7", 250, 110),
    )
    lines = lines_of(page)
    assert lines[0] == "Manual of the pump Second edition"
    assert lines[-1] == "Printed in May Page 7"
    assert lines[1:-1] == [*LEFT, *RIGHT]


def test_a_column_that_begins_higher_or_with_a_number_before_its_heading_is_read_whole() -> None:
    left = [("3", 10.0, 200.0), ("Repairs", 30.0, 200.0), *column(LEFT, 10, 180)]
    page = placed(*woven(left, column((*RIGHT, *THIRD[:3]), 160, 206)))
    assert lines_of(page) == ["3 Repairs", *LEFT, *RIGHT, *THIRD[:3]]


def test_spaces_that_all_columns_have_at_the_same_height_do_not_divide_them() -> None:
    left, right = column(LEFT[:3], 10) + column(LEFT[3:], 10, 150), column(RIGHT[:3], 160) + column(RIGHT[3:], 160, 150)
    assert lines_of(placed(*woven(left, right))) == [*LEFT, *RIGHT]


def test_columns_that_are_printed_out_of_turn_are_read_from_left_to_right() -> None:
    page = placed(*column(RIGHT, 160), *column(LEFT, 10), ("The title stands at the top", 10, 240))
    assert lines_of(page) == ["The title stands at the top", *LEFT, *RIGHT]


@pytest.mark.parametrize(
    "rows",
    [
        [("Part", "Number", "Price"), ("Hose", "4711", "12.50"), ("Filter", "4712", "3.90"), ("Lamp", "4713", "0.80")],
        [("Name of the part", "Where it is kept"), ("Hose", "Second shelf"), ("Filter", "Box"), ("Blue lamp", "Desk")],
        [("1", "The pump is switched off before"), ("2", "Then the cover is opened by hand"), ("3", "It is closed")],
    ],
)
def test_rows_of_a_table_stay_rows(rows: list[tuple[str, ...]]) -> None:
    cells = [(cell, 10 + 95 * n, 200 - 14 * number) for number, row in enumerate(rows) for n, cell in enumerate(row)]
    assert lines_of(placed(*cells)) == [" ".join(row) for row in rows]
    assert columns_in(placed(*cells)) == 1


def test_long_cells_between_lines_are_read_row_by_row() -> None:
    cells = woven(column(LEFT[:3], 10), column(RIGHT[:3], 160), column(LEFT[3:], 10, 160), column(RIGHT[3:], 160, 160))
    page = placed(*cells) + b" 0.5 w 5 171.5 m 295 171.5 l S"
    assert lines_of(page) == [*LEFT[:3], *RIGHT[:3], *LEFT[3:], *RIGHT[3:]]


def test_a_table_beside_text_is_read_after_it_and_row_by_row() -> None:
    rows = [
        ("Part", "Number", "Price"),
        ("Hose", "4711", "12.50"),
        ("Filter", "4712", "3.90"),
        ("Lamp", "4713", "0.80"),
    ]
    cells = [(cell, 160 + 45 * n, 200 - 12 * number) for number, row in enumerate(rows) for n, cell in enumerate(row)]
    page = placed(*woven(column(LEFT, 10), cells))
    assert lines_of(page) == [*LEFT, *(" ".join(row) for row in rows)]


def test_lists_of_entries_and_their_pages_are_no_columns() -> None:
    entries = [(f"{n} A part of this manual on pumps . . . . . . . . .", 10, 200 - 12 * n) for n in range(6)]
    numbers = [(str(3 * n + 12), 270, 200 - 12 * n) for n in range(6)]
    assert lines_of(placed(*woven(entries, numbers))) == [
        f"{text} {number}" for (text, *_), (number, *_) in zip(entries, numbers, strict=True)
    ]


def test_wide_spaces_that_happen_to_stand_under_each_other_part_no_columns() -> None:
    halves = woven(column(LEFT[:3], 10), column(RIGHT[:3], 142))
    page = placed(*halves, *column(("This line of the same paragraph runs across all of the page here",), 10, 164))
    assert lines_of(page)[0] == f"{LEFT[0]} {RIGHT[0]}"


@pytest.mark.parametrize("turn", ["0 1 -1 0", "-1 0 0 -1", "0 -1 1 0"])
def test_columns_on_a_turned_page_are_read_as_on_any_other(turn: str) -> None:
    shift = {"0 1 -1 0": "300 0", "-1 0 0 -1": "300 300", "0 -1 1 0": "0 300"}[turn]
    page = placed(*woven(column(LEFT, 10), column(RIGHT, 160)))
    assert lines_of(f"{turn} {shift} cm ".encode() + page) == [*LEFT, *RIGHT]


@pytest.mark.parametrize("turn", ["0 1 -1 0", "0 -1 1 0"])
def test_turned_text_beside_other_text_is_read_in_lines(turn: str) -> None:
    """Letter by letter, it was a line for each."""
    shift = {"0 1 -1 0": (280, 20), "0 -1 1 0": (280, 280)}[turn]
    widths = {"F": 611, "i": 222, "l": 222, "t": 278, "r": 333, " ": 278, "m": 833, "p": 556}
    shown, x = [], 0.0
    for letter in "Filter map of ten plants":
        at = f"{shift[0]} {shift[1] + (x if turn == '0 1 -1 0' else -x):.2f}"
        shown.append(f"BT /F1 12 Tf {turn} {at} Tm ({letter}) Tj ET" if letter != " " else "")
        x += 12 * widths.get(letter, 556) / 1000
    lines = [" ".join(LEFT[:2]), " ".join(RIGHT[:2]), " ".join(THIRD[:2])] * 6
    page = placed(*column(tuple(lines), 10, 280)) + " ".join(shown).encode()
    assert lines_of(page) == [*lines, "Filter map of ten plants"]


def test_a_word_that_is_divided_at_the_end_of_a_column_line_is_one_word() -> None:
    left = (*LEFT[:3], "closed until all of the pres-", "sure has gone down again")
    page = placed(*woven(column(left, 10), column(RIGHT[:5], 160)))
    text = document_of(page).text
    assert "all of the pressure has gone" in text
    assert RIGHT[3] in text


def test_chunks_of_columns_cite_their_page_and_place() -> None:
    pages = [placed(*woven(column(LEFT, 10), column(RIGHT, 160))), placed(*woven(column(THIRD, 10), column(LEFT, 160)))]
    document = document_of(*pages)
    chunks = chunk_document(document, ChunkingSpec(size=120, overlap=0))
    assert all(document.text[chunk.start : chunk.end] == chunk.content for chunk in chunks)
    assert {chunk.page for chunk in chunks if RIGHT[0] in chunk.content} == {1}
    assert {chunk.page for chunk in chunks if THIRD[0] in chunk.content} == {2}


def test_letters_beyond_the_first_65536_leave_the_places_of_others_known() -> None:
    """They are two characters to PDFium, and one in the text: sizes and places were unknown on such pages."""
    content = prints(("Guide", 24, 270), ("Text of the page", 10, 240), ("and more of it", 10, 228))
    content += b" BT /N 10 Tf 20 100 Td (A) Tj ET"
    (record,) = parse(named(content, b"A", "\U0001d400"), "a.pdf")
    assert record.document is not None
    assert "\U0001d400" in record.document.text
    assert record.document.blocks[0].kind == "heading"
