"""The order of the pieces of a page, by where they stand."""

from __future__ import annotations

from collections import Counter
from contextlib import closing

from hypothesis import given, settings
from hypothesis import strategies as st
from pypdfium2 import PdfDocument

from rag_assets.documents.parsers.pdf_order import Piece, Rule, reading_order, rules_of
from rag_assets.documents.registry import parse
from tests.support.pdf_files import pdf, placed

sides = st.floats(0, 300, allow_nan=False)
sizes = st.floats(0, 120, allow_nan=False)
pieces = st.builds(
    lambda left, bottom, width, height, words: Piece(left, bottom, left + width, bottom + height, words),
    *(sides, sides, sizes, st.floats(0, 20, allow_nan=False), st.integers(0, 12)),
)
rules = st.builds(Rule, sides, sides, sides)
WORDS = ("pump", "valve", "hose", "filter", "of the", "is red", "7", "12.50", "(open)", "tank")
words = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
spots = st.tuples(words, st.integers(0, 4).map(lambda n: 60 * n), st.integers(0, 22).map(lambda n: 20 + 12 * n))


def text_columns(count: int, rows: int, x: float = 0) -> list[Piece]:
    """As they are printed line by line."""
    return [
        Piece(x + 120 * n, 500 - 12 * r, x + 100 + 120 * n, 510 - 12 * r, 5) for r in range(rows) for n in range(count)
    ]


@given(st.lists(pieces, max_size=40), st.lists(rules, max_size=5), st.booleans())
def test_every_piece_is_read_once(found: list[Piece], drawn: list[Rule], leftwards: bool) -> None:
    order = reading_order(found, drawn, leftwards)
    assert sorted(number for block in order.blocks for number in block) == list(range(len(found)))


@settings(max_examples=60)
@given(st.lists(spots, min_size=1, max_size=60))
def test_the_words_are_those_of_the_page_wherever_they_stand(found: list[tuple[str, int, int]]) -> None:
    data = pdf(placed(*((text[:9], x, y) for (x, y), text in {(x, y): text for text, x, y in found}.items())))
    with closing(PdfDocument(data)) as document, closing(document[0]) as page, closing(page.get_textpage()) as text:
        words_before = text.get_text_range().split()
    (record,) = parse(data, "a.pdf")
    assert record.document is not None, record.error
    assert Counter(record.document.text.split()) == Counter(words_before)


@given(st.integers(2, 4), st.integers(3, 30))
def test_columns_of_text_are_read_one_after_the_other(count: int, rows: int) -> None:
    order = reading_order(text_columns(count, rows))
    assert [number for block in order.blocks for number in block] == [
        row * count + column for column in range(count) for row in range(rows)
    ]
    assert order.columns == count


def test_columns_of_scripts_that_are_written_leftwards_begin_at_the_right() -> None:
    order = reading_order(text_columns(2, 4), leftwards=True)
    assert [number for block in order.blocks for number in block] == [1, 3, 5, 7, 0, 2, 4, 6]


def test_cells_without_words_are_a_table() -> None:
    numbers = [piece._replace(words=0) for piece in text_columns(3, 8)]
    assert reading_order(numbers).blocks == [list(range(24))]


def test_pieces_of_a_drawn_line_are_one_rule_and_areas_have_two() -> None:
    assert rules_of([(10, 50, 60, 50.5), (61, 50, 100, 50.5), (200, 10, 201, 90)]) == [Rule(10, 100, 50.25)]
    assert rules_of([(10, 20, 60, 80)]) == [Rule(10, 60, 20), Rule(10, 60, 80)]
