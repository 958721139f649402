"""One small whole file of every kind that can be written down in text."""

from __future__ import annotations

import struct
import zlib

from bench.markup_seeds import MARKUP
from bench.mutations import zipped

_XML = '<?xml version="1.0" encoding="UTF-8"?>'
_OPENXML = "application/vnd.openxmlformats-officedocument"
_RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_SLIDE = "http://schemas.openxmlformats.org/presentationml/2006/main"
_DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
_ODF = "urn:oasis:names:tc:opendocument:xmlns"


def _office(main: str, kind: str, parts: dict[str, str], related: dict[str, str]) -> bytes:
    folder, _, file = main.rpartition("/")
    links = "".join(
        f'<Relationship Id="r{n}" Type="{_RELATIONS}/{kind}" Target="{target}"/>'
        for n, (target, kind) in enumerate(related.items(), start=1)
    )
    return zipped(
        {
            "[Content_Types].xml": f'{_XML}<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
            f'<Default Extension="xml" ContentType="application/xml"/>'
            f'<Override PartName="/{main}" ContentType="{_OPENXML}.{kind}.main+xml"/></Types>',
            "_rels/.rels": f'{_XML}<Relationships xmlns="{_PACKAGE}"><Relationship Id="r1" '
            f'Type="{_RELATIONS}/officeDocument" Target="{main}"/></Relationships>',
            f"{folder}/_rels/{file}.rels": f'{_XML}<Relationships xmlns="{_PACKAGE}">{links}</Relationships>',
            **parts,
        }
    )


def _docx() -> bytes:
    cell = "<w:tc><w:p><w:r><w:t>cell</w:t></w:r></w:p></w:tc>"
    body = (
        '<w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t>Title</w:t></w:r></w:p>'
        '<w:p><w:pPr><w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr></w:pPr><w:r><w:t>Item</w:t></w:r></w:p>'
        f"<w:tbl><w:tr>{cell * 3}</w:tr><w:tr>{cell * 3}</w:tr></w:tbl>"
    )
    document = f'{_XML}<w:document xmlns:w="{_WORD}"><w:body>{body}</w:body></w:document>'
    style = '<w:style w:styleId="Heading1"><w:name w:val="heading 1"/></w:style>'
    styles = f'{_XML}<w:styles xmlns:w="{_WORD}">{style}</w:styles>'
    return _office(
        "word/document.xml",
        "wordprocessingml.document",
        {"word/document.xml": document, "word/styles.xml": styles},
        {"styles.xml": "styles"},
    )


def _xlsx() -> bytes:
    workbook = (
        f'{_XML}<workbook xmlns="{_SHEET}" xmlns:r="{_RELATIONS}"><sheets><sheet name="Prices" sheetId="1" r:id="r1"/>'
        "</sheets></workbook>"
    )
    cells = '<c r="A1" t="s"><v>0</v></c><c r="B1" t="inlineStr"><is><t>Price</t></is></c>'
    rows = f'<row r="1">{cells}</row><row r="2"><c r="A2"><v>3.5</v></c><c r="B2" t="b"><v>1</v></c></row>'
    merged = '<mergeCells><mergeCell ref="A1:B1"/></mergeCells>'
    sheet = f'{_XML}<worksheet xmlns="{_SHEET}"><sheetData>{rows}</sheetData>{merged}</worksheet>'
    strings = f'{_XML}<sst xmlns="{_SHEET}"><si><t>Name</t></si></sst>'
    return _office(
        "xl/workbook.xml",
        "spreadsheetml.sheet",
        {"xl/workbook.xml": workbook, "xl/worksheets/sheet1.xml": sheet, "xl/sharedStrings.xml": strings},
        {"worksheets/sheet1.xml": "worksheet", "sharedStrings.xml": "sharedStrings"},
    )


def _xlsb() -> bytes:
    def text(value: str) -> bytes:
        return struct.pack("<I", len(value)) + value.encode("utf-16-le")

    def record(kind: int, data: bytes) -> bytes:
        number = bytes([kind]) if kind < 0x80 else bytes([kind & 0x7F | 0x80, kind >> 7])
        return number + bytes([len(data)]) + data

    link = f'<Relationship Id="r{{}}" Type="{_RELATIONS}/{{}}" Target="{{}}"/>'
    links = link.format(1, "worksheet", "sheet1.bin") + link.format(2, "sharedStrings", "strings.bin")
    cells = (
        record(0, bytes(17))
        + record(7, bytes(12))
        + record(6, struct.pack("<II", 1, 0) + text("Price"))
        + record(0, struct.pack("<I", 1) + bytes(13))
        + record(5, struct.pack("<IId", 0, 0, 3.5))
        + record(176, struct.pack("<4I", 0, 0, 0, 1))
    )
    main = "application/vnd.ms-excel.sheet.binary.macroEnabled.main"
    return zipped(
        {
            "[Content_Types].xml": f'{_XML}<Types><Override PartName="/xl/workbook.bin" ContentType="{main}"/></Types>',
            "xl/workbook.bin": record(156, struct.pack("<II", 0, 1) + text("r1") + text("Prices")),
            "xl/_rels/workbook.bin.rels": f'{_XML}<Relationships xmlns="{_PACKAGE}">{links}</Relationships>',
            "xl/sheet1.bin": cells,
            "xl/strings.bin": record(19, b"\0" + text("Name")),
        }
    )


