from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.embedding.profiles import make_profile
from rag_assets.embedding.protocol import Embedder
from rag_assets.embedding.registry import embedder_for
from rag_assets.errors import EmbeddingError


def _embedder(dimensions: int = 64, **fields: object) -> Embedder:
    return embedder_for(make_profile(name="h", provider="hash", model="hash", dimensions=dimensions, **fields))


@given(st.text(st.characters(codec="utf-8"), min_size=1), st.integers(8, 12))
def test_any_text_that_is_not_blank_has_a_unit_vector(text: str, dimensions: int) -> None:
    if not text.strip():
        with pytest.raises(EmbeddingError, match="blank"):
            _embedder(dimensions).embed_query(text)
        return
    (vector,) = _embedder(dimensions).embed_query(text).vectors
    assert vector.shape == (dimensions,)
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-6)


def test_the_vector_of_a_text_is_the_same_in_every_process() -> None:
    hot = np.flatnonzero(_embedder(1000).embed_query("Reset my password").vectors[0]).tolist()
    assert hot == [165, 666, 919, 958, 962]


def test_letter_case_and_punctuation_do_not_matter_and_word_order_does() -> None:
    embedder = _embedder(512)
    base, same, swapped = embedder.embed_documents(["Red, house!", "red HOUSE", "house red"]).vectors
    assert np.array_equal(base, same)
    assert 0 < base @ swapped < 0.9


def test_documents_and_queries_take_their_own_instruction() -> None:
    embedder, plain = _embedder(task_instruction={"query": "q ", "document": "d "}), _embedder()
    assert np.array_equal(embedder.embed_query("x").vectors, plain.embed_query("q x").vectors)
    assert np.array_equal(embedder.embed_documents(["x"]).vectors, plain.embed_query("d x").vectors)


def test_a_token_is_a_word() -> None:
    assert _embedder().embed_documents(["one two", "three"]).usage.tokens == 3
