from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.embedding.providers.windows import TokenWindows, Window, byte_windows, mean_of_windows
from rag_assets.embedding.providers.wordllama import load_tokenizer
from rag_assets.errors import EmbeddingError

texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=400).filter(lambda text: text.strip() != "")


@settings(deadline=None)
@given(texts, st.integers(8, 60), st.sampled_from(["", "passage: "]))
def test_token_windows_fit_and_leave_nothing_out(text: str, limit: int, prefix: str) -> None:
    tokenizer = load_tokenizer()
    windows = TokenWindows(tokenizer, limit).cut(text, prefix)
    assert "".join(window.text for window in windows) == text
    for window in windows:
        assert window.size == len(tokenizer.encode(prefix + window.text)) <= limit


@settings(deadline=None)
@given(texts, st.integers(8, 60))
def test_byte_windows_fit_and_leave_out_nothing_but_white_space(text: str, limit: int) -> None:
    windows = byte_windows(text, limit)
    assert "".join("".join(window.text for window in windows).split()) == "".join(text.split())
    for window in windows:
        assert window.text.strip()
        assert window.size == len(window.text.encode("utf-8")) <= limit


def test_words_stay_whole_where_that_is_possible() -> None:
    text = " ".join(f"refund{i}" for i in range(200))
    for windows in (byte_windows(text, 100), TokenWindows(load_tokenizer(), 40).cut(text, "")):
        assert len(windows) > 10
        assert set(" ".join(window.text for window in windows).split()) == set(text.split())


def test_a_text_just_over_the_limit_is_halved_and_not_left_with_a_tail_of_one_word() -> None:
    sizes = [window.size for window in byte_windows("word " * 21, 100)]
    assert len(sizes) == 2
    assert min(sizes) > 40


def test_without_a_limit_a_text_is_one_window() -> None:
    tokenizer = load_tokenizer()
    text = "word " * 5000
    assert TokenWindows(tokenizer, None).cut(text, "p: ") == [Window(text, len(tokenizer.encode("p: " + text)))]


def test_a_prefix_without_room_behind_it_is_an_error() -> None:
    with pytest.raises(ValueError, match="leaves no room"):
        TokenWindows(load_tokenizer(), 8).cut("some text", "instruct " * 20)


def test_the_vector_of_windows_is_their_mean_by_length_at_unit_length() -> None:
    vectors = [[1.0, 0, 0], [0, 2.0, 0], [0, 0, 5.0]]
    means = mean_of_windows(vectors, [[Window("a", 30), Window("b", 10)], [Window("c", 7)]], 3)
    assert np.allclose(means, [[3 / 10**0.5, 1 / 10**0.5, 0], [0, 0, 1]])


def test_a_zero_vector_of_one_window_is_not_averaged_away() -> None:
    with pytest.raises(EmbeddingError, match="zeros"):
        mean_of_windows([[1.0, 0], [0, 0]], [[Window("a", 1), Window("b", 1)]], 2)
    with pytest.raises(EmbeddingError, match="2 vectors for 3"):
        mean_of_windows([[1.0, 0], [0, 1]], [[Window("a", 1), Window("b", 1)], [Window("c", 1)]], 2)
