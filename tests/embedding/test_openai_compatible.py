from __future__ import annotations

import logging
import pickle
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import numpy as np
import pytest

from rag_assets.embedding.cached import MemoryCache, embed_documents_cached
from rag_assets.embedding.profiles import EmbeddingProfile, make_profile
from rag_assets.embedding.protocol import Caller
from rag_assets.embedding.providers.openai import OpenAICompatibleEmbedder, address_of
from rag_assets.embedding.providers.openai_http import _duration
from rag_assets.embedding.providers.requests import RetryPolicy
from rag_assets.errors import (
    EmbeddingError,
    InvalidProfile,
    ProviderRefused,
    ProviderUnavailable,
    TextRefused,
)
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
    openai_server,
    reset,
    silence,
    unit_vectors,
    vector_of,
    without_usage,
)

KEY = "sk-stand-in-0123456789"
TEXTS = ["How do I return a parcel?", "the blue envelope of tenant seven", "日本語 🙂"]
QUICK = RetryPolicy(deadline_seconds=30, attempts=3, attempt_seconds=10, first_wait=0.02, longest_wait=0.1)
Make = Callable[..., OpenAICompatibleEmbedder]


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with openai_server() as running:
        yield running


def profile(url: str | None, model: str = "plain", dimensions: int = DIMENSIONS, **fields: Any) -> EmbeddingProfile:
    options = {**({"base_url": url} if url else {}), **fields.pop("options", {})}
    return make_profile(
        name="p", provider="openai-compatible", model=model, dimensions=dimensions, options=options, **fields
    )


