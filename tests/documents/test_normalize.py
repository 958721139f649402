from __future__ import annotations

import codecs
import os
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.documents.decoding import decode
from rag_assets.documents.normalize import clean_json, normalize
from rag_assets.errors import ParseError

ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=()))


@given(ANY_TEXT)
def test_normalising_twice_changes_nothing_more(text: str) -> None:
    once = normalize(text)
    assert normalize(once) == once


@given(ANY_TEXT)
def test_normalised_text_can_be_stored_in_postgres(text: str) -> None:
    clean = normalize(text)
    clean.encode("utf-8")
    assert not set(clean) & {chr(code) for code in range(32) if chr(code) not in "\n\t"}
    assert unicodedata.is_normalized("NFC", clean)


def test_bug_18_nul_is_stripped_from_text_and_from_nested_json() -> None:
    assert normalize("a\0b") == "ab"
    assert clean_json({"k\0": ["a\0b", {"x": "\0"}]}) == {"k": ["ab", {"x": ""}]}


def test_bug_19_a_lone_surrogate_is_replaced_and_a_split_pair_is_joined() -> None:
    assert normalize("a\ud800b") == "a\ufffdb"
    assert normalize("x\ud83d\ude00y") == "x\U0001f600y"
    assert normalize("end\ud83d") == "end\ufffd"


def test_bug_7_newlines_of_every_kind_become_one_character() -> None:
    assert normalize("a\r\nb\rc\fd\ve") == "a\nb\nc\nd\ne"


def test_numbers_that_json_cannot_hold_become_none() -> None:
    assert clean_json({"a": float("nan"), "b": [float("inf"), 1.5, True, None]}) == {
        "a": None,
        "b": [None, 1.5, True, None],
    }


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
        (b"", "utf-16-le"),
        (b"", "utf-16-be"),
    ],
)
def test_bug_25_wide_encodings_are_read_and_leave_no_nul(mark: bytes, encoding: str) -> None:
    assert decode(mark + "id,name".encode(encoding) * 2) == "id,nameid,name"


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1252", "Die Tür ist schön, und das Café kostet 5 €."),
        ("shift_jis", "これは日本語のテキストです。検索のために使います。"),
        ("cp1251", "Привет, как дела? Это русский текст."),
        ("gb18030", "这是一个中文文本，用于检索。"),
    ],
)
def test_a_legacy_encoding_is_detected(encoding: str, text: str) -> None:
    assert decode(text.encode(encoding)) == text


def test_a_short_western_text_is_not_taken_for_chinese() -> None:
    assert decode("café".encode("latin-1")) == "café"


def test_the_declared_charset_decides_where_bytes_are_not_utf8() -> None:
    assert decode("żółw".encode("iso-8859-2"), "iso-8859-2") == "żółw"
    assert decode("日本語".encode("iso2022_jp"), "ISO-2022-JP") == "日本語"
    assert decode("żółw".encode(), "iso-8859-2") == "żółw"
    assert decode(b"plain", "no-such-charset") == "plain"


def test_one_bad_byte_does_not_turn_utf8_into_mojibake() -> None:
    assert decode("日本語のテキスト。".encode() * 5 + b"\xff") == "日本語のテキスト。" * 5 + "\ufffd"


@pytest.mark.parametrize("data", [bytes(range(256)) * 20, b"\x00\x01\x02\x03" * 40, os.urandom(5000)])
def test_binary_content_is_refused_and_never_read_as_latin_1(data: bytes) -> None:
    with pytest.raises(ParseError):
        decode(data)


def test_bytes_that_contradict_their_mark_are_refused() -> None:
    with pytest.raises(ParseError, match="byte order mark"):
        decode(codecs.BOM_UTF16_LE + b"abc")
