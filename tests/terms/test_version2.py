"""What the second version of terms makes of texts, queries and names: whatever the spelling, the same on both sides."""

from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rag_assets.marks import bounded
from rag_assets.terms import NEWEST, prepare, prepare_name, prepare_query
from rag_assets.terms.codes import MAX_TOKEN_CHARS, MAX_TOKENS
from rag_assets.terms.folding import folded

ANY_TEXT = st.text(st.characters(), max_size=300)
# NFKC glues these to what stands before them, so afterwards nobody can tell what was there.
GLUED = "\u2122\u2120\u00b2\u00b3\u00b9\u00bc\u00bd\u00be" + "".join(
    map(chr, [*range(0x2070, 0x208A), *range(0x2150, 0x218A)])
)
LETTERS = "aBéßøñşİıёйά日本か환불은हिْعאָ\ufb02ＫＸ９²µ№-_./:'’+#&@§°%~ \u00ad\u200b"


def words_of(text: str) -> list[str]:
    return prepare(text, 2).partition("\n")[0].split()


def found_by(text: str) -> set[str]:
    return {term.lower() for term in prepare(text, 2).split()}


def asked(text: str) -> set[str]:
    return {term.lower() for term in prepare_query(text, 2).split()}


def test_it_is_the_newest() -> None:
    assert NEWEST == 2


@given(ANY_TEXT)
@example("a\0b \ud800 \u200b \u202e")
@example("''\\\"& | ! <-> :* ( )")
@example("C++ A/B R&D .NET -40 §12 @a #b $c%")
@settings(max_examples=300, deadline=None)
def test_no_operator_of_a_text_query_is_among_the_terms(text: str) -> None:
    for prepared in (prepare(text, 2), prepare_query(text, 2), prepare_name(text, 2)):
        assert prepared.count("\n") <= 1
        assert prepared.replace("\n", " ") == " ".join(prepared.split())
        for mark in "'\"\\&|!<>:*()-,;@#\0+/.$%":
            assert mark not in prepared


@given(st.text(st.sampled_from(LETTERS), max_size=60), st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"]))
@settings(max_examples=500, deadline=None)
def test_spellings_that_unicode_holds_for_equal_have_the_same_terms(text: str, form: str) -> None:
    if not any(character in GLUED for character in text):
        assert prepare(unicodedata.normalize(form, text), 2) == prepare(text, 2)  # type: ignore[arg-type]


@given(st.text(st.sampled_from(LETTERS), max_size=60))
@settings(max_examples=300, deadline=None)
def test_a_query_finds_the_text_that_it_is_by_all_of_its_terms(text: str) -> None:
    assert asked(text) == found_by(text)


@given(st.text(st.characters(categories=["L", "M", "N"]), max_size=40))
@settings(max_examples=500, deadline=None)
def test_folding_twice_is_folding_once(word: str) -> None:
    word = unicodedata.normalize("NFKC", word)
    assert folded(folded(word)) == folded(word)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("João Conceição", "Joao Conceicao"), ("Großhandel", "Grosshandel"), ("ёлка", "елка"), ("Øresund", "Oresund"),
        ("İstanbul", "istanbul"), ("ışık", "isik"), ("Ελλάδα", "Ελλαδα"), ("œuvre", "oeuvre"), ("٢٠٢٦", "2026"),
        ("Łódź", "Lodz"), ("điện", "dien"),
    ],
)  # fmt: skip
def test_a_word_is_found_by_its_form_without_accents_and_the_other_way_round(one: str, other: str) -> None:
    assert asked(other) <= found_by(one)
    assert asked(one) & found_by(other)
    assert prepare_name(one, 2).lower() == prepare_name(other, 2).lower()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ＫＸ－７７２", "KX-772"), ("o\ufb03ce", "office"), ("war\u00adranty", "warranty"),
        ("war\u200branty", "warranty"),
        ("5 \u00b5m", "5 \u03bcm"), ("Word\u2122", "Word"), ("m²", "m2"), ("KX\u2011772", "KX-772"),
        ("l\u2019eau", "l'eau"),
        ("مُحَمَّد", "محمد"), ("محـــمد", "محمد"), ("§\u00a012", "§12"), ("-40 °C", "-40°C"), ("\u221240", "-40"),
    ],
)  # fmt: skip
def test_what_differs_in_writing_alone_is_the_same_word(one: str, other: str) -> None:
    assert prepare(one, 2) == prepare(other, 2)


