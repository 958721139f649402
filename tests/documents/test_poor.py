"""When a source is poor, and why, from its quality figures alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.documents.poor import FIGURES, poor_reasons

FEW_LETTERS = {"encoding": "cp1250", "encoding_guessed": True}


@pytest.mark.parametrize(
    ("quality", "words"),
    [
        ({"pages": 8, "pages_without_text": 3}, ["3 of 8 pages hold no text"]),
        ({"pages": 8, "pages_without_text": 1}, ["1 of 8 pages holds no text"]),
        ({"pages": 1200, "pages_without_text": 100}, []),
        ({"pages": 8, "pages_without_text": 2, "pages_unread": 2}, ["2 of 8 pages cannot be read"]),
        ({"pages": 4, "pages_without_text": 2, "pages_ocr_failed": 2}, ["OCR failed on 2 of 4 pages"]),
        ({"characters_out": 1000, "replacement_characters": 20}, ["2 % of the characters could not be decoded"]),
        ({"characters_out": 1000, "replacement_characters": 2}, ["0.2 % of the characters could not be decoded"]),
        ({"characters_out": 1000, "replacement_characters": 1}, []),
        ({"text_objects": 90, "text_objects_unread": 30}, ["33 % of the text objects gave no text"]),
        ({"text_objects": 90, "text_objects_unread": 4}, []),
        ({"parts_not_read": 1}, ["1 file inside could not be read"]),
        ({**FEW_LETTERS, "encoding_evidence": 9}, ["the encoding is a guess (cp1250) from 9 characters"]),
        ({**FEW_LETTERS, "encoding_evidence": 1}, ["the encoding is a guess (cp1250) from 1 character"]),
        ({**FEW_LETTERS, "encoding_evidence": 25}, []),
        ({"encoding": "cp1250"}, []),
        ({"share_kept": 0.11}, ["11 % of the page was kept"]),
        ({"share_kept": 0.0}, ["0 % of the page was kept"]),
        ({"share_kept": 0.9, "bytes_in": 10, "columns": 2, "notes": 3, "languages": ["de"]}, []),
    ],
)
def test_a_source_is_poor_for_reasons_that_people_understand(quality: dict[str, Any], words: list[str]) -> None:
    assert [reason.words for reason in poor_reasons(quality)] == words


def test_the_worst_reason_comes_first() -> None:
    quality = {"pages": 10, "pages_without_text": 2, "share_kept": 0.1, **FEW_LETTERS, "encoding_evidence": 1}
    assert [reason.figure for reason in poor_reasons(quality)] == [
        "share_kept",
        "pages_without_text",
        "encoding_guessed",
    ]


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
MORE = ("pages", "characters_out", "text_objects", "encoding", "encoding_evidence")


@given(st.dictionaries(st.sampled_from(FIGURES + MORE), ANYTHING) | ANYTHING)
def test_whatever_a_file_calls_its_quality_is_judged_or_says_nothing(quality: object) -> None:
    for reason in poor_reasons(quality):
        assert reason.words
        assert 0 <= reason.share <= 1
        assert isinstance(quality, dict)
        assert set(quality) & set(FIGURES), "the store asks for sources with one of these figures alone"
