from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.documents.model import Document
from rag_assets.documents.parsers.office.cells import plain
from rag_assets.documents.registry import parse
from tests.support.office_files import A, R, S, odf, relations, rows, xlsx


def document(data: bytes, name: str = "a.xlsx") -> Document:
    (record,) = parse(data, name)
    assert record.document is not None, record.error
    return record.document


def sheet(*lines: list[str | float | None]) -> str:
    return f"<sheetData>{rows(*lines)}</sheetData>"


def test_each_sheet_is_a_section_and_a_run_of_rows_a_table() -> None:
    read = document(xlsx({"Prices": sheet(["Name", "Price"], ["Apple", 1.5]), "Empty": "", "Last": sheet(["a", "b"])}))
    assert read.text == "Prices\n\nName | Price\nApple | 1.5\n\nEmpty\n\nLast\n\na | b"
    kinds = [(block.kind, block.heading_path) for block in read.blocks]
    assert kinds[:3] == [("heading", ("Prices",)), ("table", ("Prices",)), ("heading", ("Empty",))]


def test_a_title_above_a_table_is_no_header_row() -> None:
    lines = rows(["Ducks of 2024"]) + rows(["Year", "Count"], [2019, 120], first=2)
    read = document(xlsx({"A": f"<sheetData>{lines}</sheetData>"}))
    assert [block.kind for block in read.blocks] == ["heading", "paragraph", "table"]
    assert read.text.endswith("Year | Count\n2019 | 120")


def test_empty_rows_divide_tables_and_empty_cells_keep_the_columns_in_line() -> None:
    lines = rows(["a", None, "c"], [1, 2, 3]) + rows(["x", "y"], first=9)
    assert document(xlsx({"A": f"<sheetData>{lines}</sheetData>"})).text == "A\n\na |  | c\n1 | 2 | 3\n\nx | y"


def test_tables_beside_each_other_are_two_tables() -> None:
    left = rows(["a", "b"], [1, 2], [3, 4])
    beside = (
        '<row r="1"><c r="A1"><v>1</v></c><c r="B1"><v>2</v></c></row>'
        '<row r="2"><c r="A2"><v>3</v></c><c r="B2"><v>4</v></c><c r="E2"><v>7</v></c><c r="F2"><v>8</v></c></row>'
        '<row r="3"><c r="E3"><v>9</v></c><c r="F3"><v>0</v></c></row>'
    )
    assert document(xlsx({"A": f"<sheetData>{left}</sheetData>"})).text == "A\n\na | b\n1 | 2\n3 | 4"
    assert document(xlsx({"A": f"<sheetData>{beside}</sheetData>"})).text == "A\n\n1 | 2\n3 | 4\n\n7 | 8\n9 | 0"


def test_a_value_merged_downwards_is_in_each_row_and_one_merged_sideways_in_one_cell() -> None:
    merged = '<mergeCells><mergeCell ref="A2:A3"/><mergeCell ref="B1:C1"/></mergeCells>'
    xml = sheet(["Kind", "Fruit"], ["sweet", "Apple", 1], [None, "Pear", 2], [None, "Nut", 3]) + merged
    assert document(xlsx({"A": xml})).text == "A\n\nKind | Fruit\nsweet | Apple | 1\nsweet | Pear | 2\n | Nut | 3"


def test_cells_of_every_type_say_what_a_reader_sees() -> None:
    styles = (
        f'<styleSheet {S}><numFmts><numFmt numFmtId="170" formatCode="dd\\.mm\\.yyyy"/></numFmts>'
        '<cellXfs><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="170"/><xf numFmtId="10"/></cellXfs></styleSheet>'
    )
    strings = f"<sst {S}><si><r><t>Two </t></r><r><t>runs</t></r><rPh><t>kana</t></rPh></si></sst>"
    cells = (
        '<c r="A1" t="s"><v>0</v></c><c r="B1" s="1"><v>45292</v></c><c r="C1" s="2"><v>45292.75</v></c>'
        '<c r="D1" s="3"><v>0.125</v></c><c r="E1" t="b"><v>1</v></c><c r="F1" t="e"><v>#N/A</v></c>'
        '<c r="G1" t="str"><f>A1&amp;"x"</f><v>result</v></c><c r="H1"><v>0.30000000000000004</v></c>'
        '<c r="I1" t="s"><v>99</v></c>'
    )
    data = xlsx(
        {"A": f'<sheetData><row r="1">{cells}</row></sheetData>'},
        {"xl/styles.xml": styles, "xl/sharedStrings.xml": strings},
    )
    assert document(data).text == ("A\n\nTwo runs | 2024-01-01 | 01.01.2024 | 12.50% | TRUE | #N/A | result | 0.3")


