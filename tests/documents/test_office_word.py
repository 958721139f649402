from __future__ import annotations

import pytest

from rag_assets.documents.model import Document
from rag_assets.documents.registry import parse
from tests.support.office_files import OPENXML, R, W, docx, paragraph, relations, table, types, zipped

STYLES = f"""<w:styles {W}>
<w:style w:type="paragraph" w:default="1" w:styleId="Normal"><w:name w:val="Normal"/></w:style>
<w:style w:type="paragraph" w:styleId="T"><w:name w:val="Title"/></w:style>
<w:style w:type="paragraph" w:styleId="H1"><w:name w:val="heading 1"/></w:style>
<w:style w:type="paragraph" w:styleId="H2"><w:name w:val="heading 2"/><w:basedOn w:val="H1"/></w:style>
<w:style w:type="paragraph" w:styleId="Own"><w:name w:val="Chapter"/><w:pPr><w:outlineLvl w:val="1"/></w:pPr></w:style>
<w:style w:type="paragraph" w:styleId="Toc1"><w:name w:val="toc 1"/></w:style>
<w:style w:type="paragraph" w:styleId="Code"><w:name w:val="Source Code"/></w:style>
</w:styles>"""
NUMBERING = f"""<w:numbering {W}>
<w:abstractNum w:abstractNumId="7">
  <w:lvl w:ilvl="0"><w:start w:val="1"/><w:numFmt w:val="decimal"/><w:lvlText w:val="%1."/></w:lvl>
  <w:lvl w:ilvl="1"><w:start w:val="1"/><w:numFmt w:val="lowerLetter"/><w:lvlText w:val="%1.%2)"/></w:lvl>
</w:abstractNum>
<w:abstractNum w:abstractNumId="8"><w:lvl w:ilvl="0"><w:numFmt w:val="bullet"/><w:lvlText w:val="o"/></w:lvl>
</w:abstractNum>
<w:num w:numId="1"><w:abstractNumId w:val="7"/></w:num>
<w:num w:numId="2"><w:abstractNumId w:val="8"/></w:num>
</w:numbering>"""
RELATIONS = {
    "styles": "styles:styles.xml",
    "numbering": "numbering:numbering.xml",
    "footnotes": "footnotes:footnotes.xml",
    "comments": "comments:comments.xml",
    "header": "header:header1.xml",
    "footer": "footer:footer1.xml",
    "chart": "chart:charts/chart1.xml",
}


def read(body: str, more: dict[str, str] | None = None) -> Document:
    parts = {"word/styles.xml": STYLES, "word/numbering.xml": NUMBERING, **(more or {})}
    kept = {key: target for key, target in RELATIONS.items() if f"word/{target.partition(':')[2]}" in parts}
    data = docx(body, {**parts, "word/_rels/document.xml.rels": relations(**kept)})
    (record,) = parse(data, "a.docx")
    assert record.document is not None, record.error
    return record.document


def listed(number: int, level: int) -> str:
    return f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{number}"/></w:numPr>'


def test_headings_come_from_styles_and_outline_levels_and_make_the_heading_path() -> None:
    document = read(
        paragraph("The report", "T") + paragraph("One", "H1") + paragraph("Two", "H2") + paragraph("Text")
        + paragraph("Three", "Own") + paragraph("More")
    )  # fmt: skip
    assert document.title == "The report"
    assert [(block.kind, block.heading_path) for block in document.blocks] == [
        ("heading", ("The report",)),
        ("heading", ("One",)),
        ("heading", ("One", "Two")),
        ("paragraph", ("One", "Two")),
        ("heading", ("One", "Three")),
        ("paragraph", ("One", "Three")),
    ]
    assert all(document.text[b.start : b.end].strip() for b in document.blocks)


def test_list_items_are_one_block_and_keep_the_numbers_that_a_reader_sees() -> None:
    items = [("First", 1, 0), ("Inner", 1, 1), ("Inner too", 1, 1), ("Second", 1, 0)]
    body = "".join(paragraph(text, properties=listed(number, level)) for text, number, level in items)
    document = read(body + paragraph("Dot", properties=listed(2, 0)))
    assert document.text == "1. First\n  1.a) Inner\n  1.b) Inner too\n2. Second\n- Dot"
    assert [block.kind for block in document.blocks] == ["list"]


def test_numbering_goes_on_after_other_text_and_numbers_headings_too() -> None:
    one, two = (paragraph(text, "H1", listed(1, 0)) for text in ("Scope", "Terms"))
    assert read(one + paragraph("Text") + two).text == "1. Scope\n\nText\n\n2. Terms"


