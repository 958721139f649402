from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from rag_assets.documents import ocr
from rag_assets.documents.isolated import parse_file
from rag_assets.documents.ocr import has_ocr, ocr_text, register_ocr
from rag_assets.documents.registry import parse
from rag_assets.errors import UsageError
from tests.support.pdf_files import IMAGE_ONLY, pdf, says
from tests.support.tiny_ocr import bars, broken, read_bars

ENGLISH = "It is one of the pages that has some text on it and so we can tell which language it is in"


@pytest.fixture(autouse=True)
def no_engine_afterwards() -> Iterator[None]:
    yield
    register_ocr(None)


def test_without_an_engine_there_is_no_text_of_a_picture() -> None:
    assert ocr_text(b"", None) is None
    assert not has_ocr()


def test_scanned_pages_are_read_by_the_engine_and_counted() -> None:
    register_ocr(read_bars)
    data = pdf(bars("First"), says("Second"), bars("Third"), IMAGE_ONLY)
    (record,) = parse(data, "scan.pdf")
    document = record.document
    assert document is not None, record.error
    assert document.text == "First\n\nSecond\n\nThird"
    assert [block.page for block in document.blocks] == [1, 2, 3]
    quality = document.metadata["quality"]
    assert (quality["pages"], quality["pages_without_text"], quality["pages_ocr"]) == (4, 1, 2)


def test_the_engine_also_serves_files_that_are_parsed_in_another_process() -> None:
    data = pdf(bars("Scan"))
    for engine in (read_bars, "tests.support.tiny_ocr:read_bars"):
        register_ocr(engine)
        (record,) = parse_file(data, "scan.pdf")
        assert record.document is not None, record.error
        assert record.document.text == "Scan"
    register_ocr(None)
    assert parse_file(data, "scan.pdf")[0].status == "no_text"


def test_the_engine_is_told_the_language_of_the_other_pages() -> None:
    register_ocr(read_bars)
    (record,) = parse(pdf(says(ENGLISH), bars("Scan")), "a.pdf")
    assert record.document is not None
    assert record.document.text.endswith("Scan [en]")


def test_a_scan_in_which_the_engine_finds_nothing_is_no_text() -> None:
    register_ocr(read_bars)
    (record,) = parse(pdf(IMAGE_ONLY), "scan.pdf")
    assert (record.status, record.error) == ("no_text", "no text on any of 1 page, and OCR found none")


def test_an_engine_that_fails_costs_only_what_it_should_have_read() -> None:
    register_ocr(broken)
    (record,) = parse(pdf(bars("Scan")), "scan.pdf")
    assert record.status == "failed"
    assert "the OCR engine failed: no model" in (record.error or "")
    (record,) = parse(pdf(says("Text"), bars("Scan")), "a.pdf")
    assert record.document is not None
    assert record.document.text == "Text"
    assert record.document.metadata["quality"]["pages_ocr_failed"] == 1


def test_an_engine_that_no_other_process_could_use_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match="module:attribute"):
        register_ocr(lambda image, language: "")
    assert not has_ocr()


def test_an_engine_that_cannot_be_imported_says_so() -> None:
    register_ocr("tests.support.tiny_ocr:missing")
    (record,) = parse(pdf(bars("Scan")), "scan.pdf")
    assert record.status == "failed"
    assert "tests.support.tiny_ocr:missing" in (record.error or "")


def test_an_installed_package_can_bring_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = EntryPoints([EntryPoint("tiny", "tests.support.tiny_ocr:read_bars", ocr.ENTRY_POINTS)])
    monkeypatch.setattr("importlib.metadata.entry_points", installed.select)
    ocr._installed.cache_clear()
    try:
        (record,) = parse(pdf(bars("Scan")), "scan.pdf")
        assert record.document is not None
        assert record.document.text == "Scan"
    finally:
        ocr._installed.cache_clear()
    assert "tests.support.tiny_ocr" in sys.modules
