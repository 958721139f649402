"""The key and the texts appear where they belong, and no variable of the environment changes where they go."""

from __future__ import annotations

import gc
import logging
import pickle
from dataclasses import replace

import pytest

from rag_assets.errors import EmbeddingError, ProviderRefused, UsageError
from tests.support.embed_world import everything_said
from tests.support.google_server import (
    KEY,
    Behaviour,
    GoogleServer,
    body,
    close_in_the_body,
    drip,
    embed,
    error,
    google_embedder,
    google_profile,
    patience,
    reset,
    retry_info,
    rows,
)

TEXT = "the-tenants-own-words"


BAD: dict[str, Behaviour] = {
    "400": error(400, "INVALID_ARGUMENT"),
    "400 that names the text as its status": error(400, TEXT),
    "401": error(401, "UNAUTHENTICATED"),
    "404": error(404, "NOT_FOUND"),
    "429": error(429, "RESOURCE_EXHAUSTED", retry_info("0.01s")),
    "500": error(500, "INTERNAL"),
    "body as text": body(f"{KEY} {TEXT}".encode(), 503),
    "200 no JSON": body(f"{KEY} {TEXT}".encode()),
    "200 words for numbers": rows(lambda right: [[TEXT, KEY]]),
    "RST": reset,
    "cut": close_in_the_body,
    "drip": drip,
    "too few": rows(lambda right: []),
}


@pytest.mark.parametrize("behaviour", BAD.values(), ids=BAD)
@pytest.mark.parametrize("side", ["documents", "query"])
def test_no_error_and_no_log_line_holds_the_key_or_a_text(
    server: GoogleServer, caplog: pytest.LogCaptureFixture, behaviour: Behaviour, side: str
) -> None:
    server.script.extend([behaviour] * 10)
    policy = replace(patience(behaviour), attempts=2)
    with caplog.at_level(logging.DEBUG), google_embedder(documents=policy, queries=policy) as embedder:
        with pytest.raises(EmbeddingError) as caught:
            _ = embedder.embed_query(TEXT) if side == "query" else embedder.embed_documents([TEXT])
        assert KEY not in repr(vars(embedder))
    logged = "\n".join(f"{record.getMessage()} {vars(record)}" for record in caplog.records)
    assert "httpcore" in logged, "the test has to see the lowest level"
    for what in (KEY, TEXT):
        assert what not in everything_said(caught.value)
        assert what not in logged


def test_success_is_logged_without_them_too(server: GoogleServer, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), google_embedder() as embedder:
        answer = embedder.embed_documents([TEXT])
        embedder.embed_query(TEXT)
    logged = "\n".join(f"{record.getMessage()} {vars(record)}" for record in caplog.records)
    assert KEY not in logged
    assert TEXT not in logged
    assert TEXT not in repr(answer)
    assert server.embeds[0].headers["x-goog-api-key"] == KEY, "or the search proves nothing"


def test_an_embedder_that_holds_a_key_cannot_be_pickled(server: GoogleServer) -> None:
    with google_embedder() as embedder:
        embedder.embed_query("ask")
        with pytest.raises(TypeError):
            pickle.dumps(embedder)


@pytest.mark.parametrize("blank", ["", "  ", "\n"])
def test_a_blank_key_is_refused_and_not_replaced_by_another(
    server: GoogleServer, monkeypatch: pytest.MonkeyPatch, blank: str
) -> None:
    monkeypatch.setenv("TENANT_KEY", blank)
    monkeypatch.setenv("GOOGLE_API_KEY", "AIza-of-somebody-else")
    with google_embedder(google_profile(options={"key_env": "TENANT_KEY"})) as embedder:
        for embed_one in (embedder.embed_query, lambda text: embedder.embed_documents([text])):
            with pytest.raises(ProviderRefused, match="needs a key: set TENANT_KEY"):
                embed_one("ask")
    assert server.arrived == []


def test_the_profiles_own_key_is_sent_whatever_else_is_set(
    server: GoogleServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENANT_KEY", "AIza-of-the-tenant")
    monkeypatch.setenv("GOOGLE_API_KEY", "AIza-of-somebody-else")
    with google_embedder(google_profile(options={"key_env": "TENANT_KEY"})) as embedder:
        embedder.embed_query("ask")
    assert server.embeds[0].headers["x-goog-api-key"] == "AIza-of-the-tenant"


@pytest.mark.parametrize("names", [["GEMINI_API_KEY"], ["GOOGLE_API_KEY"], ["GEMINI_API_KEY", "GOOGLE_API_KEY"]])
def test_either_of_googles_names_will_do(
    server: GoogleServer, monkeypatch: pytest.MonkeyPatch, names: list[str]
) -> None:
    monkeypatch.delenv("GEMINI_API_KEY")
    for name in names:
        monkeypatch.setenv(name, f"AIza-{name}")
    with google_embedder() as embedder:
        embedder.embed_query("ask")
    assert server.embeds[0].headers["x-goog-api-key"] == f"AIza-{names[0]}"


def test_the_key_that_was_set_after_a_refusal_is_found(server: GoogleServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GEMINI_API_KEY")
    with google_embedder() as embedder:
        with pytest.raises(ProviderRefused, match="set GEMINI_API_KEY or GOOGLE_API_KEY"):
            embedder.embed_query("ask")
        monkeypatch.setenv("GEMINI_API_KEY", KEY)
        embedder.embed_query("ask")
    assert len(server.embeds) == 1


FLIPS = {
    "GOOGLE_GENAI_USE_VERTEXAI": "1",
    "GOOGLE_GENAI_USE_ENTERPRISE": "true",
    "GOOGLE_GENAI_API_VERSION": "v1alpha",
    "GOOGLE_GENAI_HTTP_CLIENT": "httpx",
    "GOOGLE_GENAI_CLIENT_MODE": "replay",
    "GOOGLE_CLOUD_PROJECT": "some-project",
    "HTTP_PROXY": "http://127.0.0.1:9",
    "ALL_PROXY": "http://127.0.0.1:9",
}


@pytest.mark.parametrize("name", FLIPS)
def test_no_variable_of_the_environment_sends_requests_elsewhere(
    server: GoogleServer, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, FLIPS[name])
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", "somewhere")
    server.script.extend([error(503), embed])
    with google_embedder() as embedder:
        embedder.embed_documents(["a"])
    assert [arrived.path for arrived in server.arrived] == ["/v1beta/models/gemini-embedding-2:batchEmbedContents"] * 2


@pytest.mark.parametrize("address", ["ftp://example.org", "example.org", "http://"])
def test_an_address_that_is_none_is_refused_before_a_key_is_sent(
    server: GoogleServer, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", address)
    with google_embedder() as embedder, pytest.raises(UsageError, match="GOOGLE_GEMINI_BASE_URL is no"):
        embedder.embed_query("ask")


def test_the_client_outlives_a_garbage_collection(server: GoogleServer) -> None:
    with google_embedder() as embedder:
        embedder.embed_query("ask")
        gc.collect()
        embedder.embed_query("ask")
    assert len(server.embeds) == 2