def _pptx() -> bytes:
    presentation = (
        f'{_XML}<p:presentation xmlns:p="{_SLIDE}" xmlns:r="{_RELATIONS}"><p:sldIdLst><p:sldId id="256" r:id="r1"/>'
        "</p:sldIdLst></p:presentation>"
    )
    shape = "<p:sp><p:txBody><a:p><a:r><a:t>Text on a slide</a:t></a:r></a:p></p:txBody></p:sp>"
    tree = f"<p:cSld><p:spTree>{shape * 2}</p:spTree></p:cSld>"
    slide = f'{_XML}<p:sld xmlns:p="{_SLIDE}" xmlns:a="{_DRAWING}">{tree}</p:sld>'
    return _office(
        "ppt/presentation.xml",
        "presentationml.presentation",
        {"ppt/presentation.xml": presentation, "ppt/slides/slide1.xml": slide},
        {"slides/slide1.xml": "slide"},
    )


def _odt() -> bytes:
    names = f'xmlns:office="{_ODF}:office:1.0" xmlns:text="{_ODF}:text:1.0" xmlns:table="{_ODF}:table:1.0"'
    cell = "<table:table-cell table:number-columns-repeated='2'><text:p>cell</text:p></table:table-cell>"
    body = (
        f"<text:h text:outline-level='1'>Title</text:h><text:p>Text <text:s text:c='3'/>more</text:p>"
        f"<text:list><text:list-item><text:p>Item</text:p></text:list-item></text:list>"
        f"<table:table><table:table-row>{cell}</table:table-row></table:table>"
    )
    text = f"<office:body><office:text>{body}</office:text></office:body>"
    content = f"{_XML}<office:document-content {names}>{text}</office:document-content>"
    return zipped({"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": content})


def _epub() -> bytes:
    container = (
        f'{_XML}<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
    )
    book = (
        f'{_XML}<package xmlns="http://www.idpf.org/2007/opf" version="3.0"><metadata '
        'xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>Book</dc:title></metadata><manifest>'
        '<item id="c" href="c.xhtml" media-type="application/xhtml+xml"/></manifest>'
        '<spine><itemref idref="c"/></spine></package>'
    )
    chapter = (
        '<html xmlns="http://www.w3.org/1999/xhtml"><body><h1>Chapter</h1><p>Text of the chapter</p></body></html>'
    )
    return zipped(
        {"mimetype": "application/epub+zip", "META-INF/container.xml": container, "book.opf": book, "c.xhtml": chapter}
    )


def _pdf() -> bytes:
    content = b"BT /F1 12 Tf 20 200 Td (Text on a page) Tj ET"
    objects = (
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Count 1/Kids[3 0 R]>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 300]/Resources<</Font<</F1 4 0 R>>>>/Contents 5 0 R>>",
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(content), content),
    )
    body, table = b"%PDF-1.4\n", b"0000000000 65535 f \n"
    for number, value in enumerate(objects, start=1):
        table += b"%010d 00000 n \n" % len(body)
        body += b"%d 0 obj%s endobj\n" % (number, value)
    end = b"trailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % len(body)
    return body + b"xref\n0 6\n" + table + end