@pytest.fixture
def embedder(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Makes embedders that ask the stand-in with a key, and give up soon."""
    monkeypatch.setenv("STAND_IN_KEY", KEY)
    made = []

    def make(policy: RetryPolicy = QUICK, **fields: Any) -> OpenAICompatibleEmbedder:
        options = {"key_env": "STAND_IN_KEY", **fields.pop("options", {})}
        made.append(OpenAICompatibleEmbedder(profile(server.url, options=options, **fields), policy, policy))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.parametrize("form", ["float", "base64"])
def test_each_text_gets_its_own_vector_at_unit_length(server: OpenAIServer, embedder: Make, form: str) -> None:
    answer = embedder(options={"encoding_format": form}).embed_documents(TEXTS, Caller("acme", "help"))
    assert answer.vectors.dtype == np.float32
    assert np.abs(answer.vectors - unit_vectors(TEXTS)).max() < 1e-6
    assert (answer.usage.tenant, answer.usage.bot, answer.usage.items, answer.usage.tokens) == ("acme", "help", 3, 21)
    (arrived,) = server.arrived
    assert arrived.path == "/v1/embeddings"
    assert arrived.body == {"model": "plain", "input": TEXTS, "encoding_format": form}
    assert arrived.headers["authorization"] == f"Bearer {KEY}"


def test_either_form_of_a_vector_is_read_whatever_was_asked_for(server: OpenAIServer, embedder: Make) -> None:
    server.script += [
        data(lambda rows: [{**row, "embedding": encoded(vector_of(t))} for row, t in zip(rows, TEXTS, strict=True)]),
        data(lambda rows: [{**row, "embedding": vector_of(t).tolist()} for row, t in zip(rows, TEXTS, strict=True)]),
    ]
    for form in ("float", "base64"):
        vectors = embedder(options={"encoding_format": form}).embed_documents(TEXTS).vectors
        assert np.abs(vectors - unit_vectors(TEXTS)).max() < 1e-6
    assert not server.script


def test_vectors_are_placed_by_their_index_and_without_one_by_their_place(server: OpenAIServer, embedder: Make) -> None:
    server.script += [
        data(lambda rows: rows[::-1]),
        data(lambda rows: [{"embedding": row["embedding"]} for row in rows]),
    ]
    for _ in range(2):
        assert np.abs(embedder().embed_documents(TEXTS).vectors - unit_vectors(TEXTS)).max() < 1e-6


def _change(position: int, **fields: Any) -> Behaviour:
    def change(rows: list[dict[str, Any]]) -> list[Any]:
        rows[position] |= fields
        return rows

    return data(change)


WRONG_ANSWERS: dict[str, tuple[Behaviour, str]] = {
    "one merged vector": (data(lambda rows: rows[:1]), "1 vectors for 3 texts"),
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
def test_a_wrong_answer_is_refused_without_a_second_payment_and_nothing_is_stored(
    server: OpenAIServer, embedder: Make, name: str
) -> None:
    behaviour, words = WRONG_ANSWERS[name]
    server.script.append(behaviour)
    cache = MemoryCache()
    with pytest.raises(EmbeddingError, match=words) as caught:
        embed_documents_cached(embedder(), TEXTS, cache)
    assert not isinstance(caught.value, ProviderUnavailable | TextRefused)
    assert len(server.arrived) == 1
    assert len(cache) == 0
    _holds_no_secret(caught.value)


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
    _holds_no_secret(caught.value)


@pytest.mark.parametrize("behaviour", [silence, drip])
def test_a_server_that_never_finishes_is_left_in_time(
    server: OpenAIServer, embedder: Make, behaviour: Behaviour
) -> None:
    server.script += [behaviour] * 9
    started = time.monotonic()
    with pytest.raises(ProviderUnavailable, match="no complete answer"):
        embedder(RetryPolicy(deadline_seconds=1, attempts=9, attempt_seconds=0.3, first_wait=0.01)).embed_query("x")
    assert 0.5 < time.monotonic() - started < 10


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
    _holds_no_secret(caught.value)


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
    _holds_no_secret(caught.value)


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
    assert seconds * 0.9 < time.monotonic() - started < seconds + 10
    assert {text: count for text, count in server.sent.items() if count > 1} == {"text 4": 2, "text 5": 2}
    assert len(gate.asked) == 6, "the gate is asked before each attempt, also the second of one batch"
    assert len(gate.pauses) == 1
    assert seconds * 0.5 < gate.pauses[0] <= 2


def test_a_pause_beyond_the_deadline_ends_the_run_with_all_that_came_before_kept(
    server: OpenAIServer, embedder: Make
) -> None:
    server.script += [without_usage, error(429, {"retry-after": "3600"})]
    cache, started = MemoryCache(), time.monotonic()
    with pytest.raises(ProviderUnavailable, match="asks for a pause of 3"):
        embed_documents_cached(embedder(), [f"text {i}" for i in range(6)], cache, batch_size=2)
    assert time.monotonic() - started < 10
    assert len(cache) == 2
    embed_documents_cached(embedder(), [f"text {i}" for i in range(6)], cache, batch_size=2)
    assert server.sent["text 0"] == 1
    assert len(cache) == 6


def test_a_long_text_is_sent_in_windows_that_surely_fit_and_averaged_by_length(
    server: OpenAIServer, embedder: Make
) -> None:
    text = "Umtausch und Rückgabe sind binnen 30 Tagen möglich. " * 40
    answer = embedder(model="e5-x", options={"max_input_tokens": 512}).embed_documents(["short", text])
    sent = server.arrived[0].texts
    assert sent[0] == "passage: short"
    assert len(sent) > 4
    assert all(part.startswith("passage: ") and len(part.encode()) <= 512 for part in sent)
    parts = [part.removeprefix("passage: ") for part in sent[1:]]
    assert "".join(parts) == text
    mean = np.array([len(part.encode()) for part in parts]) @ unit_vectors(sent[1:])
    assert np.abs(answer.vectors[1] - mean / np.linalg.norm(mean)).max() < 1e-6
    assert np.abs(answer.vectors[0] - unit_vectors(["passage: short"])[0]).max() < 1e-6
    assert answer.usage.items == len(sent)


def test_without_a_known_limit_a_text_is_sent_whole(server: OpenAIServer, embedder: Make) -> None:
    embedder().embed_documents(["word " * 20_000])
    assert server.arrived[0].texts == ["word " * 20_000]


def test_a_search_text_longer_than_any_question_is_refused_unsent(server: OpenAIServer, embedder: Make) -> None:
    with pytest.raises(TextRefused, match="too long"):
        embedder(options={"max_input_tokens": 64}).embed_query("word " * 500)
    assert server.arrived == []


def test_a_limit_without_room_beside_the_prefix_is_refused(server: OpenAIServer, embedder: Make) -> None:
    with pytest.raises(InvalidProfile, match="leaves no room"):
        embedder(model="e5-x", options={"max_input_tokens": 20})


def test_a_family_has_its_prefixes_unless_the_server_is_told_the_role(server: OpenAIServer, embedder: Make) -> None:
    embedder(model="multilingual-e5-small").embed_query("refunds")
    told = embedder(model="multilingual-e5-small", options={"input_type": {"query": "query", "document": "passage"}})
    told.embed_query("refunds")
    told.embed_documents(["refunds"])
    by_prefix, query, document = (arrived.body for arrived in server.arrived)
    assert (by_prefix["input"], "input_type" in by_prefix) == (["query: refunds"], False)
    assert (query["input"], query["input_type"]) == (["refunds"], "query")
    assert (document["input"], document["input_type"]) == (["refunds"], "passage")


def test_dimensions_are_sent_to_models_that_can_shorten_and_to_others_only_when_told(
    server: OpenAIServer, embedder: Make
) -> None:
    embedder(model="text-embedding-3-small", dimensions=32).embed_query("x")
    embedder(options={"send_dimensions": True}, dimensions=24).embed_query("x")
    embedder().embed_query("x")
    assert [arrived.body.get("dimensions") for arrived in server.arrived] == [32, 24, None]


def test_usage_is_the_servers_count_or_an_estimate_and_costs_what_the_registry_says(
    server: OpenAIServer, embedder: Make
) -> None:
    three = embedder(model="text-embedding-3-small", dimensions=DIMENSIONS)
    told = three.embed_documents(TEXTS).usage
    server.script += [without_usage]
    estimated = three.embed_documents(TEXTS).usage
    assert told.tokens == 21
    assert told.cost_usd == pytest.approx(21 * 0.02 / 1e6)
    assert estimated.tokens == sum(-(-len(text.encode()) // 4) for text in TEXTS)


def test_more_texts_than_a_request_may_have_are_sent_in_several(server: OpenAIServer, embedder: Make) -> None:
    texts = [f"text {i}" for i in range(70)]
    one = embedder()
    assert one.batch_items == 32
    assert np.abs(one.embed_documents(texts).vectors - unit_vectors(texts)).max() < 1e-6
    assert [len(arrived.texts) for arrived in server.arrived] == [32, 32, 6]
    assert one.embed_documents([]).vectors.shape == (0, DIMENSIONS)


def test_a_blank_text_is_refused_unsent(server: OpenAIServer, embedder: Make) -> None:
    for texts in (["hi", " ", "there"], ["\ud800"]):
        with pytest.raises(TextRefused):
            embedder().embed_documents(texts)
    assert server.arrived == []


def test_no_key_is_sent_to_an_address_that_a_profile_names_unless_the_profile_names_the_key(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    by_profile = OpenAICompatibleEmbedder(profile(server.url), QUICK, QUICK)
    by_profile.embed_query("x")
    server.script.append(error(401))
    with pytest.raises(ProviderRefused, match="was sent none: name its variable in the profile's key_env"):
        by_profile.embed_query("x")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url + "/")
    by_environment = OpenAICompatibleEmbedder(profile(None), QUICK, QUICK)
    by_environment.embed_query("x")
    assert [arrived.headers.get("authorization") for arrived in server.arrived] == [None, None, f"Bearer {KEY}"]
    by_profile.close()
    by_environment.close()


def test_openai_itself_is_not_asked_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    address = address_of(profile(None, "text-embedding-3-small"))
    assert address.base_url == "https://api.openai.com/v1"
    with pytest.raises(ProviderRefused, match="needs a key: set OPENAI_API_KEY"):
        address.find_key()
    with pytest.raises(ProviderRefused, match="needs a key: set MISSING_KEY"):
        address_of(profile("http://localhost:1/v1", options={"key_env": "MISSING_KEY"})).find_key()
    monkeypatch.setenv("OPENAI_BASE_URL", "https://user:secret@localhost/v1")
    with pytest.raises(ProviderRefused, match="OPENAI_BASE_URL is no plain") as caught:
        address_of(profile(None))
    assert "secret" not in str(caught.value)


def test_a_proxy_of_the_environment_does_not_get_what_stays_on_this_machine(
    server: OpenAIServer, embedder: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    embedder().embed_query("x")
    assert len(server.arrived) == 1


def test_a_model_with_the_ending_of_a_chat_model_is_accepted_where_its_family_embeds() -> None:
    assert profile(None, "intfloat/multilingual-e5-large-instruct", 1024).model_info.kind == "embedding"
    assert profile(None, "Alibaba-NLP/gte-Qwen2-7B-instruct", 3584).model_info.kind == "embedding"
    with pytest.raises(InvalidProfile, match="generates text"):
        profile(None, "mistral-7b-instruct")


def test_the_way_of_sending_does_not_change_the_model_key_but_the_role_in_a_field_does() -> None:
    plain = profile("http://a/v1")
    assert profile("http://a/v1", options={"encoding_format": "base64"}).model_key == plain.model_key
    assert profile("http://a/v1", options={"input_type": {"query": "query"}}).model_key != plain.model_key
    assert profile("http://b/v1").model_key != plain.model_key


def test_neither_key_nor_text_is_in_logs_or_pickles(
    server: OpenAIServer, embedder: Make, caplog: pytest.LogCaptureFixture
) -> None:
    server.script += [error(500), reset, error(500)]
    with caplog.at_level(logging.DEBUG), pytest.raises(ProviderUnavailable) as caught:
        embedder().embed_documents(TEXTS)
    assert KEY not in caplog.text
    assert "blue envelope" not in caplog.text
    assert KEY.encode() not in pickle.dumps(caught.value)
    with pytest.raises((TypeError, AttributeError)):
        pickle.dumps(embedder())


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("1s", 1), ("20ms", 0.02), ("6m0s", 360), ("1h2m3.5s", 3723.5), ("5m", 300), ("", None), ("soon", None)],
)
def test_openais_durations_are_read(value: str, seconds: float | None) -> None:
    assert _duration(value) == seconds


def _holds_no_secret(error: BaseException) -> None:
    told = "".join(traceback.format_exception(error))
    seen: BaseException | None = error
    while seen is not None:
        told += repr(vars(seen)) + repr(seen.args)
        seen = seen.__context__
    for secret in (KEY, "blue envelope", "stand-in:"):
        assert secret not in told
