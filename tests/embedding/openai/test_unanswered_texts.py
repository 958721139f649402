"""A text that a server has no answer for, at every try, is that text's failure: all others are served, and it is sent
again later. A server that answers nothing is asked no more than that shows."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

from rag_assets.embedding.cached import embed_documents_cached
from rag_assets.embedding.profiles import make_profile
from rag_assets.embedding.protocol import Caller
from rag_assets.embedding.providers.openai import OpenAICompatibleEmbedder
from rag_assets.embedding.refused import PROBE
from rag_assets.errors import ProviderUnavailable
from tests.support.memory_cache import MemoryCache
from tests.support.openai_server import (
    Behaviour,
    OpenAIServer,
    Reply,
    body,
    close_in_the_body,
    error,
    openai_server,
    reset,
    right,
    silence,
    unit_vectors,
)
from tests.support.refusals import Memory

WAIT_S = 0.3  # one try: the first pause is longer


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with openai_server() as made:
        yield made


@pytest.fixture
def embedder(server: OpenAIServer) -> Iterator[OpenAICompatibleEmbedder]:
    options = {"base_url": server.url}
    profile = make_profile(name="o", provider="openai-compatible", model="plain", dimensions=16, options=options)
    made = OpenAICompatibleEmbedder(profile)
    yield made
    made.close()


def for_texts_with(word: str, by: Behaviour) -> list[Behaviour]:
    def behave(reply: Reply) -> None:
        (by if any(word in text for text in reply.arrived.texts) else right)(reply)

    return [behave] * 1000


NO_ANSWER: dict[str, Behaviour] = {
    "HTTP 500": error(500),
    "HTTP 502, no JSON": body(b"<html>bad gateway</html>", 502),
    "HTTP 503": error(503),
    "HTTP 503, a short pause": error(503, {"retry-after": "1"}),
    "HTTP 504": error(504),
    "HTTP 408": error(408),
    "no JSON": body(b"out of memory"),
    "the connection reset": reset,
    "half an answer": close_in_the_body,
    "silence": silence,
}


@pytest.mark.parametrize("by", NO_ANSWER.values(), ids=NO_ANSWER)
@pytest.mark.parametrize("bad", [[0], [9, 17]], ids=str)
def test_a_text_without_an_answer_fails_alone_and_all_others_are_embedded(
    server: OpenAIServer, embedder: OpenAICompatibleEmbedder, by: Behaviour, bad: list[int]
) -> None:
    texts = [f"deadly {number}" if number in bad else f"good {number}" for number in range(20)]
    server.script.extend(for_texts_with("deadly", by))
    memory = Memory()
    done = embed_documents_cached(embedder, texts, MemoryCache(), Caller(wait_s=WAIT_S), memory=memory)
    assert sorted(done.refused) == bad
    good = [number for number in range(20) if number not in bad]
    assert np.abs(done.vectors[good] - unit_vectors([texts[number] for number in good])).max() < 1e-6
    assert all("gave no answer in 1 try" in reason for reason in done.refused.values())
    assert not any("run it again" in reason for reason in done.refused.values())
    assert [refusal.lasting for refusal in memory.refused.values()] == [False] * len(bad)
    halvings = math.ceil(math.log2(len(texts)))
    assert len(server.arrived) - server.sent[PROBE] <= 1 + 2 * halvings * len(bad)
    assert server.sent[PROBE] <= 1 + halvings * len(bad)


@pytest.mark.parametrize("by", NO_ANSWER.values(), ids=NO_ANSWER)
def test_a_server_that_answers_nothing_gets_one_word_more_and_no_text_is_blamed(
    server: OpenAIServer, embedder: OpenAICompatibleEmbedder, by: Behaviour
) -> None:
    server.script.extend([by] * 1000)
    memory = Memory()
    texts = [f"text {number}" for number in range(200)]
    with pytest.raises(ProviderUnavailable, match=r"gave no answer in .*run it again later"):
        embed_documents_cached(embedder, texts, MemoryCache(), Caller(wait_s=WAIT_S), memory=memory)
    assert server.arrived[-1].texts == [PROBE]
    assert len([arrived for arrived in server.arrived if arrived.texts != [PROBE]]) <= 8, "the tries of one request"
    assert server.sent[PROBE] <= 2
    assert memory.refused == {}


@pytest.mark.parametrize("fails_from", range(1, 7))
def test_a_server_that_goes_away_while_a_text_is_looked_for_blames_no_text_of_that_time(
    server: OpenAIServer, embedder: OpenAICompatibleEmbedder, fails_from: int
) -> None:
    server.script.extend(for_texts_with("deadly", error(500))[:fails_from] + [error(500)] * 1000)
    memory, cache = Memory(), MemoryCache()
    texts = [f"good {number}" for number in range(15)] + ["deadly"]
    with pytest.raises(ProviderUnavailable):
        embed_documents_cached(embedder, texts, cache, Caller(wait_s=WAIT_S), memory=memory)
    assert memory.refused == {}
    assert len(server.arrived) <= fails_from + 2, "a request and a word"


def test_when_only_the_word_is_answered_the_run_ends_soon_and_the_next_one_goes_on_behind_those_it_has_tried(
    server: OpenAIServer, embedder: OpenAICompatibleEmbedder
) -> None:
    server.script.extend(for_texts_with("text", error(500)))
    memory, cache = Memory(), MemoryCache()
    texts = [f"text {number}" for number in range(64)]
    with pytest.raises(ProviderUnavailable, match="of the last 8 texts none had an answer"):
        embed_documents_cached(embedder, texts, cache, Caller(wait_s=WAIT_S), memory=memory)
    assert len(server.arrived) <= 2 * (6 + 2 * 8), "not a request for each text"
    assert len(memory.refused) == 8
    server.script.clear()
    assert embed_documents_cached(embedder, texts, cache, Caller(), memory=memory).embedded == 64 - 8


def test_a_limit_that_is_reached_is_no_texts_fault(server: OpenAIServer, embedder: OpenAICompatibleEmbedder) -> None:
    server.script.extend(for_texts_with("deadly", error(429)))
    memory = Memory()
    with pytest.raises(ProviderUnavailable):
        embed_documents_cached(embedder, ["good", "deadly"], MemoryCache(), Caller(wait_s=WAIT_S), memory=memory)
    assert (len(server.arrived), memory.refused) == (1, {})
