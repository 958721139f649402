from __future__ import annotations

import pytest

from rag_assets.documents.model import Document
from rag_assets.documents.registry import parse
from tests.support.office_files import odf, zipped


def read(data: bytes, name: str) -> Document:
    (record,) = parse(data, name)
    assert record.document is not None, record.error
    return record.document


def odt(body: str, styles: str = "", **parts: str) -> Document:
    return read(odf("text", body, parts, styles), "a.odt")


def test_an_opendocument_text_has_headings_lists_tables_notes_and_comments() -> None:
    numbers = (
        '<text:list-style style:name="N"><text:list-level-style-number text:level="1" style:num-format="1"/>'
        "</text:list-style>"
    )
    cell = "<table:table-cell><text:p>{}</text:p></table:table-cell>"
    document = odt(
        '<text:p text:style-name="Title">Report</text:p>'
        '<text:h text:outline-level="1">One</text:h>'
        '<text:p>Some<text:s text:c="2"/>text<text:line-break/>here<text:note>'
        "<text:note-citation>1</text:note-citation><text:note-body><text:p>A note.</text:p></text:note-body>"
        "</text:note>"
        "<office:annotation><dc:creator>Ann</dc:creator><text:p>Really?</text:p></office:annotation></text:p>"
        '<text:list text:style-name="N"><text:list-item><text:p>a</text:p></text:list-item>'
        "<text:list-item><text:p>b</text:p><text:list><text:list-item><text:p>c</text:p></text:list-item></text:list>"
        "</text:list-item></text:list>"
        f"<table:table><table:table-row>{cell.format('H')}{cell.format('I')}</table:table-row>"
        f"<table:table-row>{cell.format('1')}{cell.format('2')}</table:table-row></table:table>",
        numbers,
    )
    assert document.text == (
        "Report\n\nOne\n\nSome  text\nhere[^1]\n\n[^1]: A note.\n\n[Comment by Ann]: Really?\n\n1. a\n2. b\n  - c\n\n"
        "H | I\n1 | 2"
    )
    assert [block.kind for block in document.blocks][-2:] == ["list", "table"]


def test_deleted_text_and_tables_of_contents_are_left_out_and_frames_are_not() -> None:
    document = odt(
        "<text:tracked-changes><text:p>old</text:p></text:tracked-changes>"
        "<text:table-of-content><text:p>One ... 1</text:p></text:table-of-content>"
        "<text:p>Text<draw:frame><draw:text-box><text:p>In a frame</text:p></draw:text-box></draw:frame></text:p>"
        "<text:section><text:p>In a section</text:p></text:section>"
    )
    assert document.text == "Text\n\nIn a frame\n\nIn a section"


def test_a_numbered_heading_in_a_list_is_a_heading() -> None:
    heading = '<text:h text:outline-level="2">Scope</text:h>'
    document = odt(f"<text:list><text:list-item>{heading}</text:list-item></text:list>")
    assert [block.kind for block in document.blocks] == ["heading"]


def test_an_encrypted_document_is_refused() -> None:
    manifest = '<m:manifest xmlns:m="urn:x"><m:file-entry><m:encryption-data/></m:file-entry></m:manifest>'
    (record,) = parse(odf("text", "", {"META-INF/manifest.xml": manifest}), "a.odt")
    assert record.status == "failed"
    assert "encrypted" in (record.error or "")


def test_a_flat_document_is_read() -> None:
    flat = (
        '<office:document xmlns:office="urn:o" xmlns:text="urn:t" office:mimetype="x/y">'
        "<office:body><office:text><text:p>Flat</text:p></office:text></office:body></office:document>"
    )
    assert read(flat.encode(), "a.fodt").text == "Flat"


CONTAINER = '<container><rootfiles><rootfile full-path="OPS/book.opf"/></rootfiles></container>'
PACKAGE = """<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/">
<metadata><dc:title>A book</dc:title><dc:creator>Ann</dc:creator><dc:language>fr</dc:language></metadata>
<manifest><item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>
<item id="two" href="text/two%20b.xhtml" media-type="application/xhtml+xml"/>
<item id="one" href="text/one.xhtml" media-type="application/xhtml+xml"/>
<item id="css" href="a.css" media-type="text/css"/></manifest>
<spine><itemref idref="nav"/><itemref idref="one"/><itemref idref="two"/><itemref idref="css"/></spine></package>"""
BOOK = {
    "mimetype": "application/epub+zip",
    "META-INF/container.xml": CONTAINER,
    "OPS/book.opf": PACKAGE,
    "OPS/nav.xhtml": "<html><body><ol><li>One</li></ol></body></html>",
    "OPS/text/one.xhtml": "<?xml version='1.0' encoding='utf-8'?><html><head><title>x</title></head><body>"
    "<h1>One</h1><p>Caf&eacute;&nbsp;text</p></body></html>",
    "OPS/text/two b.xhtml": "<html><body><p>Größe</p></body></html>",
}


def test_a_book_is_its_chapters_in_reading_order() -> None:
    document = read(zipped(BOOK), "a.epub")
    assert document.text == "One\n\nCafé text\n\nGröße"
    assert [block.heading_path for block in document.blocks] == [("One",), ("One",), ()]
    assert (document.title, document.language, document.metadata["author"]) == ("A book", "fr", "Ann")


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"META-INF/container.xml": ""}, "not valid XML"),
        ({"META-INF/container.xml": "<container/>", "OPS/book.opf": "<package/>"}, "holds no text"),
        ({"OPS/text/one.xhtml": b"\0\1\2\3\4\5\6" * 9}, "binary"),
    ],
)
def test_a_damaged_book_fails_or_holds_no_text_and_says_so(parts: dict[str, str | bytes], reason: str) -> None:
    (record,) = parse(zipped({**BOOK, **parts}), "a.epub")
    assert record.status != "ready"
    assert reason in (record.error or "")


def test_a_book_that_is_protected_against_copying_says_so() -> None:
    empty = {"OPS/text/one.xhtml": "", "OPS/text/two b.xhtml": "", "META-INF/rights.xml": "<rights/>"}
    (record,) = parse(zipped({**BOOK, **empty}), "a.epub")
    assert record.status == "failed"
    assert "DRM" in (record.error or "")


def test_headers_and_footers_of_an_opendocument_text_are_read_once_unless_they_only_count_pages() -> None:
    spaces = " ".join(
        f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("office", "style", "text")
    )
    page = (
        '<style:master-page style:name="{}"><style:header><text:p>Draft of May</text:p></style:header>'
        "<style:footer><text:p>Page <text:page-number>1</text:page-number></text:p><text:p>ACME Ltd</text:p>"
        '</style:footer><style:footer-left style:display="false"><text:p>unused</text:p></style:footer-left>'
        "</style:master-page>"
    )
    styles = (
        f"<office:document-styles {spaces}><office:master-styles>{page.format('A')}{page.format('B')}"
        "</office:master-styles></office:document-styles>"
    )
    read_text = odt("<text:h>Head</text:h><text:p>Body</text:p>", **{"styles.xml": styles})
    assert read_text.text == "Head\n\nBody\n\nDraft of May\n\nACME Ltd"
    assert read_text.blocks[-1].heading_path == ()
