from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from rag_assets.embedding.cached import content_hash, embed_documents_cached
from rag_assets.embedding.check import check_texts
from rag_assets.embedding.profiles import make_profile
from rag_assets.embedding.protocol import NOBODY, Caller, Embedded, Embedder, Usage
from rag_assets.embedding.refused import PROBE
from rag_assets.embedding.registry import embedder_for
from rag_assets.errors import EmbeddingError, ProviderRefused, TextRefused
from tests.support.memory_cache import MemoryCache
from tests.support.refusals import Memory

HASH = embedder_for(make_profile(name="h", provider="hash", model="hash", dimensions=32))
words = st.text("abc ", min_size=1, max_size=4).filter(lambda text: text.strip() != "")


class Priced:
    """The hash embedder behind a price of 1 dollar a text; notes what was sent, can fail at a batch, and refuses
    texts that hold "bad"."""

    batch_items = 1000

    def __init__(self, model_key: str = "priced", fail_at: int | None = None, keep: int | None = None) -> None:
        self.model_key, self.dimensions = model_key, HASH.dimensions
        self.sent: list[list[str]] = []
        self._fail_at, self._keep = fail_at, keep

    def embed_documents(self, texts: Sequence[str], caller: Caller = NOBODY) -> Embedded:
        if len(self.sent) == self._fail_at:
            raise ConnectionError("the provider went away")
        check_texts(texts)
        if any("bad" in text for text in texts):
            raise TextRefused("the provider does not like a text", by_provider=True)
        self.sent.append(list(texts))
        usage = Usage(caller.tenant, caller.bot, len(texts), len(texts), float(len(texts)))
        return Embedded(HASH.embed_documents(texts).vectors[: self._keep], usage)

    def embed_query(self, text: str, caller: Caller = NOBODY) -> Embedded:
        return HASH.embed_query(text, caller)


@given(st.lists(words, max_size=30), st.lists(words, max_size=10), st.integers(1, 7))
def test_vectors_align_with_texts_and_each_distinct_text_is_sent_once(
    texts: list[str], earlier: list[str], batch_size: int
) -> None:
    cache, embedder = MemoryCache(), Priced()
    embed_documents_cached(embedder, earlier, cache, batch_size=batch_size)
    paid = len(embedder.sent)
    done = embed_documents_cached(embedder, texts, cache, batch_size=batch_size)
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


def test_bug_42_a_blank_text_is_left_out_by_name_and_the_others_are_embedded() -> None:
    cache, embedder = MemoryCache(), Priced()
    done = embed_documents_cached(embedder, ["hi", "", "there"], cache)
    assert (sorted(text for batch in embedder.sent for text in batch), len(cache)) == (["hi", "there"], 2)
    assert list(done.refused) == [1]
    assert "blank" in done.refused[1]
    assert np.isnan(done.vectors[1]).all()
    assert np.array_equal(done.vectors[[0, 2]], HASH.embed_documents(["hi", "there"]).vectors)


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.integers(1, 40))
def test_texts_that_are_refused_are_found_and_cost_the_others_nothing(refused: list[bool], size: int) -> None:
    texts = [f"bad {i}" if bad else f"good {i}" for i, bad in enumerate(refused)]
    cache, embedder = MemoryCache(), Priced()
    done = embed_documents_cached(embedder, texts, cache, batch_size=size)
    assert sorted(done.refused) == [i for i, bad in enumerate(refused) if bad]
    sent = [text for batch in embedder.sent for text in batch if text != PROBE]
    assert sorted(sent) == sorted(text for text, bad in zip(texts, refused, strict=True) if not bad)
    assert np.array_equal(np.isnan(done.vectors).all(axis=1), np.array(refused))


def test_a_provider_that_refuses_everything_is_not_asked_about_each_text() -> None:
    class Refusing(Priced):
        calls = 0

        def embed_documents(self, texts: Sequence[str], caller: Caller = NOBODY) -> Embedded:
            self.calls += 1
            raise TextRefused("HTTP 400", by_provider=True)

    embedder, memory = Refusing(), Memory()
    with pytest.raises(ProviderRefused, match="no text is to blame: HTTP 400"):
        embed_documents_cached(embedder, [f"text {i}" for i in range(1000)], MemoryCache(), memory=memory)
    assert embedder.calls < 40
    assert memory.refused == {}


def test_a_provider_that_begins_to_refuse_everything_is_found_out() -> None:
    class Turning(Priced):
        def embed_documents(self, texts: Sequence[str], caller: Caller = NOBODY) -> Embedded:
            if len(self.sent) == 2:
                raise TextRefused("HTTP 400", by_provider=True)
            return super().embed_documents(texts, caller)

    memory = Memory()
    with pytest.raises(ProviderRefused):
        embed_documents_cached(Turning(), [str(i) for i in range(30)], MemoryCache(), batch_size=10, memory=memory)
    assert memory.refused == {}, "texts are blamed for what the provider does"


