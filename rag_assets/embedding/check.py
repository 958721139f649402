"""The last check before a text is sent to a model, and before its vector is stored or searched with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rag_assets.errors import EmbeddingError, TextRefused
from rag_assets.printing import counted

_ROUNDING = 1e-6  # how far from 1 the norm of a float32 unit vector may be


def check_texts(texts: Sequence[str]) -> None:
    """Refuse what no model can embed, before anything is sent or paid for.

    Raises:
        TextRefused: a blank text, or one that is not valid Unicode; names its position.
    """
    for position, text in enumerate(texts):
        if not text.strip():
            raise TextRefused(f"text {position} is blank: leave it out before embedding")
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise TextRefused(f"text {position} is not valid Unicode: {error.reason}") from error


def checked(vectors: ArrayLike, n: int, dimensions: int, what: str = "the model") -> NDArray[np.float32]:
    """Return n vectors as unit-length float32, shape (n, dimensions). `what` names where they are from.

    Vectors that already have unit length come back unchanged, so checking twice gives the same bytes.

    Raises:
        EmbeddingError: another count or dimension, NaN or infinity, or a vector of length zero.
    """
    # float64, because the squares of large float32 values overflow and would turn into zero vectors.
    matrix = _as_matrix(vectors, n, dimensions, what)
    with np.errstate(over="ignore"):
        norms: NDArray[np.float64] = np.linalg.norm(matrix, axis=1)
    _refuse_rows(~np.isfinite(norms), "holds NaN or infinity", what)
    _refuse_rows(norms == 0, "is all zeros, which no distance is defined for", what)
    norms[np.abs(norms - 1) < _ROUNDING] = 1
    return (matrix / norms[:, None]).astype(np.float32)


def _as_matrix(vectors: ArrayLike, n: int, dimensions: int, what: str) -> NDArray[np.float64]:
    try:
        matrix = np.asarray(vectors, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise EmbeddingError(f"{what} returned vectors that are not one table of numbers: {error}") from error
    if n == 0 and matrix.size == 0:
        return np.empty((0, dimensions))
    if matrix.ndim != 2:
        raise EmbeddingError(f"expected {counted(n, 'vector')}, {what} returned an array of shape {matrix.shape}")
    if len(matrix) != n:
        raise EmbeddingError(f"{what} returned {counted(len(matrix), 'vector')} for {counted(n, 'text')}")
    if matrix.shape[1] != dimensions:
        raise EmbeddingError(
            f"expected {counted(dimensions, 'dimension')}, {what} returned {matrix.shape[1]}: a profile needs its "
            "model's own"
        )
    return matrix


def _refuse_rows(bad: NDArray[np.bool_], fault: str, what: str) -> None:
    if bad.any():
        raise EmbeddingError(f"{what} returned useless vectors: vector {int(bad.argmax())} of {len(bad)} {fault}")
