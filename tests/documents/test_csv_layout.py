"""CSV as programs write it: a line that says the delimiter, a title above the table, rows longer than the header."""

from __future__ import annotations

import pytest

from rag_assets.documents.model import Record
from rag_assets.documents.parsers.csv_layout import csv_layout
from rag_assets.documents.registry import parse


def texts(source: str, name: str = "a.csv") -> list[str]:
    return [said(record) for record in parse(source.encode(), name)]


def said(record: Record) -> str:
    assert record.document is not None, record.error
    return record.document.text


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("delimiter", [";", ",", "\t", "|", "^"])
@pytest.mark.parametrize("line", ["sep={}", "SEP={}", '"sep={}"'])
def test_the_line_of_excel_says_the_delimiter_and_is_no_row(line: str, delimiter: str, newline: str) -> None:
    rows = [line.format(delimiter), delimiter.join(["name", "price"]), delimiter.join(["Bolt", "3"])]
    (record,) = parse(("\ufeff" + newline.join(rows)).encode(), "a.csv")
    assert (said(record), record.place) == ("name: Bolt\nprice: 3", "line 3")


@pytest.mark.parametrize(
    "title",
    [
        "Price list 2024\n",
        "Price list 2024\n\n",
        "Price list 2024,,\n",
        '"Price list\n2024"\n',
        "\n\nPrice list 2024\n\n\n",
        "sep=,\nPrice list 2024\n\n",
    ],
)
def test_a_title_above_the_header_is_the_heading_of_every_row(title: str) -> None:
    first, second = parse(f"{title}name,price,stock\nBolt,3,10\nNut,1,7\n".encode(), "a.csv")
    assert said(first).split() == ["Price", "list", "2024", *["name:", "Bolt", "price:", "3", "stock:", "10"]]
    assert said(second).endswith("\n\nname: Nut\nprice: 1\nstock: 7")
    assert second.document is not None
    assert [block.heading_path for block in second.document.blocks] == [("Price list 2024",)] * 2
    assert first.place == f"line {title.count(chr(10)) + 2}"


def test_titles_of_several_lines_and_cells_are_kept_whole() -> None:
    source = "Prices, net; valid from March\nOwner;Ann\n\nname;price;stock\nBolt;3;10\nNut;1;7\n"
    first, _ = texts(source)
    assert first == "Prices, net valid from March\nOwner Ann\n\nname: Bolt\nprice: 3\nstock: 10"


def test_a_pair_stays_a_pair_under_its_title() -> None:
    (record,) = parse(b"Questions of guests\n\nquestion,answer\nOpen?,Yes.\n", "a.csv")
    assert said(record) == "Open?\n\nYes."
    assert record.document is not None
    assert {block.heading_path for block in record.document.blocks} == {("Questions of guests",)}


def test_a_long_preamble_is_a_source_of_its_own_and_not_in_every_row() -> None:
    preamble = "\n".join(f"Line {number} of the terms of use" for number in range(30))
    whole, first, second = texts(f"{preamble}\n\nname,price\nBolt,3\nNut,1\n")
    assert whole == preamble
    assert first.endswith("name: Bolt\nprice: 3")
    assert len(second) < 400


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("name,price\nNail,4,five,six\n", ["name: Nail\nprice: 4\ncolumn 3: five\ncolumn 4: six"]),
        ("name,column 3\nNail,4,x\n", ["name: Nail\ncolumn 3: 4\ncolumn 3': x"]),
        ("question,answer\nOpen?,Yes, and no\n", ["Open?\n\nYes, and no"]),
        ("answer,question\nYes.,Open?,more\n", ["Open?\n\nYes.\nmore"]),
        ("id,text\n7,Well, this, is it\n", ["Well, this, is it"]),
        ("text\nHello, you\nfine\n", ["text: Hello\ncolumn 2: you", "text: fine"]),
        ("name,price\nNail,4,,\n", ["name: Nail\nprice: 4"]),
    ],
)
def test_rows_longer_than_the_header_keep_what_they_have(source: str, shown: list[str]) -> None:
    assert texts(source) == shown


@pytest.mark.parametrize(
    "source",
    [
        "price,stock\nBolt,3,10\nNut,1,7\n",  # the first column has no name
        "name\nBolt\nNut\n",
        "question;answer\nWhy?;Well, so\nHow?;Thus, then\n",
        "value\n1,5\n2,5\n",
        "name,,\nBolt,3,x\nNut,4,y\n",
        "id,text\n",
        "",
    ],
)
def test_a_header_is_no_title(source: str) -> None:
    layout = csv_layout(source)
    assert (layout.heading, layout.lines) == ((), 0)
    assert layout.delimiter == (";" if ";" in source else ",")
