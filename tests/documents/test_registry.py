from __future__ import annotations

import io
import zipfile

import pytest

from rag_assets.documents.model import Record
from rag_assets.documents.registry import choose, parse, supported
from rag_assets.errors import UnsupportedFormat

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"


def zipped(**files: bytes) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in files.items():
            archive.writestr(name.replace("__", "/"), data)
    return target.getvalue()


def one(data: bytes, name: str, content_type: str | None = None) -> Record:
    (record,) = parse(data, name, content_type)
    return record


WORD = zipped(**{
    "[Content_Types].xml": b'<Types><Override ContentType="application/vnd.openxmlformats-officedocument.'
    b'wordprocessingml.document.main+xml"/></Types>',
    "word__document.xml": b"<document/>",
})  # fmt: skip


@pytest.mark.parametrize(
    ("data", "name", "content_type", "expected"),
    [
        (b"%PDF-1.7", "a.txt", "text/plain", "pdf"),
        (b"{\\rtf1 Hello}", "a.txt", None, "rtf"),
        (b"<!DOCTYPE HTML><p>Hi", "a.txt", None, "html"),
        (b"\xef\xbb\xbf  <html>", "a.json", "application/json", "html"),
        (WORD, "a.zip", "application/zip", "docx"),
        (WORD, "a.txt", None, "docx"),
        (zipped(a=b"text"), "a.txt", None, "zip"),
        (zipped(a=b"text"), "a.docx", None, "docx"),  # its parser says what is missing
        (b"<p>Hi", "a.md", "text/html", "html"),
        (b"# Hi", "a.md", "text/plain", "markdown"),
        (b"# Hi", "a.md", "application/octet-stream", "markdown"),
        (b"Hi", "a", "text/x-unknown", "text"),
        (b"<p>Hi", "https://e.org/page", None, "html"),
    ],
)
def test_content_decides_then_the_declared_type_then_the_name(
    data: bytes, name: str, content_type: str | None, expected: str
) -> None:
    assert choose(data, name, content_type).name == expected


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x1f\x8b\x08\0\0\0", "a gzip archive"),
        (b"\x7fELF\x02\x01\x01\0", "a program"),
        (b"MZ\x90\0\x03\0", "a program"),
        (b"SQLite format 3\0", "an SQLite database"),
        (b"7z\xbc\xaf\x27\x1c\0\x04", "a 7z archive"),
        (b"RIFF\x24\0\0\0WAVEfmt ", "a sound file"),
        (b"\0\0\0\x18ftypmp42\0\0", "a video"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0\0", "an OLE container"),
    ],
)
@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.html", "a.csv", "a.jsonl", "a.py"])
def test_a_binary_file_under_the_name_of_a_text_is_refused_by_what_it_is(data: bytes, kind: str, name: str) -> None:
    record = one(data + b"Readable words. " * 50, name)
    assert record.status == "failed"
    assert (record.error or "").startswith(f"it is {kind}, not ")


@pytest.mark.parametrize("text", ["BM is a company", "MZ 700", "ID3 tags", "GIF89a is old", "RIFF and WAVE", "PAR1"])
def test_a_text_that_begins_like_a_binary_file_is_text(text: str) -> None:
    assert one(text.encode(), "a.txt").status == "ready"


def test_a_picture_under_the_name_of_a_text_is_no_text_file() -> None:
    assert choose(PNG, "a.txt").name == "image"


def test_a_file_of_a_known_kind_that_no_parser_takes_is_named() -> None:
    with pytest.raises(UnsupportedFormat, match="it is a video, which no parser reads"):
        parse(b"\0\0\0\x18ftypmp42\0\0", "a.mp4")


def test_a_parser_that_runs_out_of_memory_fails_one_file(monkeypatch: pytest.MonkeyPatch) -> None:
    from rag_assets.documents.registry import register_parser

    def hungry(data: bytes, name: str, content_type: str | None) -> list[Record]:
        raise MemoryError

    register_parser("hungry", hungry, suffixes=[".hungry-in-a-test"])
    assert supported("a.hungry-in-a-test")
    assert "memory" in (one(b"x", "a.hungry-in-a-test").error or "")


def test_blank_bytes_hold_no_text_however_many_there_are() -> None:
    assert one(b"\n" * 5000, "a.txt").error == "the file is empty"
    assert one(b"\n" * 5000 + b"x", "a.txt").status == "ready"
