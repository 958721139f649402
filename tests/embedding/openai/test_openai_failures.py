"""What a server answers wrongly, late or not at all: no vector is made up, and nothing is paid for twice."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import numpy as np
import pytest

from rag_assets.embedding.cached import embed_documents_cached
from rag_assets.embedding.protocol import Caller
from rag_assets.embedding.providers.requests import RetryPolicy
from rag_assets.errors import (
    EmbeddingError,
    ProviderRefused,
    ProviderUnavailable,
)
from tests.support.memory_cache import MemoryCache
from tests.support.openai_server import (
    DIMENSIONS,
    Behaviour,
    OpenAIServer,
    body,
    close_in_the_body,
    data,
    drip,
    encoded,
    error,
    reset,
    silence,
    unit_vectors,
    without_usage,
)
from tests.support.openai_world import TEXTS, Make, assert_no_secret


def _change(position: int, **fields: Any) -> Behaviour:
    def change(rows: list[dict[str, Any]]) -> list[Any]:
        rows[position] |= fields
        return rows

    return data(change)


WRONG_ANSWERS: dict[str, tuple[Behaviour, str]] = {
    "one merged vector": (data(lambda rows: rows[:1]), "1 vector for 3 texts"),
    "two of three": (data(lambda rows: rows[:2]), "2 vectors for 3 texts"),
    "four for three": (data(lambda rows: [*rows, rows[0]]), "4 vectors for 3 texts"),
    "one index twice": (_change(2, index=1), "two vectors for text 1"),
    "an index out of range": (_change(2, index=3), "no text"),
    "a negative index": (_change(2, index=-1), "no text"),
    "an index that is no number": (_change(0, index="0"), "no text"),
    "an index that is true": (_change(1, index=True), "no text"),
    "one index missing": (_change(0, index=None), "no text"),
    "NaN as a number": (_change(1, embedding=[float("nan")] * DIMENSIONS), "vector 1 of 3 holds NaN"),
    "NaN in base64": (
        _change(1, embedding=encoded(np.full(DIMENSIONS, np.nan, dtype=np.float32))),
        "vector 1 of 3 holds NaN",
    ),
    "infinity": (_change(1, embedding=[1e999] * DIMENSIONS), "NaN or infinity"),
    "a whole number beyond floats": (_change(1, embedding=[10**400] * DIMENSIONS), "neither numbers nor base64"),
    "zeros": (_change(2, embedding=[0.0] * DIMENSIONS), "vector 2 of 3 is all zeros"),
    "every vector too long": (data(lambda rows: [_longer(row) for row in rows]), "expected 16 dimensions"),
    "one vector too long": (_change(1, embedding=[1.0] * 17), "not one table"),
    "no vector": (_change(0, embedding=None), "neither numbers nor base64"),
    "words for a vector": (_change(0, embedding="the blue envelope"), "neither numbers nor base64"),
    "half a number in base64": (_change(0, embedding="AAAA"), "neither numbers nor base64"),
    "numbers as words": (_change(0, embedding=["1.0"] * DIMENSIONS), "neither numbers nor base64"),
    "an entry that is none": (data(lambda rows: [7, *rows[1:]]), "no text"),
    "no data": (body({"object": "list"}), "of a form that embeddings do not have"),
    "a list for an answer": (body([1, 2]), "of a form that embeddings do not have"),
}


def _longer(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "embedding": [1.0] * (DIMENSIONS * 4)}


@pytest.mark.parametrize("name", WRONG_ANSWERS)
def test_a_wrong_answer_is_refused_without_a_second_payment(server: OpenAIServer, embedder: Make, name: str) -> None:
    behaviour, words = WRONG_ANSWERS[name]
    server.script.append(behaviour)
    with pytest.raises(EmbeddingError, match=words) as caught:
        embedder().embed_documents(TEXTS)
    assert type(caught.value) is EmbeddingError
    assert len(server.arrived) == 1
    assert_no_secret(caught.value)


PASSING: dict[str, Behaviour] = {
    "HTTP 500": error(500),
    "HTTP 503 in HTML": body(b"<html>busy</html>", 503),
    "HTTP 429": error(429, {"retry-after": "0"}, code="rate_limit_exceeded"),
    "a failure with status 200": body({"error": {"code": 502, "message": "upstream"}}),
    "no JSON": body(b'{"data": ['),
    "an empty answer": body(b""),
    "bytes that are no text": body(b"\xff\xfe\xff"),
    "brackets without end": body(b"[" * 200_000),
    "RST": reset,
    "the end in the body": close_in_the_body,
}


@pytest.mark.parametrize("name", PASSING)
def test_a_failure_that_passes_is_tried_again_and_then_given_up(
    server: OpenAIServer, embedder: Make, name: str
) -> None:
    server.script.append(PASSING[name])
    assert np.abs(embedder().embed_documents(TEXTS).vectors - unit_vectors(TEXTS)).max() < 1e-6
    assert len(server.arrived) == 2
    server.script += [PASSING[name]] * 3
    with pytest.raises(ProviderUnavailable, match="3 tries") as caught:
        embedder().embed_documents(TEXTS)
    assert len(server.arrived) == 5
    assert_no_secret(caught.value)


@pytest.mark.parametrize("behaviour", [silence, drip])
def test_a_server_that_never_finishes_is_left_in_time(
    server: OpenAIServer, embedder: Make, behaviour: Behaviour
) -> None:
    server.script += [behaviour] * 9
    with pytest.raises(ProviderUnavailable, match=r"no complete answer|ReadTimeout"):
        embedder(RetryPolicy(deadline_seconds=1, attempts=9, attempt_seconds=0.3, first_wait=0.01)).embed_query("x")
    assert 1 <= len(server.arrived) <= 4, "what the deadline has room for"


REFUSED: dict[str, tuple[Behaviour, str]] = {
    "401": (error(401, code="invalid_api_key"), "does not accept the key: HTTP 401"),
    "403": (error(403), "does not accept the key: HTTP 403"),
    "404": (error(404, code="model_not_found"), "check the model's name"),
    "301": (lambda reply: reply.send(b"", 301, {"Location": "http://127.0.0.1:1/v1/embeddings"}), "HTTP 301"),
    "400 for the dimensions": (error(400, param="dimensions"), "for its dimensions"),
    "400 for the model": (error(400, code="model_not_found"), "for its model_not_found"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_second_try_changes_is_refused_at_once(server: OpenAIServer, embedder: Make, name: str) -> None:
    behaviour, words = REFUSED[name]
    server.script.append(behaviour)
    with pytest.raises(ProviderRefused, match=words) as caught:
        embedder().embed_documents(TEXTS)
    assert len(server.arrived) == 1
    assert_no_secret(caught.value)


@pytest.mark.parametrize("status", [400, 413, 422])
def test_one_text_that_the_server_refuses_does_not_stop_the_others(
    server: OpenAIServer, embedder: Make, status: int
) -> None:
    texts = [f"text {i}" for i in range(8)]

    def refuse_five(reply: Any) -> None:
        wrong = "text 5" in reply.arrived.texts
        (error(status, code="context_length_exceeded") if wrong else without_usage)(reply)

    server.script += [refuse_five] * 50
    answer = embed_documents_cached(embedder(), texts, MemoryCache())
    assert list(answer.refused) == [5]
    assert f"HTTP {status} (context_length_exceeded)" in answer.refused[5]
    others = [i for i in range(8) if i != 5]
    assert np.abs(answer.vectors[others] - unit_vectors([texts[i] for i in others])).max() < 1e-6


def test_a_used_up_quota_is_not_waited_for(server: OpenAIServer, embedder: Make) -> None:
    server.script.append(error(429, {"retry-after": "1"}, code="insufficient_quota", type="insufficient_quota"))
    with pytest.raises(ProviderUnavailable, match="quota of this key is used up") as caught:
        embedder().embed_documents(TEXTS)
    assert len(server.arrived) == 1
    assert_no_secret(caught.value)


class _Gate:
    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []
        self.pauses: list[float] = []

    def acquire(self, items: int, tokens: int) -> None:
        self.asked.append((items, tokens))

    def throttled(self, seconds: float) -> None:
        self.pauses.append(seconds)


HINTS: dict[str, tuple[dict[str, str], float]] = {
    "seconds": ({"retry-after": "1"}, 1),
    "a date": ({"retry-after": ""}, 1),
    "milliseconds": ({"retry-after-ms": "700", "retry-after": "30"}, 0.7),
    "OpenAI's limits": (
        {
            "x-ratelimit-remaining-requests": "0",
            "x-ratelimit-reset-requests": "600ms",
            "x-ratelimit-remaining-tokens": "99",
            "x-ratelimit-reset-tokens": "6m0s",
        },
        0.6,
    ),
}


@pytest.mark.parametrize("name", HINTS)
def test_bug_46_a_pause_is_kept_as_told_and_only_that_batch_is_sent_again(
    server: OpenAIServer, embedder: Make, name: str
) -> None:
    headers, seconds = HINTS[name]
    if name == "a date":
        headers = {"retry-after": format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)}
    texts, gate = [f"text {i}" for i in range(10)], _Gate()
    server.script += [without_usage, without_usage, error(429, headers)]
    started = time.monotonic()
    answer = embed_documents_cached(embedder(), texts, MemoryCache(), Caller("acme", "help", gate), batch_size=2)
    assert answer.embedded == 10
    assert time.monotonic() - started > seconds * 0.9
    assert {text: count for text, count in server.sent.items() if count > 1} == {"text 4": 2, "text 5": 2}
    assert len(gate.asked) == 6, "the gate is asked before each attempt, also the second of one batch"
    assert len(gate.pauses) == 1
    assert seconds * 0.5 < gate.pauses[0] <= 2


def test_a_pause_beyond_the_deadline_ends_the_run_with_all_that_came_before_kept(
    server: OpenAIServer, embedder: Make
) -> None:
    server.script += [without_usage, error(429, {"retry-after": "3600"})]
    cache = MemoryCache()
    with pytest.raises(ProviderUnavailable, match="asks for a pause of 3"):
        embed_documents_cached(embedder(), [f"text {i}" for i in range(6)], cache, batch_size=2)
    assert len(cache) == 2
    embed_documents_cached(embedder(), [f"text {i}" for i in range(6)], cache, batch_size=2)
    assert server.sent["text 0"] == 1
    assert len(cache) == 6
