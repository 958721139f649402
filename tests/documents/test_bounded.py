"""No file takes more time than a limit, or gives more text than a person can have written into it."""

from __future__ import annotations

import pytest

from rag_assets.documents.isolated import parse_file
from rag_assets.documents.parsers.rows import csv_rows
from tests.support.office_files import zipped

ODS = "application/vnd.oasis.opendocument.spreadsheet"


def sheet(rows: str) -> bytes:
    body = (
        '<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
        'xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0" '
        'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"><office:body><office:spreadsheet>'
        f'<table:table table:name="S">{rows}</table:table></office:spreadsheet></office:body></office:document-content>'
    )
    return zipped({"mimetype": ODS, "content.xml": body})


def cell(text: str, columns: int = 1) -> str:
    return f'<table:table-cell table:number-columns-repeated="{columns}"><text:p>{text}</text:p></table:table-cell>'


def row(cells: str, rows: int = 1) -> str:
    return f'<table:table-row table:number-rows-repeated="{rows}">{cells}</table:table-row>'


@pytest.mark.parametrize(("columns", "rows"), [(1000, 1000), (16384, 1), (1, 1_048_576), (999_999_999, 999_999_999)])
def test_one_cell_that_is_repeated_over_a_sheet_is_not_a_book(columns: int, rows: int) -> None:
    (record,) = parse_file(sheet(row(cell("wombat", columns), rows)), "x.ods")
    assert record.document is not None
    assert len(record.document.text) < 500


def test_cells_that_are_equal_side_by_side_keep_their_columns() -> None:
    rows = row(cell("day") + cell("mon") + cell("tue")) + row(cell("open") + cell("yes", 2)) + row(cell("a") * 3, 4)
    (record,) = parse_file(sheet(rows + row(cell("end") * 3)), "x.ods")
    assert record.document is not None
    (table,) = [block for block in record.document.blocks if block.kind == "table"]
    lines = record.document.text[table.start : table.end].splitlines()
    assert lines == ["day | mon | tue", "open | yes | yes", "a | a | a", "end | end | end"]


def test_text_that_a_file_of_its_size_cannot_hold_is_refused() -> None:
    rows = "\n".join(["x" * 10_000, *map(str, range(3000))])
    (record,) = parse_file(rows.encode(), "x.csv")[:1]
    assert record.status == "failed"
    assert "characters come out of" in (record.error or "")


@pytest.mark.parametrize(
    "opening", ["[", "![", "[a](", "<", "{a: ", "- ", "? ", "&a ", "!!set {", '"\\x', "a: |\n ", "* "]
)
def test_front_matter_is_read_in_time_whatever_it_nests(opening: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_PARSE_SECONDS", "10")
    text = f"---\n{opening * (60_000 // len(opening))}\n---\n\nBody.\n"
    (record,) = parse_file(text.encode(), "x.md")
    assert record.status == "ready", record.error


def test_a_header_of_fifty_thousand_columns_has_that_many_names() -> None:
    header = ",".join(["same"] * 25_000 + [f"c{number}" for number in range(25_000)])
    (found,) = csv_rows(f"{header}\n" + ",".join(["1"] * 50_000))
    assert found.values is not None
    assert len(found.values) == 50_000


def test_a_plain_text_that_takes_for_ever_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_PARSE_SECONDS", "0.001")
    lines = b"\n".join(b'{"text": "%d words"}' % number for number in range(200_000))
    (record,) = parse_file(lines, "x.jsonl")
    assert record.status == "failed"
    assert "RAG_PARSE_SECONDS" in (record.error or "")
