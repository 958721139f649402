"""Why a file could not be read is said in words, whatever its parser's libraries say."""

from __future__ import annotations

import random
import re
import struct
import zipfile
from collections.abc import Iterator

import pytest

from bench.mutations import mutated
from bench.seeds import SEEDS
from rag_assets.documents.isolated import parse_file
from rag_assets.documents.reasons import in_words, readable
from tests.support.ole_files import msg, properties, xls

_UNREADABLE = re.compile(
    r"<[\w.]+ object|\bat 0x|0x[0-9a-f]{8}|<class |<function |<string>|\(null\)|/tmp/|Traceback|\[Errno"
    r"|\b[A-Za-z_.]*[a-z](?:Error|Exception|Warning)\b|\bb['\"]"
)


def damaged() -> Iterator[tuple[str, bytes]]:
    """Files of every kind, broken off, and damaged at random."""
    randomness = random.Random(216)
    seeds = {
        **SEEDS,
        "letter.msg": msg(properties({0x0037: "A subject", 0x1000: "A body"})),
        "old.xls": xls("S", {(0, 0): "x"}),
    }
    for name, data in seeds.items():
        for part in (0.01, 0.3, 0.6, 0.95):
            yield name, data[: max(1, int(len(data) * part))]
        for _ in range(6):
            yield name, mutated(data, randomness, list(seeds.values()))
        for _ in range(2):
            yield name, data[:16] + randomness.randbytes(400)


def test_no_parser_says_why_in_the_words_of_a_program() -> None:
    errors = [record.error for name, data in damaged() for record in parse_file(data, name) if record.error]
    assert len(errors) > 100
    assert [error for error in errors if _UNREADABLE.search(error)] == []


@pytest.mark.parametrize("kind", ["png", "jpg", "gif", "tiff", "webp", "bmp"])
def test_a_picture_that_cannot_be_read_says_so_in_words(kind: str) -> None:
    (record,) = parse_file(b"\x89PNG\r\n\x1a\nnothing of a picture", f"scan.{kind}")
    assert record.error == "the picture is damaged, or of a kind that is not known here"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KeyError("word/document.xml"), "it lacks 'word/document.xml'"),
        (IndexError("list index out of range"), "it ends too early, or points outside of itself"),
        (AttributeError("'NoneType' object has no attribute 'text'"), "it is not built as its kind of file is"),
        (ValueError("cannot identify <_io.BytesIO object at 0x7f0123456789>"), "cannot identify"),
        (ValueError(""), "it is not built as its kind of file is"),
        (OSError(2, "No such file or directory", "/tmp/abc/x.pdf"), "No such file or directory"),
        (RuntimeError("ValueError: bad date: 31.02."), "bad date: 31.02."),
        (zipfile.BadZipFile("header b'\\xff\\x00' differs"), "header other bytes differs"),
        (RuntimeError("cannot open /tmp/tmpab12/page.png, sorry"), "cannot open a temporary file, sorry"),
        (struct.error("unpack requires a buffer of 4 bytes"), "unpack requires a buffer of 4 bytes"),
    ],
)
def test_an_exception_is_put_in_words(error: BaseException, words: str) -> None:
    assert in_words(error) == words


def test_words_that_are_readable_stay_as_they_are() -> None:
    for text in ("no parser takes this file (suffix .xyz, type text/x ; a=b)", "line 3: a < b : c", "a b.", "x: y:"):
        assert readable(text) == text


def test_a_line_whose_name_of_a_field_is_damaged_fails_alone() -> None:
    records = parse_file(b'{"id": "a", "text": "x"}\n{"a\tb": 1, "id": "b", "text": "y"\n', "x.jsonl")
    assert [(record.key, record.status) for record in records] == [("a", "ready"), ("line:2", "failed")]


def test_a_reason_is_one_sentence_and_counts_lines_in_one_way() -> None:
    errors = [record.error for name, data in damaged() for record in parse_file(data, name) if record.error]
    assert [error for error in errors if re.search(r"\.\)?[;:,]|line \d+.* line \d+ column", error)] == []
    (record,) = parse_file(b"%PDF-1.4\ngarbage", "a.pdf")
    assert record.error == "the PDF is damaged: Stream has ended unexpectedly"
    (row,) = parse_file(b'{"a": 1,}', "a.jsonl")
    assert re.fullmatch(r"line 1 is not valid JSON: [\w ,]+ at character \d+", row.error or "")
