"""What is answered over HTTP is what the library and the command line answer; what is wrong is said in one form."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from rag_assets.doors.http import models
from rag_assets.retrieval import HybridRetriever, LexicalRetriever, format_retrieved_context, open_scope
from rag_assets.store.database import Database
from tests.doors.http.conftest import Tokens
from tests.support.http_door import OPEN_WIDE, Door, error_of, serving

QUERY = "the recovery code of the main valve"


@pytest.fixture(scope="module")
def lexical(world: Database) -> Any:
    """A server with retrievers of its operator's."""
    named = {"words": LexicalRetriever(world), "default": LexicalRetriever(world)}
    with serving(world, named, OPEN_WIDE) as door:
        yield door


def test_an_answer_is_what_the_library_finds(world: Database, door: Door, tokens: Tokens) -> None:
    answer = door.post("/search", tokens.acme, {"query": QUERY, "top_k": 3})
    found = HybridRetriever(world).search(QUERY, open_scope(world, "acme", "support"), 3)
    body = answer.json()
    assert body["results"] == json.loads(json.dumps([one.to_dict() for one in found]))
    assert (body["mode"], body["retriever"], body["profile"], body["rung"]) == ("hybrid", None, "hash-64", "full")
    assert UUID(body["query_id"])
    assert UUID(answer.headers["x-request-id"])
    models.SearchAnswer.model_validate(body)


def test_a_context_is_what_the_library_writes(world: Database, door: Door, tokens: Tokens) -> None:
    asked = {"query": QUERY, "top_k": 8, "max_tokens": 150, "per_source": 1}
    body = door.post("/context", tokens.acme, asked).json()
    found = HybridRetriever(world).search(QUERY, open_scope(world, "acme", "support"), 8)
    context = format_retrieved_context(list(found), 150, per_source=1)
    assert (body["text"], body["tokens"]) == (context.text, context.tokens)
    assert [one["number"] for one in body["passages"]] == list(context.passages)
    assert [one["why"] for one in body["left_out"]] == [one.why for one in context.left_out]
    assert body["left_out"]
    assert body["passages"]
    models.ContextAnswer.model_validate(body)


def test_a_caller_names_only_what_the_operator_has_registered(door: Door, lexical: Door, tokens: Tokens) -> None:
    body = lexical.post("/search", tokens.acme, {"query": QUERY}).json()
    assert (body["mode"], body["retriever"]) == (None, "default")
    assert {one["dense_score"] for one in body["results"]} == {None}
    assert lexical.post("/search", tokens.acme, {"query": QUERY, "retriever": "dense"}).json()["mode"] == "dense"
    for name in ("wrods", "/etc/passwd", "words.toml", "kind = 'hybrid'"):
        error = error_of(lexical.post("/search", tokens.acme, {"query": QUERY, "retriever": name}))
        assert (error["type"], error["argument"]) == ("InvalidArgument", "retriever")
        assert "default, dense, hybrid, lexical, words" in error["message"]
    assert "words" not in error_of(door.post("/search", tokens.acme, {"query": QUERY, "retriever": "x"}))["message"]


def test_a_request_keeps_the_name_that_its_sender_gave_it(door: Door, tokens: Tokens) -> None:
    with door.client(tokens.acme) as client:
        named = client.post("/search", json={"query": QUERY}, headers={"X-Request-Id": "job-17"})
        assert named.headers["x-request-id"] == "job-17"
        wild = client.post("/search", json={"query": QUERY}, headers={"X-Request-Id": "a b\t<script>"})
        assert UUID(wild.headers["x-request-id"])


def test_sources_come_page_by_page_each_once(door: Door, tokens: Tokens) -> None:
    seen: list[str] = []
    after: str | None = None
    while True:
        page = door.get("/sources", tokens.alice, params={"limit": 2, **({"after": after} if after else {})}).json()
        models.SourcesAnswer.model_validate(page)
        seen += [one["name"] for one in page["sources"]]
        after = page["next"]
        if after is None:
            break
    assert sorted(seen) == ["note0.md", "note1.md", "note2.md", "note3.md", "private.md"]
    first = door.get("/sources", tokens.alice, params={"limit": 1}).json()["sources"][0]
    one = door.get(f"/sources/{first['id']}", tokens.alice).json()
    assert one | {"query_id": None} == first | {"query_id": None}
    assert (one["status"], one["published"], one["up_to_date"]) == ("ready", "ready", True)
    for wrong in ({"status": "\x00"}, {"limit": 0}, {"after": "\x00"}):
        answer = door.get("/sources", tokens.alice, params=wrong)
        assert (answer.status_code, error_of(answer)["argument"]) == (400, *wrong)


