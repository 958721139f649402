from __future__ import annotations

import pytest

from rag_assets.documents.containers import container_format
from rag_assets.documents.registry import parse
from tests.support.office_files import docx, odf, paragraph, pptx, shape, types, xlsx, zipped
from tests.support.ole_files import msg, ole, properties, xls

WORKBOOK = xls("Prices", {(0, 0): "Name", (0, 1): "Price", (1, 0): "Apple", (1, 1): 1.5})
BINARY_WORKBOOK = types("ms-excel.sheet.binary.macroEnabled.main").replace("+xml", "")
EPUB = {"mimetype": "application/epub+zip", "META-INF/container.xml": "<container/>"}


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (docx(""), "docx"),
        (pptx(""), "pptx"),
        (xlsx({}), "xlsx"),
        (odf("text", ""), "odf"),
        (zipped(EPUB), "epub"),
        (zipped({"META-INF/container.xml": "<container/>"}), "epub"),
        (zipped({"a.txt": "x"}), "zip"),
        (zipped({}), "zip"),
        (docx("")[:100], "zip"),
        (zipped({"[Content_Types].xml": "<Types/>", "word/document.xml": "<x/>"}), "docx"),
        (zipped({"[Content_Types].xml": BINARY_WORKBOOK}), "xlsb"),
        (msg(properties({0x37: "a"})), "msg"),
        (WORKBOOK, "xls"),
        (ole({"WordDocument": b"x"}), "legacy-office"),
        (ole({"PowerPoint Document": b"x"}), "legacy-office"),
        (ole({"EncryptedPackage": b"x"}), "legacy-office"),
        (ole({"Other": b"x"}), None),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1junk", None),
        (b"text", None),
        (b"", None),
    ],
)  # fmt: skip
def test_a_container_is_known_by_its_parts(data: bytes, name: str | None) -> None:
    assert container_format(data) == name


def test_content_wins_over_a_wrong_name_and_type() -> None:
    (record,) = parse(docx(paragraph("Hello")), "a.xlsx", "application/pdf")
    assert record.document is not None
    assert record.document.text == "Hello"
    (record,) = parse(pptx(shape("Slide")), "a.zip", "application/zip")
    assert record.document is not None
    assert record.document.text == "Slide"


def test_an_old_workbook_is_read_and_other_old_formats_say_what_to_do() -> None:
    (record,) = parse(WORKBOOK, "a.xls")
    assert record.document is not None, record.error
    assert record.document.text == "Prices\n\nName | Price\nApple | 1.5"
    for streams, reason in (
        ({"WordDocument": b"x"}, "save it as .docx"),
        ({"PowerPoint Document": b"x"}, "save it as .pptx"),
        ({"EncryptedPackage": b"x"}, "encrypted"),
        ({"ENCRYPTIONINFO": b"x", "ENCRYPTEDPACKAGE": b"x"}, "encrypted"),
        ({"\tDRMContent": b"x", "WordDocument": b"x"}, "encrypted"),
        ({"WordDocument": b"x" * 10 + b"\x00\x01"}, "encrypted"),
        ({"EncryptedSummary": b"x", "PowerPoint Document": b"x"}, "encrypted"),
    ):
        (record,) = parse(ole(streams), "a.doc")
        assert record.status == "failed"
        assert reason in (record.error or "")
    (record,) = parse(b"no container", "a.ppt")
    assert "save it as .pptx" in (record.error or "")


@pytest.mark.parametrize("name", ["a.docx", "a.xlsx", "a.pptx", "A.DOCX"])
def test_an_encrypted_office_file_is_called_encrypted_whatever_its_name_and_writer(name: str) -> None:
    for data in (
        ole({"EncryptedPackage": b"x"}),
        ole({"ENCRYPTEDPACKAGE": b"x"}),
        ole({"EncryptedPackage": b"x"})[:700],
    ):
        (record,) = parse(data, name)
        assert record.status == "failed"
        assert "encrypted" in (record.error or "")
        assert "damaged" not in (record.error or "")


@pytest.mark.parametrize("cut", [600, 1500, 3000, len(WORKBOOK) - 700])
def test_a_damaged_workbook_fails_with_a_reason(cut: int) -> None:
    (record,) = parse(WORKBOOK[:cut], "a.xls")
    assert record.status == "failed"
    assert "damaged" in (record.error or "")
