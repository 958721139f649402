"""Reranking servers in three forms: what they are asked, and what becomes of answers that no server should give."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rag_assets.embedding.protocol import NOBODY
from rag_assets.errors import EmbeddingError, InvalidArgument, ProviderRefused
from rag_assets.retrieval import RerankedRetriever
from rag_assets.retrieval.files import load_retriever
from rag_assets.retrieval.rerankers.server import ServerReranker
from rag_assets.store.database import Database
from tests.support import openai_server as stand_in
from tests.support.openai_server import Behaviour, OpenAIServer, Reply, openai_server
from tests.support.passages import SCOPE, Fixed, Search, awaited, blocking, result

faces = pytest.mark.parametrize("search", [blocking, awaited])
KEY = "sk-stand-in-0123456789"
SHAPES: list[Any] = ["cohere", "jina", "tei"]
CANDIDATES = [result(number) for number in range(6)]


def texts_of(reply: Reply) -> list[str]:
    texts: list[str] = reply.arrived.body.get("documents") or reply.arrived.body["texts"]
    return texts


def share(text: str) -> float:
    """What the stand-in thinks of a passage: more of one with a higher number."""
    return int(text.split()[-1]) / 100


def form(reply: Reply, pairs: list[tuple[Any, Any]]) -> Any:
    if "texts" in reply.arrived.body:
        return [{"index": index, "score": score} for index, score in pairs]
    return {"results": [{"index": index, "relevance_score": score} for index, score in pairs], "meta": {}}


def usual(reply: Reply) -> None:
    pairs = [(index, share(text)) for index, text in enumerate(texts_of(reply))]
    reply.send(form(reply, sorted(pairs, key=lambda pair: -pair[1])))


def pairs(*given: tuple[Any, Any]) -> Behaviour:
    return lambda reply: reply.send(json.dumps(form(reply, list(given))).encode())


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with openai_server(usual) as one:
        yield one


@pytest.fixture
def made(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., ServerReranker]]:
    monkeypatch.setenv("STAND_IN_KEY", KEY)
    every: list[ServerReranker] = []

    def make(shape: Any = "jina", **settings: Any) -> ServerReranker:
        model = {} if shape == "tei" else {"model": "of-tests"}
        every.append(
            ServerReranker(shape, **{"base_url": server.url, "api_key_env": "STAND_IN_KEY", **model, **settings})
        )
        return every[-1]

    yield make
    for one in every:
        one.close()


def numbers(found: Any) -> list[int]:
    return [one.chunk_id.int for one in found]


@faces
@pytest.mark.parametrize("shape", SHAPES)
def test_each_form_is_asked_in_its_words_and_its_order_taken(
    server: OpenAIServer, made: Callable[..., ServerReranker], search: Search, shape: Any
) -> None:
    found = search(RerankedRetriever(Fixed(CANDIDATES), made(shape), tau=0, limit_s=30), "how long", SCOPE)
    assert numbers(found) == [5, 4, 3, 2, 1, 0]
    assert [one.rerank_score for one in found] == [0.05, 0.04, 0.03, 0.02, 0.01, 0.0]
    (arrived,) = server.arrived
    assert arrived.path == "/v1/rerank"
    assert arrived.headers["authorization"] == f"Bearer {KEY}"
    texts = [one.content for one in CANDIDATES]
    assert arrived.body == (
        {"query": "how long", "texts": texts, "raw_scores": False, "truncate": True}
        if shape == "tei"
        else {"query": "how long", "documents": texts, "model": "of-tests", "top_n": 6}
    )
    assert found.trace[-1]["model"] == f"rerank_server/{shape}{'' if shape == 'tei' else '/of-tests'} at 127.0.0.1"


@faces
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("said", "order"),
    [
        ([(3, 0.9)], [3, 0, 1, 2, 4, 5]),
        ([(2, 0.5), (2, 0.9), (4, 0.6)], [4, 2, 0, 1, 3, 5]),
        ([(9, 0.9), (-1, 0.9), (None, 0.9), ("1", 0.9), (1.0, 0.9), (True, 0.9), (5, 0.4)], [5, 0, 1, 2, 3, 4]),
        ([(0, math.nan), (1, None), (2, "0.9"), (3, 0.1), (4, 0.2)], [4, 3, 0, 1, 2, 5]),
        ([], [0, 1, 2, 3, 4, 5]),
        ([(0, 0.1), (1, 7.0)], [0, 1, 2, 3, 4, 5]),
    ],
)
def test_no_candidate_is_lost_to_a_server_that_says_nonsense(
    server: OpenAIServer,
    made: Callable[..., ServerReranker],
    search: Search,
    shape: Any,
    said: list[tuple[Any, Any]],
    order: list[int],
) -> None:
    server.script.append(pairs(*said))
    found = search(RerankedRetriever(Fixed(CANDIDATES), made(shape), tau=0, limit_s=30), "q", SCOPE)
    assert numbers(found) == order
    assert found.degraded is not None


def redirect(reply: Reply) -> None:
    reply.send({}, 307, {"Location": "http://127.0.0.1:1/v1/rerank"})


def endless(reply: Reply) -> None:
    reply.send(b" " * (17 * 2**20))


@faces
@pytest.mark.parametrize(
    "behaviour",
    [
        stand_in.reset, stand_in.silence, stand_in.drip, stand_in.close_in_the_body, redirect, endless,
        stand_in.error(400), stand_in.error(401), stand_in.error(429, {"Retry-After": "60"}), stand_in.error(500),
        stand_in.body(b"<html>"), stand_in.body({"data": []}), stand_in.body(["x"]), stand_in.body(7),
    ],
)  # fmt: skip
def test_a_server_that_fails_leaves_the_order_before_and_no_secret_in_what_is_said(
    server: OpenAIServer,
    made: Callable[..., ServerReranker],
    search: Search,
    behaviour: Behaviour,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server.script.extend([behaviour] * 4)
    started = time.monotonic()
    found = search(RerankedRetriever(Fixed(CANDIDATES), made(), limit_s=1), "the blue envelope", SCOPE)
    assert time.monotonic() - started < 20
    assert numbers(found) == [0, 1, 2, 3, 4, 5]
    assert found.degraded is not None
    assert found.degraded.startswith("not reranked (")
    for secret in (KEY, "blue envelope", "passage 1"):
        assert secret not in f"{found.degraded} {found.trace} {caplog.text}"


def test_what_may_pass_is_tried_again(server: OpenAIServer, made: Callable[..., ServerReranker]) -> None:
    server.script.append(stand_in.error(503))
    assert dict(made().score("q", ["passage 3", "passage 9"], NOBODY).pairs) == {1: 0.09, 0: 0.03}
    assert len(server.arrived) == 2


def test_no_request_holds_more_than_a_server_takes_and_the_parts_do_not_mix(
    server: OpenAIServer, made: Callable[..., ServerReranker]
) -> None:
    texts = [f"passage {number}" for number in range(70)]
    server.script.extend([usual, pairs((0, 0.5), (40, 0.9), (-1, 0.9))])
    found = made("tei").score("q", texts, NOBODY).pairs
    assert [len(arrived.body["texts"]) for arrived in server.arrived] == [32, 32, 6]
    known = {index: score for index, score in found if index is not None}
    assert known == {**{n: share(texts[n]) for n in [*range(32), *range(64, 70)]}, 32: 0.5}


def test_scores_that_are_no_shares_are_made_such_where_that_is_said(
    server: OpenAIServer, made: Callable[..., ServerReranker]
) -> None:
    server.script.append(pairs((0, -4), (1, 0), (2, 2.5), (3, 1e300), (4, -1e300), (5, 10**400), (6, None)))
    scores = dict(made(logits=True).score("q", ["x"] * 7, NOBODY).pairs)
    expected = [1 / (1 + math.exp(-logit)) for logit in (-4, 0, 2.5)]
    assert [scores[index] for index in range(5)] == pytest.approx([*expected, 1, 0])
    assert (scores[5], scores[6]) == (None, None)


def test_no_key_goes_to_a_server_for_which_none_is_named(
    server: OpenAIServer, made: Callable[..., ServerReranker], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "COHERE_API_KEY", "JINA_API_KEY", "CO_API_KEY"):
        monkeypatch.setenv(name, KEY)
    made("tei", api_key_env=None).score("q", ["passage 1"], NOBODY)
    assert "authorization" not in server.arrived[0].headers
    with pytest.raises(ProviderRefused, match="set NOT_SET in the environment"):
        made(api_key_env="NOT_SET").score("q", ["passage 1"], NOBODY)


def test_an_answer_of_another_form_is_an_error(server: OpenAIServer, made: Callable[..., ServerReranker]) -> None:
    server.script.append(stand_in.body({"results": {"index": 0}}))
    with pytest.raises(EmbeddingError, match="of a form that rerankers do not have"):
        made().score("q", ["passage 1"], NOBODY)


@pytest.mark.parametrize(
    ("argument", "shape", "settings"),
    [
        ("shape", "voyage", {}),
        ("model", "cohere", {"api_key_env": "KEY"}),
        ("model", "cohere", {"api_key_env": "KEY", "model": "a b"}),
        ("model", "tei", {"base_url": "http://localhost:8080", "model": "x"}),
        ("base_url", "tei", {}),
        ("base_url", "jina", {"model": "x", "base_url": "ftp://localhost"}),
        ("base_url", "jina", {"model": "x", "base_url": "http://user:key@localhost"}),
        ("api_key_env", "jina", {"model": "x"}),
        ("api_key_env", "jina", {"model": "x", "api_key_env": "sk-secret"}),
        ("logits", "tei", {"base_url": "http://localhost:8080", "logits": 1}),
    ],
)
def test_settings_that_cannot_be_are_refused_by_name(argument: str, shape: Any, settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument) as error:
        ServerReranker(shape, **settings)
    assert error.value.argument == argument
    assert "sk-secret" not in str(error.value)


def test_a_file_makes_one(server: OpenAIServer, tmp_path: Path) -> None:
    database = Database("postgresql://nobody@localhost:1/none")
    path = tmp_path / "retriever.toml"
    path.write_text(
        'kind = "reranked"\n[retriever]\nkind = "lexical"\n'
        '[reranker]\nkind = "rerank_server"\nshape = "cohere"\nmodel = "rerank-v3.5"\napi_key_env = "COHERE_API_KEY"\n'
    )
    made = load_retriever(database, path)
    assert isinstance(made, RerankedRetriever)
    assert made._reranker.name == "rerank_server/cohere/rerank-v3.5 at api.cohere.com"
    database.close()