WRONG: tuple[tuple[Any, str], ...] = (
    ({}, "query"), ({"query": None}, "query"), ({"query": 3}, "query"), ({"query": ["x"]}, "query"),
    ({"query": ""}, "query"), ({"query": " \n"}, "query"), ({"query": "x", "top_k": 0}, "top_k"),
    ({"query": "x", "top_k": 1001}, "top_k"), ({"query": "x", "top_k": "8"}, "top_k"),
    ({"query": "x", "top_k": 2.5}, "top_k"), ({"query": "x", "top_k": True}, "top_k"),
    ({"query": "x", "filters": []}, "filters"), ({"query": "x", "filters": {"source_name": ["a"]}}, "filters"),
    ({"query": "x", "filters": {"since": "soon"}}, "filters"), ({"query": "x", "tenant": "other"}, "tenant"),
    ({"query": "x", "filter": {}}, "filter"), ({"query": "x", "retriever": 1}, "retriever"),
    ({"query": "x", "request_key": {}}, "request_key"),
)  # fmt: skip


@pytest.mark.parametrize(("body", "argument"), WRONG, ids=[json.dumps(body) for body, _ in WRONG])
def test_what_is_wrong_with_a_request_is_said_with_the_name_of_the_argument(
    door: Door, tokens: Tokens, body: Any, argument: str
) -> None:
    answer = door.post("/search", tokens.acme, body)
    error = error_of(answer)
    assert (answer.status_code, error["type"], error["argument"]) == (400, "InvalidArgument", argument)
    assert error["query_id"] == answer.headers["x-request-id"]


@pytest.mark.parametrize(
    ("method", "path", "body", "meant"),
    [
        ("POST", "/search", {"query": "x", "topk": 3}, "did you mean 'top_k'?"),
        ("POST", "/context", {"query": "x", "max_token": 3}, "did you mean 'max_tokens'?"),
        ("PUT", "/sources/a", {"text": "x", "metdata": {}}, "did you mean 'metadata'?"),
        ("POST", "/search", {"query": "x", "zzz": 3}, "there are: query, top_k, filters, retriever, request_key"),
    ],
)
def test_a_field_that_there_is_not_is_answered_with_the_one_that_was_meant(
    door: Door, made: Callable[..., str], method: str, path: str, body: Any, meant: str
) -> None:
    with door.client(made(f"misspells {meant}", may=["search", "push"])) as client:
        answer = client.request(method, path, json=body)
    assert answer.status_code == 400
    assert error_of(answer)["message"].endswith(meant)


def test_every_example_of_the_description_is_a_request_that_is_answered(door: Door, made: Callable[..., str]) -> None:
    may_all = made("may all", may=["search", "feedback", "push"])
    described = door.get("/openapi.json").json()
    examples = [
        (method, path.replace("{id}", "described"), example)
        for path, methods in described["paths"].items()
        for method, about in methods.items()
        if "requestBody" in about
        for example in _examples(described, about["requestBody"]["content"]["application/json"]["schema"])
    ]
    assert len(examples) >= 6
    for method, path, example in examples:
        # There is no such query in the log: that is no fault of the request.
        right = (404,) if path == "/feedback" else (200, 202)
        with door.client(may_all) as client:
            assert client.request(method, path, json=example).status_code in right, example


def _examples(described: dict[str, Any], schema: dict[str, Any]) -> list[dict[str, Any]]:
    if "$ref" in schema:
        schema = described["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    found: list[dict[str, Any]] = schema["examples"]
    return found


def test_the_description_says_what_every_route_refuses_and_that_it_wants_a_token(door: Door) -> None:
    described = door.get("/openapi.json").json()
    guarded = {path: methods for path, methods in described["paths"].items() if path not in ("/health", "/ready")}
    assert {"/search", "/context", "/sources", "/sources/{id}"} <= set(guarded)
    for path, methods in guarded.items():
        for method, about in methods.items():
            assert about["security"] == [{"HTTPBearer": []}], (path, method)
            assert {"200", "400", "401", "403", "429", "503"} <= set(about["responses"]), (path, method)
            assert "422" not in about["responses"], (path, method)