def test_comments_name_their_author_and_cell_and_a_thread_is_not_told_twice() -> None:
    comments = (
        f"<comments {S}><authors><author>Ann</author><author>tc=1</author></authors><commentList>"
        '<comment ref="A1" authorId="0"><text><t>Check</t></text></comment>'
        '<comment ref="B1" authorId="1"><text><t>[Threaded comment] old copy</t></text></comment>'
        "</commentList></comments>"
    )
    thread = '<threadedComment ref="B1" personId="p"><text>Why?</text></threadedComment>'
    more = {
        "xl/worksheets/_rels/sheet1.xml.rels": relations(c="comments:../comments1.xml", t="threadedComment:../t.xml"),
        "xl/comments1.xml": comments,
        "xl/t.xml": f"<ThreadedComments>{thread}</ThreadedComments>",
        "xl/persons.xml": '<personList><person id="p" displayName="Bob"/></personList>',
        "xl/_rels/workbook.xml.rels": relations(s1="worksheet:worksheets/sheet1.xml", p="person:persons.xml"),
    }
    text = document(xlsx({"A": sheet(["x", "y"])}, more)).text
    assert text == "A\n\nx | y\n\n[Comment by Ann on A1]: Check\n\n[Comment by Bob on B1]: Why?"


def test_one_cell_in_the_last_row_and_column_costs_nothing() -> None:
    xml = (
        '<dimension ref="A1:XFD1048576"/><sheetData><row r="1"><c r="A1"><v>1</v></c></row>'
        '<row r="1048576"><c r="XFD1048576"><v>2</v></c></row></sheetData>'
    )
    assert document(xlsx({"A": xml})).text == "A\n\n1\n\n2"


def test_an_opendocument_sheet_with_a_million_repeated_empty_rows_is_small() -> None:
    cell = '<table:table-cell table:number-columns-repeated="{}"><text:p>{}</text:p></table:table-cell>'
    body = (
        '<table:table table:name="A"><table:table-row>' + cell.format(2, "x") + "</table:table-row>"
        '<table:table-row table:number-rows-repeated="1048000">'
        '<table:table-cell table:number-columns-repeated="16384"/></table:table-row>'
        "<table:table-row>" + cell.format(1, "end") + "</table:table-row></table:table>"
    )
    assert document(odf("spreadsheet", body), "a.ods").text == "A\n\nx | x\n\nend"


def test_what_a_book_stores_once_for_millions_of_cells_is_bounded() -> None:
    strings = f"<sst {S}><si><t>{'x' * 1000}</t></si></sst>"
    cells = "".join(f'<row r="{row}"><c r="A{row}" t="s"><v>0</v></c></row>' for row in range(1, 60_000))
    data = xlsx({"A": f"<sheetData>{cells}</sheetData>"}, {"xl/sharedStrings.xml": strings})
    (record,) = parse(data, "a.xlsx")
    assert record.status == "failed"
    assert "characters" in (record.error or "")


def test_a_workbook_without_cells_still_names_its_sheets() -> None:
    assert document(xlsx({"Plan": "<sheetData/>"})).text == "Plan"


@given(st.floats(1e-300, 1e300) | st.floats(-1e300, -1e-300) | st.just(0.0))
def test_a_number_is_written_so_that_it_reads_as_itself(value: float) -> None:
    assert float(plain(value)) == pytest.approx(value, rel=1e-14)


def test_diagrams_and_charts_over_the_cells_are_read_with_the_formats_of_their_numbers() -> None:
    dgm, chart = (f"http://schemas.openxmlformats.org/drawingml/2006/{kind}" for kind in ("diagram", "chart"))
    step = "<d:pt><d:t><a:p><a:r><a:t>{}</a:t></a:r></a:p></d:t></d:pt>"
    cache = "<c:numRef><c:numCache><c:formatCode>{}</c:formatCode>{}</c:numCache></c:numRef>"
    days = cache.format("mmm yyyy", '<c:pt idx="0"><c:v>45292</c:v></c:pt>')
    values = cache.format("General", '<c:pt idx="0"><c:v>4.4000000000000004</c:v></c:pt>')
    more = {
        "xl/worksheets/_rels/sheet1.xml.rels": relations(d="drawing:../drawing1.xml"),
        "xl/drawing1.xml": f'<w {R} xmlns:d="{dgm}" xmlns:c="{chart}"><d:relIds r:dm="s"/><c:chart r:id="c"/></w>',
        "xl/_rels/drawing1.xml.rels": relations(s="diagramData:data1.xml", c="chart:chart1.xml"),
        "xl/data1.xml": f'<d:m xmlns:d="{dgm}" {A}>{step.format("Plan")}{step.format("Build")}</d:m>',
        "xl/chart1.xml": f'<c:s xmlns:c="{chart}"><c:ser><c:cat>{days}</c:cat><c:val>{values}</c:val></c:ser></c:s>',
    }
    assert document(xlsx({"A": sheet(["x"])}, more)).text == "A\n\nx\n\n- Plan\n- Build\n\n|\nJan 2024 | 4.4"
