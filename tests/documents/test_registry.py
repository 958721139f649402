from __future__ import annotations

import io
import zipfile
from typing import Any

import pytest

from rag_assets.chunking import ChunkingSpec, chunk_document
from rag_assets.documents.isolated import parse_file
from rag_assets.documents.model import Block, Document, Record
from rag_assets.documents.registry import choose, parse, register_parser, supported
from rag_assets.errors import InvalidArgument, UnsupportedFormat

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


def _given(result: Any, name: str = "given") -> list[Record]:
    register_parser(name, lambda *_: result() if callable(result) else result, suffixes=[f".{name}-in-a-test"])
    return parse(b"some bytes", f"a.{name}-in-a-test")


def _exits() -> None:
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("result", "says"),
    [
        ("x", "not a list of Records"),
        (["x"], "not a list of Records"),
        ([Record("", "n", "zz")], "its status is 'zz'"),  # type: ignore[arg-type]
        ([Record("", "n", "ready")], "has no Document"),
        ([Record("", "n", "ready", Document(b"bytes"))], "must be strings"),  # type: ignore[arg-type]
        ([Record("", "n", "ready", Document("a\x00b"))], "holds NUL"),
        ([Record("", "n", "ready", Document("a\ud800b"))], "surrogate"),
        ([Record("", "n", "ready", Document(" "))], "holds no text"),
        ([Record("", "n", "ready", Document("abc", blocks=(Block("paragraph", 0, 99),)))], "no part of a text of 3"),
        ([Record("", "n", "ready", Document("abc", metadata={"x": object()}))], "no JSON"),
        ([Record("k", "n", "no_text"), Record("k", "n", "no_text")], "two records have this key"),
        (_exits, "asked to exit"),
    ],
)
def test_what_a_registered_parser_gives_back_wrongly_fails_that_file_alone(result: Any, says: str) -> None:
    (record,) = _given(result)
    assert record.status == "failed"
    assert says in (record.error or "")


@pytest.mark.parametrize(
    ("argument", "options"),
    [
        ("name", {"name": None}),
        ("parser", {"parser": 3}),
        ("parser", {"parser": "nomodule"}),
        ("suffixes", {"suffixes": ".note"}),
        ("suffixes", {"suffixes": ["note"]}),
        ("suffixes", {"suffixes": [".Note"]}),
        ("suffixes", {"suffixes": [""]}),
        ("suffixes", {"suffixes": [3]}),
        ("suffixes", {"suffixes": []}),
        ("content_types", {"content_types": "x/y"}),
        ("content_types", {"content_types": ["note"]}),
        ("matches", {"matches": "note"}),
    ],
)
def test_a_parser_that_could_never_be_called_is_refused_when_it_is_registered(argument: str, options: Any) -> None:
    given = {"name": "refused", "parser": lambda *_: [], "suffixes": [".refused"]} | options
    with pytest.raises(InvalidArgument) as refused:
        register_parser(given.pop("name"), given.pop("parser"), **given)
    assert refused.value.argument == argument
    assert not supported("a.refused")


@pytest.mark.parametrize("arguments", [("text", "a.md"), (None, "a.md"), (b"x", None), (b"x", "a.md", 3)])
def test_wrong_arguments_of_parse_file_are_named(arguments: Any) -> None:
    with pytest.raises(InvalidArgument):
        parse_file(*arguments)


@pytest.mark.parametrize(("document", "spec"), [("text", ChunkingSpec(size=100, overlap=0)), (Document("x"), None)])
def test_wrong_arguments_of_chunk_document_are_named(document: Any, spec: Any) -> None:
    with pytest.raises(InvalidArgument):
        chunk_document(document, spec)
