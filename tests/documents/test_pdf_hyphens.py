"""Hyphens at the ends of a PDF's lines: some divide a word, and some are part of it."""

from __future__ import annotations

import pytest

from rag_assets.documents.parsers.pdf_hyphens import BREAK, without_line_breaks
from rag_assets.documents.parsers.pdf_layout import Line
from rag_assets.documents.registry import parse
from tests.support.pdf_files import pdf, prints


def text_of(*lines: str, pages: int = 1) -> str:
    printed = [
        (line.replace("(", r"\(").replace(")", r"\)"), 9, 280 - 12 * number) for number, line in enumerate(lines)
    ]
    share = -(-len(printed) // pages)
    parts = [printed[start : start + share] for start in range(0, len(printed), share)]
    (record,) = parse(pdf(*(prints(*part) for part in parts)), "a.pdf")
    assert record.document is not None, record.error
    return record.document.text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("order AB-", "1234 today"),
        ("order AB-", "C12 today"),
        ("the co-", "Author of it"),
        ("near Baden-", "Baden in spring"),
        ("see https://example.com/some-", "page for more"),
        ("write to mary.ann-", "smith@example.com now"),
        ("set max_retry-", "count to five"),
        ("about COVID-", "19 in winter"),
    ],
)
def test_the_hyphen_of_codes_names_and_addresses_stays(before: str, after: str) -> None:
    assert f"{before}{after}" in text_of(before, after)


@pytest.mark.parametrize("pages", [1, 2])
def test_the_document_itself_says_how_it_writes_a_word(pages: int) -> None:
    text = text_of(
        "This is a well-",
        "known case of infor-",
        "mation in a data-",
        "base that nobody re-",
        "read twice.",
        "A Well-known word, and information, and the database. We re-read the data at its base.",
        *["Nothing more of it."] * 4,
        pages=pages,
    )
    for word in ("a well-known case", "of information in", "a database that", "nobody re-read twice"):
        assert word in text


def test_where_both_ways_are_seen_the_more_frequent_one_counts() -> None:
    assert "an email here" in text_of("Send an e-", "mail here.", "email and email, but e-mail.").replace("e-mail.", "")
    assert "an e-mail here" in text_of("Send an e-", "mail here.", "e-mail and e-mail, but email.")


def test_two_words_of_the_document_keep_their_hyphen_unless_it_divides_others() -> None:
    words = "The long term is a term that is long."
    divided = ("We saw the infor-", "mation and the exam-", "ple. Any information is an example.")
    assert "a long-term plan" in text_of("This is a long-", "term plan.", words)
    assert "a longterm plan" in text_of("This is a long-", "term plan.", words, *divided)


def test_a_word_of_which_nothing_is_known_is_put_together() -> None:
    assert "an extraordinary day" in text_of("It was an extra-", "ordinary day.")
    assert "EXTRAORDINARY DAY" in text_of("AN EXTRA-", "ORDINARY DAY")


def test_chains_of_hyphens_stay_whole_and_their_last_word_may_be_divided() -> None:
    words = "It is the art of it."
    assert "state-of-the-art" in text_of("A state-of-", "the-art thing.", words)
    assert "self-organisation" in text_of("Some self-organi-", "sation there.", words)


@pytest.mark.parametrize(("first", "joining", "second"), [("pre", "and", "post-war"), ("Vor", "und", "Nachteile")])
def test_words_that_share_their_second_half_stay_two(first: str, joining: str, second: str) -> None:
    assert f"all {first}- {joining} {second}" in text_of(f"all {first}-", f"{joining} {second} things")
    # The rest of a word may look the same.
    assert "thousand things" in text_of("some thous-", "and things", "a thousand more")


def test_lines_without_end_take_no_time() -> None:
    """Minutes, if the time grew with the square of their length."""
    for text in ("a" * 300_000, "a1" * 150_000, "a-" * 150_000):
        page = [Line(text + BREAK + text), Line("some" + BREAK + "thing")]
        ((first, second),) = without_line_breaks([page])
        assert (len(first.text), second.text) in ((600_000, "something"), (600_001, "something"))