def test_a_table_is_rows_of_cells_and_a_value_merged_downwards_is_in_every_row() -> None:
    top = f'<w:tc><w:tcPr><w:vMerge w:val="restart"/></w:tcPr>{paragraph("Fruit")}</w:tc>'
    below = "<w:tc><w:tcPr><w:vMerge/></w:tcPr><w:p/></w:tc>"
    wide = f'<w:tc><w:tcPr><w:gridSpan w:val="2"/></w:tcPr>{paragraph("wide")}</w:tc>'
    document = read(table(["Kind", "Name", "Price"], [top, "Apple", "1"], [below, "Pear", "2"], [wide, "3"]))
    assert document.text == "Kind | Name | Price\nFruit | Apple | 1\nFruit | Pear | 2\nwide |  | 3"
    assert [block.kind for block in document.blocks] == ["table"]


def test_a_table_in_a_cell_is_kept_and_a_table_of_one_cell_is_only_a_frame() -> None:
    inner = f"<w:tc>{table(['a', 'b'])}<w:p/></w:tc>"
    assert read(table(["x", inner])).text == "x | a b"
    document = read(table([f"<w:tc>{paragraph('Framed', 'H1')}{paragraph('Text')}</w:tc>"]))
    assert [block.kind for block in document.blocks] == ["heading", "paragraph"]


def test_text_boxes_are_read_once_though_they_are_stored_twice() -> None:
    box = f"<w:txbxContent>{paragraph('In the box')}</w:txbxContent>"
    twice = (
        f"<mc:AlternateContent><mc:Choice><w:drawing>{box}</w:drawing></mc:Choice>"
        f"<mc:Fallback><w:pict>{box}</w:pict></mc:Fallback></mc:AlternateContent>"
    )
    assert read(f"<w:p><w:r><w:t>Outside</w:t>{twice}</w:r></w:p>").text == "Outside\n\nIn the box"


V = 'xmlns:v="urn:schemas-microsoft-com:vml"'
WPS = 'xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape"'


def word_art(text: str, key: str = "_x0000_s1026") -> str:
    """WordArt as Word wrote it until 2007, and writes watermarks to this day."""
    shape = f'<v:shape {V} id="{key}" type="#_x0000_t136"><v:textpath style="font-size:1pt" string="{text}"/></v:shape>'
    return f"<w:p><w:r><w:pict>{shape}</w:pict></w:r></w:p>"


def test_word_art_of_both_kinds_is_read_and_a_watermark_is_not() -> None:
    new = (
        f"<w:p><w:r><mc:AlternateContent><mc:Choice><w:drawing><wps:wsp {WPS}>"
        f"<wps:txbx><w:txbxContent>{paragraph('Grand opening')}</w:txbxContent></wps:txbx>"
        '<wps:bodyPr><a:prstTxWarp prst="textWave1"/></wps:bodyPr></wps:wsp></w:drawing></mc:Choice>'
        f"<mc:Fallback>{word_art('Grand opening')[10:-12]}</mc:Fallback></mc:AlternateContent></w:r></w:p>"
    )
    header = f"<w:hdr {W}>{word_art('DRAFT', 'PowerPlusWaterMarkObject1')}{word_art('Acme Ltd')}</w:hdr>"
    cells = f"<w:tbl><w:tr><w:tc>{word_art('Only today')}</w:tc><w:tc>{paragraph('10 %')}</w:tc></w:tr></w:tbl>"
    document = read(word_art("Summer sale &amp; more") + new + cells, {"word/header1.xml": header})
    assert document.text == "Summer sale & more\n\nGrand opening\n\nOnly today | 10 %\n\nAcme Ltd"


def test_deleted_moved_and_hidden_text_is_left_out_and_inserted_text_is_not() -> None:
    body = (
        "<w:p><w:del><w:r><w:delText>old</w:delText></w:r></w:del><w:ins><w:r><w:t>new</w:t></w:r></w:ins>"
        "<w:moveFrom><w:r><w:t>moved</w:t></w:r></w:moveFrom>"
        "<w:r><w:rPr><w:vanish/></w:rPr><w:t>hidden</w:t></w:r>"
        '<w:r><w:rPr><w:vanish w:val="0"/></w:rPr><w:t> shown</w:t></w:r></w:p>'
    )
    assert read(body).text == "new shown"


