"""What the embedder does when the server misbehaves: each row with the requests counted."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rag_assets.embedding.cached import embed_documents_cached
from rag_assets.embedding.protocol import Caller
from rag_assets.embedding.providers.requests import FOR_QUERIES
from rag_assets.errors import EmbeddingError, ProviderRefused, ProviderUnavailable, TextRefused
from tests.support.google_server import (
    IMPATIENT,
    Behaviour,
    Gate,
    GoogleServer,
    body,
    close_early,
    close_in_the_body,
    drip,
    embed,
    error,
    error_info,
    google_embedder,
    google_profile,
    google_server,
    patience,
    quota_failure,
    reset,
    retry_info,
    rows,
    silence,
    unit_vectors,
)
from tests.support.memory_cache import MemoryCache

PREFIX = "title: none | text: "


PASSING: dict[str, Behaviour] = {
    "408": error(408),
    "429": error(429, "RESOURCE_EXHAUSTED"),
    "429 with RetryInfo": error(429, "RESOURCE_EXHAUSTED", retry_info("0.02s")),
    "429 with Retry-After": error(429, "RESOURCE_EXHAUSTED", headers={"Retry-After": "0"}),
    "429 per minute": error(429, "RESOURCE_EXHAUSTED", quota_failure("EmbedContentRequestsPerMinutePerProject")),
    "500": error(500, "INTERNAL"),
    "503": error(503, "UNAVAILABLE"),
    "503 in HTML": body(b"<html><h1>Service Unavailable</h1></html>", 503),
    "503 in no encoding": body(b"\xff\xfe\x00", 503),
    "201": error(201),
    "200 with broken JSON": body(b'{"embeddings": [{"val'),
    "200 in HTML": body(b"<html>Please log in</html>"),
    "200 in no encoding": body(b"\xff\xfe\x00"),
    "200 with an odd form": body(b'{"embeddings": 3}'),
    "RST": reset,
    "closed before the answer": close_early,
    "closed in the body": close_in_the_body,
    "silent": silence,
    "dripping": drip,
}


@pytest.mark.parametrize("behaviour", PASSING.values(), ids=PASSING)
def test_what_may_pass_is_tried_again_and_then_embedded(server: GoogleServer, behaviour: Behaviour) -> None:
    server.script.extend([behaviour, behaviour])
    gate = Gate()
    with google_embedder(documents=patience(behaviour)) as embedder:
        vectors = embedder.embed_documents(["a", "b"], Caller(gate=gate)).vectors
    assert np.allclose(vectors, unit_vectors([PREFIX + "a", PREFIX + "b"], 768), atol=1e-6)
    assert len(server.embeds) == 3
    assert len(gate.asked) == 3, "a repeated request counts against the limits too"
    assert server.paid == {PREFIX + "a": 1, PREFIX + "b": 1}


@pytest.mark.parametrize("behaviour", PASSING.values(), ids=PASSING)
def test_what_does_not_pass_ends_in_a_number_of_tries_that_is_known(server: GoogleServer, behaviour: Behaviour) -> None:
    server.script.extend([behaviour] * 20)
    told = r"google/gemini-embedding-2 gave no answer in 3 tries: .*again"
    policy = replace(patience(behaviour), attempts=3)
    with google_embedder(documents=policy) as embedder, pytest.raises(ProviderUnavailable, match=told):
        embedder.embed_documents(["a"])
    assert len(server.embeds) == 3


@pytest.mark.parametrize(
    "behaviour",
    [embed, error(503), reset, drip, silence, error(429)],
    ids=["an answer", "503", "closed", "dripping", "silent", "429"],
)
def test_a_query_takes_two_requests_at_most(server: GoogleServer, behaviour: Behaviour) -> None:
    server.script.extend([error(503), behaviour, behaviour])
    with google_embedder(queries=replace(patience(behaviour), attempts=2)) as embedder:
        if behaviour is embed:
            assert embedder.embed_query("ask").vectors.shape == (1, 768)
        else:
            with pytest.raises(ProviderUnavailable):
                embedder.embed_query("ask")
    assert len(server.embeds) == 2


def test_a_query_does_not_wait_for_a_pause_that_is_longer_than_somebody_waits(server: GoogleServer) -> None:
    server.script.append(error(429, "RESOURCE_EXHAUSTED", retry_info("30s")))
    with google_embedder(queries=FOR_QUERIES) as embedder, pytest.raises(ProviderUnavailable, match="pause of 30 s"):
        embedder.embed_query("ask")
    assert len(server.embeds) == 1


def test_a_body_that_drips_is_given_up_and_not_read_on_in_the_background(server: GoogleServer) -> None:
    server.script.append(drip)
    with google_embedder(documents=replace(IMPATIENT, attempts=1)) as embedder:
        with pytest.raises(ProviderUnavailable, match=r"no complete answer|ReadTimeout"):
            embedder.embed_documents(["a"])
        assert server.hung_up.wait(10)


def test_nobody_listening_is_reported_without_an_endless_wait(
    server: GoogleServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:9")  # the port "discard", which nothing serves
    with google_embedder() as embedder, pytest.raises(ProviderUnavailable, match=r"4 tries: .*ConnectError"):
        embedder.embed_documents(["a"])


def test_the_pause_of_retry_info_is_passed_to_the_gate(server: GoogleServer) -> None:
    server.script.append(error(429, "RESOURCE_EXHAUSTED", quota_failure("PerMinute"), retry_info("0.04s")))
    server.script.append(error(503, "UNAVAILABLE", headers={"Retry-After": "0"}))
    gate = Gate()
    with google_embedder() as embedder:
        embedder.embed_documents(["a"], Caller(gate=gate))
    assert gate.pauses == [0.04, 0]


def test_a_limit_hit_at_batch_3_of_5_resends_only_that_one(server: GoogleServer) -> None:
    limited = error(429, "RESOURCE_EXHAUSTED", retry_info("0.01s"))
    server.script.extend([embed, embed, limited, embed, embed, embed])
    texts = [f"text {number}" for number in range(450)]
    with google_embedder() as embedder:
        vectors = embedder.embed_documents(texts).vectors
    assert [arrived.texts[0] for arrived in server.embeds] == [
        PREFIX + f"text {start}" for start in (0, 100, 200, 200, 300, 400)
    ]
    assert server.paid == {PREFIX + text: 1 for text in texts}
    assert np.allclose(vectors, unit_vectors([PREFIX + text for text in texts], 768), atol=1e-6)


def test_a_used_up_quota_of_the_day_is_not_tried_again(server: GoogleServer) -> None:
    quota = quota_failure("EmbedContentRequestsPerDayPerProjectPerModel-FreeTier")
    server.script.append(error(429, "RESOURCE_EXHAUSTED", quota, retry_info("20s")))
    with google_embedder() as embedder, pytest.raises(ProviderUnavailable, match="quota of this day"):
        embedder.embed_documents(["a"])
    assert len(server.embeds) == 1


LASTING: dict[str, tuple[Behaviour, type[EmbeddingError]]] = {
    "400": (error(400, "INVALID_ARGUMENT"), TextRefused),
    "413": (error(413), TextRefused),
    "400 for the key": (error(400, "INVALID_ARGUMENT", error_info("API_KEY_INVALID")), ProviderRefused),
    "400 for the place": (error(400, "FAILED_PRECONDITION"), ProviderRefused),
    "401": (error(401, "UNAUTHENTICATED"), ProviderRefused),
    "403": (error(403, "PERMISSION_DENIED"), ProviderRefused),
    "404": (error(404, "NOT_FOUND"), ProviderRefused),
    "405": (error(405), ProviderRefused),
}


@pytest.mark.parametrize(("behaviour", "kind"), LASTING.values(), ids=LASTING)
def test_a_refusal_is_not_tried_again(server: GoogleServer, behaviour: Behaviour, kind: type[EmbeddingError]) -> None:
    server.script.append(behaviour)
    with google_embedder() as embedder, pytest.raises(kind, match="google/gemini-embedding-2") as caught:
        embedder.embed_documents(["a", "b"])
    assert type(caught.value) is kind
    assert len(server.embeds) == 1


WRONG: dict[str, tuple[Behaviour, str]] = {
    "merged into one": (rows(lambda right: [right[0]]), "1 vector for 3 texts"),
    "one missing": (rows(lambda right: right[:2]), "2 vectors for 3 texts"),
    "one too many": (rows(lambda right: [*right, right[0]]), "4 vectors for 3 texts"),
    "none at all": (rows(lambda right: []), "0 vectors for 3 texts"),
    "empty body": (body(b""), "0 vectors for 3 texts"),
    "empty object": (body(b"{}"), "0 vectors for 3 texts"),
    "no embeddings": (body(b'{"embeddings": null}'), "0 vectors for 3 texts"),
    "no values": (rows(lambda right: [right[0], None, right[2]]), "no vector for text 1 of 3"),
    "empty values": (rows(lambda right: [right[0], right[1], []]), "no vector for text 2 of 3"),
    "bare objects": (body(b'{"embeddings": [{}, {}, {}]}'), "no vector for text 0 of 3"),
    "3072 for 768": (rows(lambda right: [row * 4 for row in right]), "expected 768 dimensions, .* 3072"),
    "one row shorter": (rows(lambda right: [right[0], right[1][:-1], right[2]]), "not one table"),
    "NaN": (rows(lambda right: [right[0], [math.nan, *right[1][1:]], right[2]]), "vector 1 of 3 holds NaN"),
    "infinity": (rows(lambda right: [right[0], right[1], [math.inf, *right[2][1:]]]), "vector 2 of 3 holds"),
    "zeros": (rows(lambda right: [[0.0] * 768, *right[1:]]), "vector 0 of 3 is all zeros"),
    "words": (rows(lambda right: [["a"] * 768, *right[1:]]), "a form that embeddings do not have"),
    "a wrong type": (rows(lambda right: [3, *right[1:]]), "a form that embeddings do not have"),
}  # fmt: skip


@pytest.mark.parametrize(("behaviour", "told"), WRONG.values(), ids=WRONG)
def test_wrong_vectors_are_refused_and_not_paid_for_again(
    server: GoogleServer, behaviour: Behaviour, told: str
) -> None:
    server.script.append(behaviour)
    with google_embedder() as embedder, pytest.raises(EmbeddingError, match=told) as caught:
        embedder.embed_documents(["a", "b", "c"])
    assert type(caught.value) is EmbeddingError
    assert len(server.embeds) == 1


def refuse_if(bad: Callable[[str], bool]) -> Behaviour:
    def behave(reply: Any) -> None:
        behaviour = error(400, "INVALID_ARGUMENT") if any(map(bad, reply.arrived.texts)) else embed
        behaviour(reply)

    return behave


def test_one_refused_text_of_a_hundred_is_found_and_the_others_are_paid_for_once(server: GoogleServer) -> None:
    server.script.extend([refuse_if(lambda text: text.endswith(" 61"))] * 50)
    texts, cache = [f"text {number}" for number in range(100)], MemoryCache()
    with google_embedder() as embedder:
        done = embed_documents_cached(embedder, texts, cache)
    assert list(done.refused) == [61]
    assert len(cache) == 99
    assert server.paid == {PREFIX + text: 1 for text in texts if text != "text 61"}


def test_a_run_that_failed_goes_on_at_the_batch_that_failed(server: GoogleServer) -> None:
    server.script.extend([embed, embed, *[error(503)] * 6])  # four tries, and two with a plain word
    texts, cache = [f"text {number}" for number in range(350)], MemoryCache()
    with google_embedder() as embedder:
        with pytest.raises(ProviderUnavailable):
            embed_documents_cached(embedder, texts, cache)
        assert len(cache) == 200
        embed_documents_cached(embedder, texts, cache)
    assert server.paid == {PREFIX + text: 1 for text in texts}


def test_a_redirect_is_not_followed_to_another_host(server: GoogleServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with google_server(monkeypatch) as thief:
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
        server.script.append(error(307, headers={"Location": f"{thief.url}/v1beta/models/x:batchEmbedContents"}))
        with google_embedder() as embedder, pytest.raises(ProviderRefused, match="HTTP 307"):
            embedder.embed_documents(["a"])
    assert thief.arrived == []


def test_model_001_behaves_alike(server: GoogleServer) -> None:
    server.script.extend([error(503), rows(lambda right: right[:1])])
    profile = google_profile("gemini-embedding-001")
    with google_embedder(profile) as embedder, pytest.raises(EmbeddingError, match="1 vector for 2 texts"):
        embedder.embed_documents(["a", "b"])
    assert len(server.embeds) == 2
