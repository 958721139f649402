from __future__ import annotations

import logging
import pickle

import numpy as np
import pytest

from rag_assets.embedding.protocol import Caller
from rag_assets.embedding.providers.openai import OpenAICompatibleEmbedder, address_of
from rag_assets.embedding.providers.openai_http import _duration
from rag_assets.errors import (
    InvalidProfile,
    ProviderRefused,
    ProviderUnavailable,
    TextRefused,
)
from tests.support.openai_server import (
    DIMENSIONS,
    OpenAIServer,
    data,
    encoded,
    error,
    reset,
    unit_vectors,
    vector_of,
    without_usage,
)
from tests.support.openai_world import KEY, QUICK, TEXTS, Make, profile


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
