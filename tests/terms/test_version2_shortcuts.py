"""What the second version of terms skips or remembers makes no other terms than the long way round."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import example, given, settings
from hypothesis import strategies as st

from rag_assets.marks import MOST, bounded
from rag_assets.terms import folding, prepare, prepare_name, signs, version2
from rag_assets.terms.codes import MAX_TOKEN_CHARS, MAX_TOKENS

PARTS = [
    *"aBéßøıйΣςά日か환हअאى12²½_-./:'&@+#§°% \t\n\u00a0\u3000\u200b\u0301\u0300\u3099",
    "C++",
    "R&D",
    "ﬂ",
    "™",
    "Ⅷ",
    "0 %",
]
WRITTEN = st.lists(st.sampled_from(PARTS), max_size=60).map("".join) | st.text(max_size=80)


@given(WRITTEN)
@example("1 \u0301²\u00a0% \u00a8a")
@settings(max_examples=500, deadline=None)
def test_words_are_made_normal_one_by_one_as_together(text: str) -> None:
    assert folding.normal(text) == (text if text.isascii() else folding._made_normal(text))


@given(WRITTEN)
@settings(max_examples=500, deadline=None)
def test_pieces_that_have_no_names_are_told_without_a_look_at_their_parts(text: str) -> None:
    with patch.object(signs, "_MAY_BE_NAMED", signs._SIGNS):
        looked_at = [signs.names_of("", piece, "") for piece in text.split()]
    assert [signs.names_of("", piece, "") for piece in text.split()] == looked_at


@given(WRITTEN)
@settings(max_examples=500, deadline=None)
def test_runs_without_accents_are_not_folded_part_by_part(text: str) -> None:
    pieces = version2._split(text)
    terms = [version2._terms(piece) for piece in pieces]
    for one in terms:
        differing = {word: folding.folded(word) for word in one.words if not word.isascii()}
        assert dict(one.unaccented) == {word: form for word, form in differing.items() if form and form != word.lower()}


@given(st.integers(0, 3 * MOST), st.integers(0, 3 * MOST))
def test_only_runs_of_marks_that_are_too_long_are_cut(before: int, marks: int) -> None:
    text = "é" * before + "\u0301" * marks + "a"
    assert bounded(text) == "é" * before + "\u0301" * min(marks, MOST) + "a"


def test_terms_beyond_the_bounds_are_counted_one_by_one() -> None:
    many = prepare("Éa+b " * (MAX_TOKENS // 3), 2)
    assert len(many.split()) == MAX_TOKENS
    assert [len(line.split(" ")) for line in many.split("\n")] == [MAX_TOKENS * 2 // 3, MAX_TOKENS // 3]
    long = ("é" * MAX_TOKEN_CHARS + " ") * MAX_TOKENS
    assert len(prepare(long, 2).partition("\n")[0].encode()) <= 400_000 + MAX_TOKENS
    assert prepare("+ - §", 2) == "" == prepare_name("", 2)