@pytest.mark.parametrize("bad", [0, np.nan, None], ids=str)
def test_answers_that_are_always_wrong_raise_and_store_nothing(bad: float | None) -> None:
    class Wrong(Priced):
        def embed_documents(self, texts: Sequence[str], caller: Caller = NOBODY) -> Embedded:
            answer = super().embed_documents(texts, caller)
            if bad is None:
                return Embedded(answer.vectors[:-1], answer.usage)
            answer.vectors[-1] = bad
            return answer

    cache, embedder, memory = MemoryCache(), Wrong(), Memory()
    with pytest.raises(EmbeddingError) as caught:
        embed_documents_cached(embedder, ["a", "b", "c"], cache, memory=memory)
    assert type(caught.value) is EmbeddingError
    assert (len(cache), memory.refused, embedder.sent) == (0, {}, [["a", "b", "c"], [PROBE]])


class Odd(Priced):
    """Answers texts that hold "odd" with zeros, or leaves their vector out."""

    def __init__(self, leaves_out: bool) -> None:
        super().__init__()
        self._leaves_out = leaves_out

    def embed_documents(self, texts: Sequence[str], caller: Caller = NOBODY) -> Embedded:
        answer = super().embed_documents(texts, caller)
        odd = np.array(["odd" in text for text in texts])
        answer.vectors[odd] = 0
        return Embedded(answer.vectors[~odd], answer.usage) if self._leaves_out else answer


@pytest.mark.parametrize("leaves_out", [False, True])
@given(odd=st.lists(st.booleans(), min_size=1, max_size=30), size=st.integers(1, 30))
def test_texts_whose_answers_are_no_vectors_are_found_and_remembered_for_a_time(
    leaves_out: bool, odd: list[bool], size: int
) -> None:
    texts = [f"odd {i}" if is_odd else f"good {i}" for i, is_odd in enumerate(odd)]
    memory = Memory()
    done = embed_documents_cached(Odd(leaves_out), texts, MemoryCache(), batch_size=size, memory=memory)
    assert sorted(done.refused) == [i for i, is_odd in enumerate(odd) if is_odd]
    assert np.array_equal(np.isnan(done.vectors).all(axis=1), np.array(odd))
    good = [text for text in texts if text.startswith("good")]
    assert np.array_equal(done.vectors[~np.array(odd)], HASH.embed_documents(good).vectors)
    assert {content_hash(text) for text in texts if text.startswith("odd")} == set(memory.refused)
    assert not any(refusal.lasting for refusal in memory.refused.values())


@pytest.mark.parametrize("bad", [1, 9, 40])
def test_what_was_refused_before_is_not_sent_again(bad: int) -> None:
    cache, memory = MemoryCache(), Memory()
    texts = [f"bad {i}" for i in range(bad)]
    first = embed_documents_cached(Priced(), texts, cache, memory=memory)
    embedder = Priced()
    second = embed_documents_cached(embedder, [*texts, "good"], cache, memory=memory)
    assert (len(first.refused), second.refused) == (bad, first.refused)
    assert (embedder.sent, second.embedded) == ([["good"]], 1)
    assert all(refusal.lasting for refusal in memory.refused.values())


def test_what_no_model_can_embed_is_not_asked_about() -> None:
    embedder, memory = Priced(), Memory()
    done = embed_documents_cached(embedder, ["", " "], MemoryCache(), memory=memory)
    assert (list(done.refused), embedder.sent, memory.refused) == ([0, 1], [], {})


@pytest.mark.parametrize(
    "bad", [np.ones(31) / 31**0.5, np.zeros(32), np.full(32, np.nan), np.full(32, np.inf), np.ones(32)]
)
def test_a_cached_vector_that_cannot_be_the_models_is_embedded_anew(bad: NDArray[np.float64]) -> None:
    cache, embedder = MemoryCache(), Priced()
    cache.put(embedder.model_key, [content_hash("a")], bad[None, :].astype(np.float32), Usage("", "", 1, 1))
    done = embed_documents_cached(embedder, ["a"], cache)
    assert (done.embedded, done.cache_hits) == (1, 0)
    assert np.array_equal(done.vectors[0], HASH.embed_query("a").vectors[0])
    assert embed_documents_cached(embedder, ["a"], cache).cache_hits == 1


def test_more_texts_than_one_lookup_takes_are_all_found() -> None:
    cache, embedder = MemoryCache(), Priced()
    texts = [str(i) for i in range(4500)]
    embed_documents_cached(embedder, texts, cache)
    assert embed_documents_cached(embedder, texts, cache).cache_hits == 4500


def test_usage_names_who_asked_and_does_not_change_a_vector() -> None:
    acme = HASH.embed_documents(["a"], Caller("acme", "support"))
    globex = HASH.embed_documents(["a"], Caller("globex", "sales"))
    assert (acme.usage.tenant, acme.usage.bot, globex.usage.tenant) == ("acme", "support", "globex")
    assert acme.vectors.tobytes() == globex.vectors.tobytes()


def test_no_texts_cost_nothing() -> None:
    done = embed_documents_cached(HASH, [], MemoryCache())
    assert (done.vectors.shape, done.embedded, done.cache_hits) == ((0, 32), 0, 0)


def test_a_batch_size_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="batch_size"):
        embed_documents_cached(HASH, ["a"], MemoryCache(), batch_size=0)


def test_the_hash_embedder_is_an_embedder() -> None:
    embedder: Embedder = HASH
    assert embedder.model_key.startswith("hash:hash:32:")