def test_an_accent_that_makes_another_letter_stays() -> None:
    assert folded("мой") == "мой"
    assert folded("が") == "が"
    assert folded("हिन्दी") == "हिन्दी"


NAMES = "C C++ C# F# F .NET NET A/B A&B R&D -40 40 +40 §12 12 A+ N+1 @ann #ann 50% $50".split()  # noqa: SIM905


@pytest.mark.parametrize("name", NAMES)
def test_a_name_with_signs_has_a_term_that_no_other_name_has(name: str) -> None:
    others = set().union(*(found_by(other) for other in NAMES if other != name))
    if name.isalnum():
        assert found_by(name) <= others  # it is a part of others
    else:
        assert found_by(name) - others


@pytest.mark.parametrize(
    "text", ["({}),", "“{}”", "uses {}.", "{}?", "{}'s", "„{}“", "«{}»", "**{}**", "{}/CLI", "{}-Code"]
)
@pytest.mark.parametrize("name", ["C++", "C#", ".NET"])
def test_a_name_is_known_whatever_stands_around_it(text: str, name: str) -> None:
    assert found_by(name) <= found_by(text.format(name))


def test_signs_that_belong_to_the_sentence_make_no_names() -> None:
    for text in (
        "well... and",
        "yes – no",
        "a - b",
        "<b>bold</b>",
        "### Title",
        "x = 1",
        "wait, what?!",
        "(see 2)",
        "a -dash- of /slashes/",
        "| a | b |",
    ):
        assert "\n" not in prepare(text, 2), text


def test_names_of_words_and_dots_are_found_written_as_one() -> None:
    assert asked("NodeJS") & found_by("Node.js") >= {"nodejs"}


def test_korean_is_pairs_of_syllables_and_the_first_alone() -> None:
    assert words_of("환불은 7일이내") == ["환불", "불은", "7", "일이", "이내"]
    assert asked("환불") <= found_by("환불은")
    assert asked("돈") <= found_by("돈을")
    assert asked("GPT") <= found_by("GPT를")


def test_a_word_with_accents_counts_as_much_as_one_without() -> None:
    assert prepare_query("João contract", 2).split() == ["João", "joao", "contract", "contract"]
    assert prepare_query("Joao contract", 2).split() == ["Joao", "contract"]


def test_what_a_text_is_found_by_beside_its_words_makes_it_no_longer() -> None:
    assert words_of("João uses C# at -40 °C") == prepare("João uses C# at -40 °C", 1).split()


def test_a_persian_word_is_found_joined_and_in_parts() -> None:
    assert {"می", "خواهم", "میخواهم"} <= found_by("می\u200cخواهم")


@pytest.mark.parametrize(
    "unit",
    ["x", "x1", "a-", "é", "日", "aB", "환", "C++", "a+", "#", ".", "a.", "é/", "\u0301", "\u200b", "½",
     "§ ", "&", "é ", "-4 "],
)  # fmt: skip
def test_a_megabyte_of_garbage_is_bounded_in_size_and_time(unit: str) -> None:
    started = time.process_time()
    text = unit * (10**6 // len(unit))
    for prepared in (prepare(text, 2), prepare_query(text, 2)):
        terms = prepared.split()
        assert len(terms) <= MAX_TOKENS
        assert max(map(len, terms), default=0) <= 4 * MAX_TOKEN_CHARS
    assert time.process_time() - started < 10


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("R&D", "R&D-Abteilung"), ("I/O", "I/O-bound"), ("AT&T", "AT&T's"), ("nodejs", "Node.js-Apps"),
        ("nodejs", "Node.js/Express"), ("50%", "50 % Rabatt"), ("100€", "100\u202f€"), ("C#", "C♯"),
    ],
)  # fmt: skip
def test_a_name_is_one_within_a_compound_and_as_it_is_printed(query: str, text: str) -> None:
    names = set(prepare_query(query, 2).lower().split())
    assert names <= set(prepare(text, 2).lower().split())
    assert any("ª" in name or name == "nodejs" for name in names)


@pytest.mark.parametrize("marks", ["\u0301\u0323", "\u0f71\u0f72\u0f74", "\u0f73", "\uff9e"])
def test_marks_without_end_are_cut_before_they_are_put_in_order(marks: str) -> None:
    assert len(bounded("a" + marks * 200_000)) == 31
    assert "pump" in prepare("a" + marks * 100_000 + " pump", 2).split()