def test_fields_give_their_result_and_a_table_of_contents_is_left_out() -> None:
    field = '<w:p><w:r><w:instrText>PAGE</w:instrText></w:r><w:hyperlink r:id="x"><w:r><w:t>a link</w:t></w:r>'
    content = paragraph("Chapter ..... 7", "Toc1")
    control = f"<w:sdt><w:sdtContent>{paragraph('controlled')}</w:sdtContent></w:sdt>"
    assert read(content + field + "</w:hyperlink></w:p>" + control).text == "a link\n\ncontrolled"


def test_notes_and_comments_follow_their_paragraph_and_margins_come_last_without_page_numbers() -> None:
    notes = f'<w:footnotes {W}><w:footnote w:id="2">{paragraph("A note.")}</w:footnote></w:footnotes>'
    comments = f'<w:comments {W}><w:comment w:id="0" w:author="Ann">{paragraph("Really?")}</w:comment></w:comments>'
    more = {
        "word/footnotes.xml": notes,
        "word/comments.xml": comments,
        "word/header1.xml": f"<w:hdr {W}>{paragraph('ACME secret')}</w:hdr>",
        "word/footer1.xml": f"<w:ftr {W}>{paragraph('Page 3 of 7')}{paragraph('ACME secret')}</w:ftr>",
    }
    body = (
        '<w:p><w:r><w:t>Claim</w:t><w:footnoteReference w:id="2"/></w:r>'
        '<w:r><w:commentReference w:id="0"/></w:r></w:p>' + paragraph("Next")
    )  # fmt: skip
    assert read(body, more).text == "Claim[^2]\n\n[^2]: A note.\n\n[Comment by Ann]: Really?\n\nNext\n\nACME secret"


def test_equations_are_text() -> None:
    fraction = "<m:f><m:num><m:r><m:t>a</m:t></m:r></m:num><m:den><m:r><m:t>b</m:t></m:r></m:den></m:f>"
    power = f"<m:sSup><m:e>{fraction}</m:e><m:sup><m:r><m:t>2</m:t></m:r></m:sup></m:sSup>"
    root = f"<m:rad><m:deg/><m:e>{power}</m:e></m:rad>"
    assert read(f"<w:p><m:oMath>{root}</m:oMath></w:p>").text == r"\sqrt{{\frac{a}{b}}^{2}}"


def test_equations_in_a_row_are_not_run_together() -> None:
    row = "".join(f"<m:oMath><m:r><m:t>{text}</m:t></m:r></m:oMath>" for text in ("a=b", "c=d"))
    assert read(f"<w:p>{row}</w:p>").text == "a=b c=d"
    assert read(f"<w:p><m:oMathPara>{row}</m:oMathPara></w:p>").text == "a=b c=d"


def test_code_paragraphs_are_one_block_with_their_indentation() -> None:
    mono = '<w:p><w:r><w:rPr><w:rFonts w:ascii="Courier New"/></w:rPr><w:t>    return 1</w:t></w:r></w:p>'
    document = read(paragraph("def f():", "Code") + mono)
    assert [(block.kind, document.text) for block in document.blocks] == [("code", "def f():\n    return 1")]


def test_a_chart_is_a_table_with_its_title() -> None:
    space = f'xmlns:c="{OPENXML}/drawingml/2006/chart"'
    points = "<c:strCache><c:pt idx='0'><c:v>2019</c:v></c:pt><c:pt idx='1'><c:v>2020</c:v></c:pt></c:strCache>"
    values = "<c:numCache><c:pt idx='0'><c:v>5</c:v></c:pt><c:pt idx='1'><c:v>6</c:v></c:pt></c:numCache>"
    chart = (
        f'<c:chartSpace {space} xmlns:a="{OPENXML}/drawingml/2006/main"><c:chart>'
        "<c:title><c:tx><c:rich><a:p><a:r><a:t>Ducks</a:t></a:r></a:p></c:rich></c:tx></c:title><c:plotArea><c:barChart>"
        "<c:ser><c:tx><c:strRef><c:strCache><c:pt idx='0'><c:v>Count</c:v></c:pt></c:strCache></c:strRef></c:tx>"
        f"<c:cat>{points}</c:cat><c:val>{values}</c:val></c:ser></c:barChart></c:plotArea></c:chart></c:chartSpace>"
    )
    drawing = f'<w:p><w:r><w:drawing><c:chart {space} r:id="chart"/></w:drawing></w:r></w:p>'
    document = read(drawing, {"word/charts/chart1.xml": chart})
    assert document.text == "Ducks\n\n| Count\n2019 | 5\n2020 | 6"
    assert [block.kind for block in document.blocks] == ["paragraph", "table"]


