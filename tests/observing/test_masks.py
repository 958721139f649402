"""Personal data that has a form is taken out of a text, wherever it stands, in time that grows no faster than it."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.observing.masks import masked, masked_values

_WORDS = st.text(st.sampled_from("abcxyz äß?!,.\n東"), max_size=30)
_SEPARATORS = st.sampled_from(["", " ", "-", "\u00a0", "\u202f", "\u2011", "\u2013", "\t"])


def _luhn_digit(body: str) -> str:
    total = 0
    for place, sign in enumerate(reversed(body), start=1):
        doubled = int(sign) * (1 + place % 2)
        total += doubled - 9 if doubled > 9 else doubled
    return str(-total % 10)


def _grouped(text: str, size: int, separator: str) -> str:
    return separator.join(text[place : place + size] for place in range(0, len(text), size))


@st.composite
def _cards(draw: st.DrawFn) -> str:
    body = draw(st.text("0123456789", min_size=12, max_size=18))
    return _grouped(body + _luhn_digit(body), draw(st.sampled_from([4, 5])), draw(_SEPARATORS))


@st.composite
def _ibans(draw: st.DrawFn) -> str:
    country = draw(st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ", min_size=2, max_size=2))
    account = draw(st.text("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", min_size=4, max_size=20))
    account += draw(st.text("0123456789", min_size=8, max_size=10))
    number = int("".join(str(int(sign, 36)) for sign in f"{account}{country}00"))
    text = _grouped(f"{country}{98 - number % 97:02d}{account}", 4, draw(_SEPARATORS))
    return draw(st.sampled_from([text, text.lower()]))


@st.composite
def _emails(draw: st.DrawFn) -> str:
    name = draw(st.from_regex(r"[a-z0-9][a-z0-9._+-]{0,20}", fullmatch=True))
    return f"{name}@{draw(st.from_regex(r'[a-z][a-z0-9-]{0,10}(?:[.][a-z]{2,8}){1,2}', fullmatch=True))}"


@st.composite
def _phones(draw: st.DrawFn) -> str:
    start = draw(st.sampled_from(["+49", "+1", "0049", "0"]))
    digits = draw(st.text("0123456789", min_size=8, max_size=10))
    return f"{start}{draw(_SEPARATORS)}{_grouped('1' + digits[1:], draw(st.integers(3, 10)), draw(_SEPARATORS))}"


def _digits_left(text: str) -> int:
    return sum(sign.isdigit() for sign in text)


@pytest.mark.parametrize("secret", [_cards(), _ibans(), _emails(), _phones()], ids=["card", "iban", "email", "phone"])
def test_what_has_such_a_form_is_masked_wherever_it_stands(secret: st.SearchStrategy[str]) -> None:
    @given(_WORDS, secret, _WORDS)
    def check(before: str, given_: str, after: str) -> None:
        text = masked(f"{before} {given_} {after}")
        assert given_ not in text
        assert _digits_left(text) <= 2, text  # of a name that an address has in front of what was found
        assert text.startswith(before.rstrip("+-.%'"))

    check()


@given(st.text("0123456789", min_size=9, max_size=40), _WORDS)
def test_long_numbers_are_masked(number: str, words: str) -> None:
    assert number not in masked(f"{words} {number} {words}")


@given(st.text(st.characters(exclude_characters="@＠﹫", exclude_categories=["Nd"])))
def test_a_text_without_digits_and_addresses_stays_as_it_is(text: str) -> None:
    assert masked(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "error E-4711 of the PX-4412, version 18.0.5",
        "what changed between 2024-01-15 and 2025-02-03?",
        "the invoices of 01.02.2024 and 31.12.2023",
        "the invoices of 01\u201302\u20132024",
        "30 days in 2019, 2020, 2021",
        "ab12 how do I reset the pump",
        "192.168.10.25 does not answer on port 8080",
    ],
)
def test_what_is_asked_of_products_and_dates_stays(text: str) -> None:
    assert masked(text) == text


def test_forms_of_ones_own_are_masked_too() -> None:
    forms = ("EMP-####", "??#.x")
    assert masked("does EMP-1234 earn äb7.x or ab7zx?", forms) == "does [masked] earn [masked] or ab7zx?"
    assert masked_values({"a": ["EMP-0001", 5, None], "jane@x.org": True}, forms) == {
        "a": ["[masked]", 5, None],
        "[email]": True,
    }


@given(st.text("#?()[]{}*+.\\^$|ab1 ", min_size=1, max_size=20), st.text("ab1()*+.\\ ", max_size=200))
def test_no_form_is_more_than_the_signs_in_it(form: str, text: str) -> None:
    found = masked(text, (form,))
    if "#" not in form and "?" not in form:
        assert found == masked(text.replace(form, "[masked]"))


@pytest.mark.parametrize("piece", ["a", "a@", "1 ", "0", "+0 ", "DE12 ", "a.b-", "4111 1111 ", "(0", "DE12a ", ". - "])
def test_no_text_makes_masking_slow(piece: str) -> None:
    def seconds(count: int) -> float:
        started = time.process_time()
        masked(piece * count, ("##-##", "??????"))
        return time.process_time() - started

    assert seconds(40_000) < 20  # what goes back for each sign would take minutes


def test_random_digits_in_other_scripts_are_digits() -> None:
    digits = random.Random(1).choices("٠١٢٣٤٥٦٧٨٩", k=12)
    assert masked("رقم " + "".join(digits)) == "رقم [number]"
