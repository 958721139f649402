from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.typing import NDArray

from rag_assets.embedding.check import check_texts, checked
from rag_assets.errors import EmbeddingError

matrices = arrays(
    np.float32,
    array_shapes(min_dims=2, max_dims=2, max_side=8),
    elements=st.floats(width=32, allow_nan=False, allow_infinity=False),
)


@given(matrices)
def test_what_passes_has_unit_length_and_passes_again_unchanged(vectors: NDArray[np.float32]) -> None:
    rows, dimensions = vectors.shape
    if (vectors == 0).all(axis=1).any():
        with pytest.raises(EmbeddingError, match="zeros"):
            checked(vectors, rows, dimensions)
        return
    units = checked(vectors, rows, dimensions)
    assert units.dtype == np.float32
    assert np.allclose(np.linalg.norm(units, axis=1), 1, atol=1e-6)
    assert checked(units, rows, dimensions).tobytes() == units.tobytes()


def test_bug_43_fewer_vectors_than_texts_are_refused() -> None:
    with pytest.raises(EmbeddingError, match="2 vectors for 3 texts"):
        checked(np.ones((2, 4)), 3, 4)


def test_bug_53_a_zero_vector_is_refused_with_its_position() -> None:
    with pytest.raises(EmbeddingError, match="vector 1 of 3 is all zeros"):
        checked([[1, 0], [0, 0], [0, 1]], 3, 2)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_bug_53_nan_and_infinity_are_refused_with_their_position(bad: float) -> None:
    with pytest.raises(EmbeddingError, match="vector 2 of 3 holds NaN or infinity"):
        checked([[1, 0], [1, 0], [bad, 1]], 3, 2)


@pytest.mark.parametrize(
    "vectors", [[[1.0], [1.0, 2.0]], [1.0, 2.0], [["a", "b"], ["c", "d"]], [None, [1.0, 2.0]], [[], []]]
)
def test_what_is_no_table_of_the_right_width_is_refused(vectors: list[object]) -> None:
    with pytest.raises(EmbeddingError):
        checked(vectors, 2, 2)


def test_a_wrong_dimension_is_refused() -> None:
    with pytest.raises(EmbeddingError, match="expected 4 dimensions, the model returned 3"):
        checked(np.ones((2, 3)), 2, 4)


def test_no_texts_give_no_vectors() -> None:
    assert checked([], 0, 5).shape == (0, 5)


@pytest.mark.parametrize("blank", ["", " ", "\n\t", "\u00a0"])
def test_bug_42_a_blank_text_is_refused_with_its_position(blank: str) -> None:
    with pytest.raises(EmbeddingError, match="text 1 is blank"):
        check_texts(["hi", blank, "there"])


def test_a_text_that_is_not_valid_unicode_is_refused_with_its_position() -> None:
    with pytest.raises(EmbeddingError, match="text 1 is not valid Unicode"):
        check_texts(["hi", "\ud800"])
