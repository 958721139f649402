from __future__ import annotations

import io

import pytest
from pypdf import PdfReader, PdfWriter

from rag_assets.documents.chunking import ChunkingSpec, chunk_document
from rag_assets.documents.registry import parse


def pdf(*contents: bytes, title: str = "") -> bytes:
    """A PDF with one page for each content stream, and Helvetica as /F1 and a 1 x 1 image as /Im."""
    count = len(contents)
    kids = " ".join(f"{5 + 2 * n} 0 R" for n in range(count)).encode()
    image = b"/Type/XObject/Subtype/Image/Width 1/Height 1/ColorSpace/DeviceGray/BitsPerComponent 8/Length 1"
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Count %d/Kids[%s]>>" % (count, kids),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        b"<<" + image + b">>stream\n\x80\nendstream",
    ]
    for number, content in enumerate(contents):
        resources = b"<</Font<</F1 3 0 R>>/XObject<</Im 4 0 R>>>>"
        page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 300]/Resources%s/Contents %d 0 R>>"
        objects.append(page % (resources, 6 + 2 * number))
        objects.append(b"<</Length %d>>stream\n%s\nendstream" % (len(content), content))
    body, offsets = b"%PDF-1.4\n", []
    for number, value in enumerate(objects, start=1):
        offsets.append(len(body))
        body += b"%d 0 obj%s endobj\n" % (number, value)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    size = len(objects) + 1
    trailer = b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (size, len(body))
    plain = body + b"xref\n0 %d\n0000000000 65535 f \n" % size + table + trailer
    return written(plain, title=title) if title else plain


def written(data: bytes, title: str = "", **encryption: str) -> bytes:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(data)))
    if title:
        writer.add_metadata({"/Title": title})
    if encryption:
        writer.encrypt(**encryption)  # type: ignore[arg-type]
    target = io.BytesIO()
    writer.write(target)
    return target.getvalue()


def says(text: str) -> bytes:
    return f"BT /F1 12 Tf 20 200 Td ({text}) Tj ET".encode()


IMAGE_ONLY = b"q 200 0 0 200 20 20 cm /Im Do Q"


def test_pages_are_blocks_with_numbers_and_empty_pages_count() -> None:
    (record,) = parse(pdf(says("Hello one"), IMAGE_ONLY, says("Hello three"), title="A title"), "a.pdf")
    document = record.document
    assert document is not None
    assert (document.text, document.title) == ("Hello one\n\nHello three", "A title")
    assert [(block.kind, block.page) for block in document.blocks] == [("page", 1), ("page", 3)]
    (chunk,) = chunk_document(document, ChunkingSpec(size=100, overlap=0))
    assert (chunk.page, chunk.page_end) == (1, 3)


def test_bug_20_and_14_a_scan_is_no_text_and_says_so() -> None:
    (record,) = parse(pdf(IMAGE_ONLY, IMAGE_ONLY), "scan.pdf")
    assert record.status == "no_text"
    assert "OCR" in (record.error or "")


@pytest.mark.parametrize("algorithm", ["RC4-128", "AES-128", "AES-256-R5", "AES-256"])
def test_bug_21_a_pdf_that_opens_without_a_password_is_read(algorithm: str) -> None:
    data = written(pdf(says("Secret text")), user_password="", owner_password="x", algorithm=algorithm)
    (record,) = parse(data, "a.pdf")
    assert record.document is not None, record.error
    assert record.document.text == "Secret text"


@pytest.mark.parametrize("algorithm", ["RC4-128", "AES-256"])
def test_bug_21_a_pdf_with_a_password_fails_alone_and_says_why(algorithm: str) -> None:
    data = written(pdf(says("Secret text")), user_password="pw", algorithm=algorithm)
    (record,) = parse(data, "a.pdf")
    assert record.status == "failed"
    assert "encrypted" in (record.error or "")
    assert "password" in (record.error or "")


def test_a_damaged_pdf_is_repaired_or_fails_with_a_reason() -> None:
    whole = pdf(says("Hello one"))
    (repaired,) = parse(whole.replace(b"startxref\n", b"startxref\n9"), "a.pdf")
    assert repaired.document is not None
    assert repaired.document.text == "Hello one"
    (record,) = parse(b"%PDF-1.7\n" + b"junk" * 50, "a.pdf")
    assert record.status == "failed"
    assert "damaged" in (record.error or "")
