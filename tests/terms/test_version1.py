"""What reaches Postgres' text search: words and blanks only, whatever the text was."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rag_assets.terms.codes import MAX_TOKEN_CHARS, MAX_TOKENS
from rag_assets.terms.version1 import prepare

ANY_TEXT = st.text(st.characters(), max_size=300)


def terms(text: str) -> set[str]:
    return {word.lower() for word in prepare(text).split()}


@given(ANY_TEXT)
@example("a\0b \ud800 \u200b \u202e")
@example("''\\\"& | ! <-> :* ( )")
@settings(max_examples=300, deadline=None)
def test_any_text_becomes_words_and_single_blanks(text: str) -> None:
    prepared = prepare(text)
    assert prepared == " ".join(prepared.split())
    for mark in "'\"\\&|!<>:*()-,;@#\0":
        assert mark not in prepared


@given(st.text(st.sampled_from("aB1-_./:'’日本かกहि\u0301 ,&|!()"), max_size=80))
@settings(max_examples=300, deadline=None)
def test_no_word_is_lost_when_a_text_goes_through_twice(text: str) -> None:
    assert terms(text) <= terms(prepare(text))


def test_the_number_of_words_and_their_length_are_bounded() -> None:
    many = prepare(" ".join(f"w{n}" for n in range(3 * MAX_TOKENS))).split()
    assert len(many) == MAX_TOKENS
    for giant in ("x" * 10**6, "x1" * 10**5, "a-" * 10**5, "é" * 10**5, "日" * 10**5, "aB" * 10**5):
        words = prepare(giant).split()
        assert len(words) <= MAX_TOKENS
        assert max(map(len, words)) <= MAX_TOKEN_CHARS


@pytest.mark.parametrize("query", ["1234", "SKU 1234", "sku1234", "SKU-1234", "sku_1234", "Sku/1234", "(SKU-1234)."])
def test_bug_62_each_spelling_of_a_part_number_shares_a_word_with_it(query: str) -> None:
    assert terms(query) & terms("SKU-1234")
    assert terms(query) <= terms("Replace SKU-1234 first") | {"sku1234"}


@pytest.mark.parametrize(
    ("code", "part"),
    [
        ("CVE-2026-2332", "2332"), ("CVE-2026-2332", "cve"), ("CVE-2026-2332", "2026"), ("E-17", "17"),
        ("getUserName", "user"), ("HTTPServerError", "server"), ("max_token_chars", "token"),
        ("rag_assets/store/lexical.py", "lexical"), ("v2.14.3", "14"), ("well-known", "known"), ("ISO9001", "9001"),
        ("std::vector", "vector"), ("user@example.com", "example"), ("l'eau", "eau"), ("x=Y2k;", "2"),
    ],
)  # fmt: skip
def test_bug_62_an_identifier_is_found_by_its_part(code: str, part: str) -> None:
    assert part in terms(code)


@pytest.mark.parametrize("code", ["SKU-1234", "getUserName", "snake_case", "CVE-2026-2332"])
def test_the_whole_identifier_is_a_word_too_so_that_the_exact_one_ranks_first(code: str) -> None:
    assert re.sub(r"\W|_", "", code).lower() in terms(code)


@pytest.mark.parametrize(
    ("left", "right"),
    [("dog,cat", "dog cat"), ("What's your policy?", "What s your policy"), ("a & b | c !", "a b c"), ("(x)", "x")],
)
def test_bug_59_punctuation_is_a_blank(left: str, right: str) -> None:
    assert prepare(left).split() == prepare(right).split()


def test_bug_63_scripts_without_blanks_become_pairs_of_characters() -> None:
    assert prepare("日本語の検索").split() == ["日本", "本語", "語の", "の検", "検索"]
    assert prepare("水").split() == ["水"]
    assert prepare("検索API v2").split()[:2] == ["検索", "API"]
    assert {"กา", "าร"} <= terms("การค้นหา")


@pytest.mark.parametrize("word", ["हिन्दी", "الْعَرَبِيَّة", "தமிழ்", "cafe\u0301", "עִבְרִית", "Straße", "naïve", "Ελληνικά"])
def test_marks_do_not_cut_a_word(word: str) -> None:
    assert prepare(f"({word}),").split() == [word]


def test_a_text_of_punctuation_holds_no_word() -> None:
    assert prepare("!!! ... -- '' & | <-> \\") == ""