def test_the_strict_variant_and_a_main_part_of_another_name_are_read() -> None:
    strict = W.replace(f"{OPENXML}/wordprocessingml/2006/main", "http://purl.oclc.org/ooxml/wordprocessingml/main")
    data = zipped(
        {
            "[Content_Types].xml": types("wordprocessingml.document.main"),
            "_rels/.rels": relations(r1="officeDocument:/word/other.xml", r2="core-properties:core.xml"),
            "core.xml": '<p xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>A title</dc:title>'
            "<dc:creator>Ann</dc:creator><dc:language>de-AT</dc:language></p>",
            "word/other.xml": f"<w:document {strict} {R}><w:body>{paragraph('Hello')}</w:body></w:document>",
        }
    )
    (record,) = parse(data, "download", "application/octet-stream")
    assert record.document is not None, record.error
    assert (record.document.text, record.document.title, record.document.language) == ("Hello", "A title", "de")
    assert record.document.metadata["author"] == "Ann"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (zipped({"[Content_Types].xml": types("wordprocessingml.document.main")}), "no main part"),
        (docx("<w:p>"), "not valid XML"),
        (docx(paragraph("x"))[:-30], "damaged"),
        (b"just text", "damaged"),
    ],
)
def test_a_damaged_document_fails_with_a_reason(data: bytes, reason: str) -> None:
    (record,) = parse(data, "a.docx")
    assert record.status == "failed"
    assert reason in (record.error or "")


def test_entities_in_a_part_are_neither_loaded_nor_expanded(tmp_path: object) -> None:
    attack = f"""<!DOCTYPE d [<!ENTITY x SYSTEM "file:///etc/passwd"><!ENTITY a "boom"><!ENTITY b "&a;&a;&a;">]>
    <w:document {W}><w:body><w:p><w:r><w:t>safe &x;&b;</w:t></w:r></w:p></w:body></w:document>"""
    parts = {"[Content_Types].xml": types("wordprocessingml.document.main"), "word/document.xml": attack}
    (record,) = parse(zipped(parts), "a.docx")
    assert record.document is None or record.document.text.strip() == "safe"


def test_a_document_without_text_is_no_text() -> None:
    (record,) = parse(docx("<w:p/>"), "a.docx")
    assert record.status == "no_text"


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("part.html", "<html><body><h1>Rules</h1><nav>Menu</nav><p>Wear a <b>hat</b>.</p></body></html>"),
        ("part.dat", "<!DOCTYPE html><h1>Rules</h1>Menu<p>Wear a hat."),
        ("part.rtf", r"{\rtf1{\stylesheet{\s1 heading 1;}}\pard\s1 Rules\par\pard\s0 Menu\par Wear a hat.\par}"),
        ("part.txt", "Rules\n\nMenu\n\nWear a hat."),
        ("part.docx", docx(paragraph("Rules") + paragraph("Menu") + paragraph("Wear a hat."))),
    ],
)
def test_a_file_of_another_kind_in_the_text_is_read_where_it_stands(path: str, content: str | bytes) -> None:
    chunk = '<w:altChunk r:id="c"/>'
    more: dict[str, str | bytes] = {
        f"word/{path}": content,
        "word/_rels/document.xml.rels": relations(c=f"aFChunk:/word/{path}"),
    }
    for body in (chunk, table(["left", f"<w:tc>{chunk}</w:tc>"])):
        (record,) = parse(docx(paragraph("Before") + body + paragraph("After"), more), "a.docx")
        assert record.document is not None, record.error
        assert " ".join(record.document.text.replace("left |", "").split()) == "Before Rules Menu Wear a hat. After"


def test_a_file_in_the_text_that_cannot_be_read_or_holds_itself_is_counted_and_stops_nothing() -> None:
    chunk, rels = '<w:altChunk r:id="c"/>', "word/_rels/document.xml.rels"
    data = docx(paragraph("End"))
    for _ in range(8):
        data = docx(paragraph("Level") + chunk, {"word/in.docx": data, rels: relations(c="aFChunk:in.docx")})
    for parts in ({"word/in.docx": data}, {"word/in.docx": b"PK\x03\x04 broken"}, {}):
        given = docx(paragraph("Text") + chunk, {**parts, rels: relations(c="aFChunk:in.docx")})
        (record,) = parse(given, "a.docx")
        assert record.document is not None, record.error
        assert record.document.text.startswith("Text")
        if parts != {"word/in.docx": data}:
            assert record.document.metadata["quality"]["parts_not_read"] == 1
