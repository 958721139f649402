from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from rag_assets.embedding.cached import MemoryCache, content_hash, embed_documents_cached
from rag_assets.embedding.profiles import make_profile
from rag_assets.embedding.protocol import Embedded, Embedder
from rag_assets.embedding.registry import embedder_for
from rag_assets.errors import EmbeddingError

HASH = embedder_for(make_profile(name="h", provider="hash", model="hash", dimensions=32))
words = st.text("abc ", min_size=1, max_size=4).filter(lambda text: text.strip() != "")


class Priced:
    """The hash embedder behind a price of 1 dollar a text; notes what was sent, and can fail at a batch."""

    def __init__(self, model_key: str = "priced", fail_at: int | None = None, keep: int | None = None) -> None:
        self.model_key, self.dimensions = model_key, HASH.dimensions
        self.sent: list[list[str]] = []
        self._fail_at, self._keep = fail_at, keep

    def embed_documents(self, texts: Sequence[str]) -> Embedded:
        if len(self.sent) == self._fail_at:
            raise ConnectionError("the provider went away")
        self.sent.append(list(texts))
        return Embedded(HASH.embed_documents(texts).vectors[: self._keep], len(texts), float(len(texts)))

    def embed_query(self, text: str) -> NDArray[np.float32]:
        return HASH.embed_query(text)


@given(st.lists(words, max_size=30), st.lists(words, max_size=10), st.integers(1, 7))
def test_vectors_align_with_texts_and_each_distinct_text_is_sent_once(
    texts: list[str], earlier: list[str], batch_size: int
) -> None:
    cache, embedder = MemoryCache(), Priced()
    embed_documents_cached(embedder, earlier, cache, batch_size)
    paid = len(embedder.sent)
    done = embed_documents_cached(embedder, texts, cache, batch_size)
    assert np.array_equal(done.vectors, HASH.embed_documents(texts).vectors)
    new = set(texts) - set(earlier)
    assert done.embedded == done.tokens == done.cost_usd == len(new)
    assert done.cache_hits == sum(text in set(earlier) for text in texts)
    sent = [text for batch in embedder.sent[paid:] for text in batch]
    assert sorted(sent) == sorted(new)
    assert all(len(batch) <= batch_size for batch in embedder.sent)


def test_a_second_run_is_all_hits_and_costs_nothing() -> None:
    cache, embedder = MemoryCache(), Priced()
    texts = [f"text {i % 40}" for i in range(50)]
    first = embed_documents_cached(embedder, texts, cache, batch_size=8)
    second = embed_documents_cached(embedder, texts, cache, batch_size=8)
    assert (first.embedded, first.cache_hits) == (40, 0)
    assert (second.embedded, second.cache_hits, second.tokens, second.cost_usd) == (0, 50, 0, 0.0)
    assert second.vectors.tobytes() == first.vectors.tobytes()


def test_a_run_that_dies_resumes_without_paying_for_the_same_text_twice() -> None:
    cache, texts = MemoryCache(), [f"text {i}" for i in range(25)]
    dying, resumed, batches = Priced(fail_at=2), Priced(), list[int]()
    with pytest.raises(ConnectionError):
        embed_documents_cached(dying, texts, cache, batch_size=10, on_batch=batches.append)
    assert (len(cache), batches) == (20, [10, 10])
    done = embed_documents_cached(resumed, texts, cache, batch_size=10, on_batch=batches.append)
    assert resumed.sent == [texts[20:]]
    assert (done.embedded, done.cache_hits, batches) == (5, 20, [10, 10, 5])


def test_a_second_model_does_not_take_the_first_models_vectors() -> None:
    cache, one, other = MemoryCache(), Priced("one"), Priced("other")
    embed_documents_cached(one, ["same text"], cache)
    assert embed_documents_cached(other, ["same text"], cache).embedded == 1
    assert len(cache) == 2


def test_bug_33_texts_that_join_to_the_same_string_have_vectors_of_their_own() -> None:
    assert content_hash("ab") + content_hash("c") != content_hash("a") + content_hash("bc")
    cache, embedder = MemoryCache(), Priced()
    embed_documents_cached(embedder, ["ab", "c"], cache)
    done = embed_documents_cached(embedder, ["a", "bc"], cache)
    assert (done.embedded, done.cache_hits) == (2, 0)
    assert np.array_equal(done.vectors, HASH.embed_documents(["a", "bc"]).vectors)


def test_bug_42_a_blank_text_is_refused_before_anything_is_sent() -> None:
    cache, embedder = MemoryCache(), Priced()
    with pytest.raises(EmbeddingError, match="text 1 is blank"):
        embed_documents_cached(embedder, ["hi", "", "there"], cache, batch_size=1)
    assert (embedder.sent, len(cache)) == ([], 0)


def test_bug_43_a_short_answer_raises_and_stores_nothing() -> None:
    cache = MemoryCache()
    with pytest.raises(EmbeddingError, match="2 vectors for 3 texts"):
        embed_documents_cached(Priced(keep=2), ["a", "b", "c"], cache)
    assert len(cache) == 0


def test_bug_53_a_zero_vector_from_the_model_raises_and_stores_nothing() -> None:
    class Zeros(Priced):
        def embed_documents(self, texts: Sequence[str]) -> Embedded:
            answer = super().embed_documents(texts)
            answer.vectors[1] = 0
            return answer

    cache, embedder = MemoryCache(), Zeros()
    with pytest.raises(EmbeddingError, match="vector 1 of 2 is all zeros"):
        embed_documents_cached(embedder, ["a", "b"], cache)
    assert len(cache) == 0


@pytest.mark.parametrize(
    "bad", [np.ones(31) / 31**0.5, np.zeros(32), np.full(32, np.nan), np.full(32, np.inf), np.ones(32)]
)
def test_a_cached_vector_that_cannot_be_the_models_is_embedded_anew(bad: NDArray[np.float64]) -> None:
    cache, embedder = MemoryCache(), Priced()
    cache.put(embedder.model_key, [content_hash("a")], bad[None, :].astype(np.float32))
    done = embed_documents_cached(embedder, ["a"], cache)
    assert (done.embedded, done.cache_hits) == (1, 0)
    assert np.array_equal(done.vectors[0], HASH.embed_query("a"))
    assert embed_documents_cached(embedder, ["a"], cache).cache_hits == 1


def test_more_texts_than_one_lookup_takes_are_all_found() -> None:
    cache, embedder = MemoryCache(), Priced()
    texts = [str(i) for i in range(4500)]
    embed_documents_cached(embedder, texts, cache)
    assert embed_documents_cached(embedder, texts, cache).cache_hits == 4500


def test_no_texts_cost_nothing() -> None:
    done = embed_documents_cached(HASH, [], MemoryCache())
    assert (done.vectors.shape, done.embedded, done.cache_hits) == ((0, 32), 0, 0)


def test_a_batch_size_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="batch_size"):
        embed_documents_cached(HASH, ["a"], MemoryCache(), batch_size=0)


def test_the_hash_embedder_is_an_embedder() -> None:
    embedder: Embedder = HASH
    assert embedder.model_key.startswith("hash:hash:32:")
