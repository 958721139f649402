from __future__ import annotations

import io

import pytest
from pypdf import PdfReader, PdfWriter

from rag_assets.chunking import ChunkingSpec, chunk_document
from rag_assets.documents.registry import parse
from tests.support.pdf_files import IMAGE_ONLY, pdf, prints, says, written


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


def test_an_empty_owner_password_is_no_empty_user_password() -> None:
    data = written(pdf(says("Secret text")), user_password="pw", owner_password="", algorithm="AES-256")
    (record,) = parse(data, "a.pdf")
    assert (record.status, record.error) == ("failed", "the PDF is encrypted and needs a password: save it without one")


def test_pages_and_pages_without_text_are_counted() -> None:
    (record,) = parse(pdf(says("One"), IMAGE_ONLY, says("Three")), "a.pdf")
    assert record.document is not None
    quality = record.document.metadata["quality"]
    assert (quality["pages"], quality["pages_without_text"]) == (3, 1)


def test_larger_print_makes_headings_and_space_makes_paragraphs() -> None:
    page = prints(
        ("Guide", 24, 270),
        ("The first paragraph goes on", 10, 240),
        ("in its second line.", 10, 228),
        ("Another paragraph stands", 10, 196),
        ("apart from the first.", 10, 184),
        ("Details", 16, 150),
        ("They are here, and more text.", 10, 130),
        ("It ends in this line.", 10, 118),
    )
    (record,) = parse(pdf(page, prints(("Next page", 10, 200))), "a.pdf")
    document = record.document
    assert document is not None
    assert [(b.kind, document.text[b.start : b.end], b.heading_path, b.page) for b in document.blocks] == [
        ("heading", "Guide", ("Guide",), 1),
        (
            "page",
            "The first paragraph goes on\nin its second line.\n\nAnother paragraph stands\napart from the first.",
            ("Guide",),
            1,
        ),
        ("heading", "Details", ("Guide", "Details"), 1),
        ("page", "They are here, and more text.\nIt ends in this line.", ("Guide", "Details"), 1),
        ("page", "Next page", ("Guide", "Details"), 2),
    ]


def test_text_that_is_all_large_has_no_headings() -> None:
    page = prints(("Some words", 10, 250), ("Most of this page is large", 24, 200), ("and so it is the text", 24, 170))
    (record,) = parse(pdf(page), "a.pdf")
    assert record.document is not None
    assert {block.kind for block in record.document.blocks} == {"page"}


def test_bookmarks_name_the_headings() -> None:
    pages = [prints(("1 Start", 10, 250), ("Text.", 10, 230)), prints(("Detail", 10, 250), ("More.", 10, 230))]
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf(*pages))))
    start = writer.add_outline_item(title="Start", page_number=0)
    writer.add_outline_item(title="Detail", page_number=1, parent=start)
    target = io.BytesIO()
    writer.write(target)
    (record,) = parse(target.getvalue(), "a.pdf")
    assert record.document is not None
    assert [block.heading_path for block in record.document.blocks if block.kind == "heading"] == [
        ("1 Start",),
        ("1 Start", "Detail"),
    ]


def running(count: int) -> list[bytes]:
    return [
        prints(("Company handbook", 9, 280), (f"Content number {n * 7}", 9, 200), (f"Page {n} of {count}", 9, 20))
        for n in range(1, count + 1)
    ]


def test_running_headers_and_footers_are_kept_once_and_counted() -> None:
    (record,) = parse(pdf(*running(6)), "a.pdf")
    document = record.document
    assert document is not None
    assert document.text.count("Company handbook") == 1
    assert document.text.count("Page ") == 1
    assert all(f"Content number {n * 7}" in document.text for n in range(1, 7))
    assert document.metadata["quality"]["repeated_lines_dropped"] == 10


def test_on_few_pages_nothing_is_taken_for_a_running_header() -> None:
    (record,) = parse(pdf(*running(3)), "a.pdf")
    assert record.document is not None
    assert record.document.text.count("Company handbook") == 3


def test_lines_that_differ_in_more_than_the_page_number_all_stay() -> None:
    pages = [prints((f"Sales of {year}", 9, 280), ("Text.", 9, 200)) for year in (1990, 1995, 2001, 2003, 2010, 2022)]
    (record,) = parse(pdf(*pages), "a.pdf")
    assert record.document is not None
    assert record.document.text.count("Sales of") == 6


def test_one_damaged_page_does_not_take_the_others_with_it() -> None:
    whole = pdf(says("Hello one"), says("Hello two"))
    damaged = whole.replace(b"5 0 obj<</Type/Page", b"5 0 obj<</Tipe/Pige", 1)
    (record,) = parse(damaged, "a.pdf")
    assert record.document is not None, record.error
    assert "Hello two" in record.document.text