def _png() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 2, 2, 8, 0, 0, 0, 0)
    pixels = zlib.compress(b"\0\x10\x20\0\x30\x40")
    parts = (chunk(b"IHDR", header), chunk(b"tEXt", b"Title\0A title"), chunk(b"IDAT", pixels), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


_MAIL = b"""From: a@example.org\r
To: b@example.org\r
Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r
MIME-Version: 1.0\r
Content-Type: multipart/mixed; boundary="b"\r
\r
--b\r
Content-Type: text/plain; charset=utf-8\r
Content-Transfer-Encoding: quoted-printable\r
\r
Text of the mail=\r
 goes on.\r
--b\r
Content-Type: text/html\r
Content-Disposition: attachment; filename="a.html"\r
Content-Transfer-Encoding: base64\r
\r
PHA+QXR0YWNoZWQ8L3A+\r
--b--\r
"""

_MARKDOWN = (
    b"---\ntitle: Guide\n---\n# One\n\nText *with* [a link](u)\n\n- item\n  - inner\n\n"
    b"| a | b |\n|---|---|\n| 1 | 2 |\n\n```py\n# code\n```\n\n> quote\n"
)

SEEDS: dict[str, bytes] = {
    "a.txt": "Text with Ünïcode, 日本語 and 😀.\r\n\r\nA second paragraph.".encode(),
    "utf16.txt": "Text as UTF-16, with 日本語.".encode("utf-16"),
    "latin.txt": "Die Tür ist schön, und das Café kostet 5 €.".encode("cp1252"),
    "a.py": b'"""Doc."""\nimport os\n\n\ndef f(x):\n    return x  # comment\n',
    "a.md": _MARKDOWN,
    **MARKUP,
    "a.ipynb": b'{"cells": [{"cell_type": "markdown", "source": ["# One"]}, {"cell_type": "code", "source": "1", '
    b'"outputs": [{"data": {"text/plain": ["1"]}}]}], "nbformat": 4}',
    "a.ics": b"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nUID:1\r\nDTSTART:20260101T090000Z\r\nSUMMARY:Meeting\r\n"
    b"DESCRIPTION:Bring\\, the\r\n  key\r\nRRULE:FREQ=DAILY;COUNT=2\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n",
    "a.vcf": b"BEGIN:VCARD\r\nVERSION:2.1\r\nFN:Kim\r\nTEL;WORK:1\r\nNOTE;ENCODING=QUOTED-PRINTABLE:a=\r\n=C3=9F\r\n"
    b"END:VCARD\r\nBEGIN:VCARD\r\nN:Lee;Jo\r\nADR;TYPE=home:;;Street\\, 1;Town\r\nEMAIL:a@exa\r\n mple.org\r\n"
    b"END:VCARD\r\n",
    "a.html": b"<!doctype html><html lang=en><head><title>T</title><meta charset=utf-8></head><body>"
    b"<nav>Menu</nav><main>"
    b"<h1>Head</h1><p>Text <b>bold</b></p><ul><li>item</ul><table><tr><th>a<td>b</table>"
    b"<pre>code</pre></main></body></html>",
    "a.json": b'[{"id": 1, "title": "T", "text": "Text", "tags": ["a", null]}, {"question": "Q?", "answer": "A."}]',
    "a.jsonl": b'{"_id": "1", "text": "Text"}\n\n{"question": "Q?", "answer": "A."}\n{"a": {"b": [1, 2]}}\n',
    "a.csv": b'question,answer\n"What, now?","This ""one""."\nx,y\n',
    "a.tsv": b"id\ttext\n1\tText\n2\tMore\n",
    "a.xml": b'<?xml version="1.0"?><!DOCTYPE r [<!ENTITY e "entity">]><r a="1"><p>'
    b"Text &e;</p><p><![CDATA[raw <b>]]></p></r>",
    "a.srt": b"1\n00:00:01,000 --> 00:00:02,000\nFirst line\n\n2\n00:00:03,000 --> 00:00:04,000\nSecond line\n",
    "a.vtt": b"WEBVTT\n\nNOTE a note\n\n00:01.000 --> 00:02.000\n<v Ann>First line\n\n"
    b"00:03.000 --> 00:04.000\nSecond\n",
    "a.rtf": rb"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Arial;}}"
    rb"\pard\b Title\b0\par Text \'e9 \u26085? more\par{\*\x hidden}}",
    "a.eml": _MAIL,
    "a.mbox": b"From a@example.org Thu Jan  1 09:00:00 2026\n" + _MAIL.replace(b"\r\n", b"\n") + b"\n>From here\n\n"
    b"From b@example.org Fri Jan  2 09:00:00 2026\nSubject: Two\nDate: Fri, 2 Jan 2026 09:00:00 +0000\n\nText\n",
    "a.pdf": _pdf(),
    "a.png": _png(),
    "a.docx": _docx(),
    "a.xlsx": _xlsx(),
    "a.xlsb": _xlsb(),
    "a.pptx": _pptx(),
    "a.odt": _odt(),
    "a.epub": _epub(),
    "a.zip": zipped({"in/a.txt": "Text", "in/b.html": "<p>Page</p>", "c.zip": zipped({"d.md": "# Deep"})}),
}  # fmt: skip
