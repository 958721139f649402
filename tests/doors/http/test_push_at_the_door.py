"""Documents that come over HTTP: from a token that may push, into its own scope, and found after the next ingest."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import httpx
import pytest

from rag_assets.doors.http import models
from rag_assets.doors.http.limits import Limits
from rag_assets.doors.push import pushed_status
from rag_assets.errors import UnknownSource
from rag_assets.ingest.run import ingest
from rag_assets.store.database import Database
from tests.support.http_door import Door, error_of, serving, token_for
from tests.support.push_world import ACME, ingest_all

PUSH = ["search", "push"]


@pytest.fixture
def pusher(made: Callable[..., str]) -> str:
    return made(f"push {uuid4()}", may=PUSH)


def _put(door: Door, token: str | None, key: str, **what: Any) -> httpx.Response:
    with door.client(token) as client:
        return client.put(f"/sources/{key}", **what)


def _delete(door: Door, token: str, key: str) -> httpx.Response:
    with door.client(token) as client:
        return client.delete(f"/sources/{key}")


def _found(door: Door, token: str, words: str, **filters: Any) -> list[str]:
    asked = {"query": words, "retriever": "lexical", "filters": filters}
    return [one["content"] for one in door.post("/search", token, asked).json()["results"]]


def test_a_text_is_found_after_the_next_ingest_and_no_more_after_it_is_taken_back(
    world: Database, door: Door, pusher: str
) -> None:
    text = {"text": "# Zanzibar\n\nThe zanzibar hose has 7 mm.", "name": "hose.md", "metadata": {"team": "zsales"}}
    pushed = _put(door, pusher, "hoses/7", json=text)
    assert pushed.status_code == 202
    assert models.PushAnswer.model_validate(pushed.json()).outcome == "pushed"
    assert _put(door, pusher, "hoses/7", json=text).status_code == 200
    status = door.get("/sources/hoses/7", pusher).json()
    assert models.PushedAnswer.model_validate(status).state == "received"
    assert status["pushed_by"].startswith("token ")
    ingest_all(world)
    assert door.get("/sources/hoses/7", pusher).json()["state"] == "ingested"
    assert len(_found(door, pusher, "zanzibar", metadata={"team": "zsales"})) == 1
    assert _delete(door, pusher, "hoses/7").json()["deleted"] is True
    ingest_all(world)
    assert _found(door, pusher, "zanzibar") == []
    assert door.get("/sources/hoses/7", pusher).json()["state"] == "deleted"
    assert _delete(door, pusher, "hoses/7").status_code == 404


def test_a_file_is_sent_as_it_is(world: Database, door: Door, pusher: str) -> None:
    page = b"<html><body><h1>Ketchikan</h1><p>The ketchikan seal is of rubber.</p></body></html>"
    about = json.dumps({"team": "k\u00f6ln"}).encode("unicode_escape").decode().replace("\\\\", "\\")
    answer = _put(door, pusher, "seal", content=page, params={"name": "seal.html"},
                  headers={"Content-Type": "text/html", "X-Metadata": about})  # fmt: skip
    assert answer.status_code == 202, answer.text
    assert answer.json()["bytes"] == len(page)
    ingest_all(world)
    status = door.get("/sources/seal", pusher).json()
    assert (status["state"], status["metadata"]) == ("ingested", {"team": "k\u00f6ln"})
    (content,) = _found(door, pusher, "ketchikan")
    assert "<p>" not in content


def test_a_bad_file_fails_alone_with_its_reason_and_the_version_before_stays(
    world: Database, door: Door, pusher: str
) -> None:
    _put(door, pusher, "report", json={"text": "The oulu gauge reads 4.", "name": "report.txt"})
    ingest_all(world)
    broken = b"%PDF-1.7\nnothing of a PDF"
    assert _put(door, pusher, "report", content=broken, params={"name": "report.pdf"}).status_code == 202
    ingest_all(world)
    status = door.get("/sources/report", pusher).json()
    assert status["state"] == "failed"
    assert status["error"]
    assert len(_found(door, pusher, "oulu")) == 1


def test_only_a_token_that_may_push_pushes_and_nothing_of_its_body_is_read(
    world: Database, door: Door, tokens: Any, made: Callable[..., str]
) -> None:
    for verb in ("PUT", "DELETE"):
        with door.client(tokens.acme) as client:
            answer = client.request(verb, "/sources/x", content=b"x" * 5_000_000 if verb == "PUT" else None)
        assert answer.status_code == 403
        assert "may not push" in error_of(answer)["message"]
    assert _put(door, None, "x", json={"text": "x"}).status_code == 401
    only = made(f"only {uuid4()}", may=["push"])
    assert _put(door, only, "mine", json={"text": "The quito lamp."}).status_code == 202
    assert door.get("/sources/mine", only).json()["state"] == "received"
    assert door.post("/search", only, {"query": "quito"}).status_code == 403
    assert door.get("/sources", only).status_code == 403
    with pytest.raises(UnknownSource):
        pushed_status(world, *ACME, "x")


def test_who_pushes_for_a_user_pushes_for_that_user_alone(
    world: Database, door: Door, made: Callable[..., str], tokens: Any
) -> None:
    alice = made(f"alice {uuid4()}", user="alice", may=PUSH)
    _put(door, alice, "diary", json={"text": "The secret tromso word."})
    ingest_all(world)
    assert len(_found(door, alice, "tromso")) == 1
    assert _found(door, tokens.acme, "tromso") == []
    other = made(f"bob {uuid4()}", user="bob", may=PUSH)
    assert door.get("/sources/diary", other).status_code == 404
    assert _delete(door, other, "diary").status_code == 404
    assert len(_found(door, alice, "tromso")) == 1


def test_another_tenant_neither_sees_nor_deletes_nor_overwrites_what_was_pushed(
    world: Database, door: Door, pusher: str
) -> None:
    theirs = token_for(world, f"theirs {uuid4()}", "other", may=PUSH)
    _put(door, pusher, "shared-name", json={"text": "The acme bergen text."})
    assert door.get("/sources/shared-name", theirs).status_code == 404
    assert _delete(door, theirs, "shared-name").status_code == 404
    _put(door, theirs, "shared-name", json={"text": "The other bergen text."})
    ingest_all(world)
    ingest(world, "other", "support", "hash-64")
    assert "acme" in _found(door, pusher, "bergen")[0]
    assert "other" in _found(door, theirs, "bergen")[0]


WRONG: tuple[tuple[dict[str, Any], int, str], ...] = (
    ({"json": {}}, 400, "text"), ({"json": {"text": 3}}, 400, "text"), ({"json": {"text": ""}}, 400, "body"),
    ({"json": {"text": "x", "tenant": "other"}}, 400, "tenant"), ({"json": {"text": "x\x00"}}, 400, "body"),
    ({"json": {"text": "x", "metadata": []}}, 400, "metadata"), ({"json": {"text": "x", "name": "a\x00"}}, 400, "name"),
    ({"json": {"text": "x", "metadata": {"rag:origin": {}}}}, 400, "metadata"),
    ({"json": {"text": "x", "metadata": {"a": "b" * 30_000}}}, 400, "metadata"),
    ({"json": {"text": "x"}, "params": {"name": "y"}}, 400, "name"),
    ({"content": b"", "params": {"name": "y.md"}}, 400, "body"),
    ({"content": b"x", "headers": {"X-Metadata": "{"}}, 400, "X-Metadata"),
    ({"content": b"x", "headers": {"X-Metadata": "[1]"}}, 400, "metadata"),
    ({"content": b"x", "headers": {"Content-Type": "no type"}}, 400, "content_type"),
    ({"files": {"file": ("a.pdf", b"%PDF-1.4")}}, 415, "Content-Type"),
    ({"content": b"x", "headers": {"Content-Encoding": "gzip"}}, 415, "Content-Encoding"),
    ({"content": b'{"text": "x"', "headers": {"Content-Type": "application/json"}}, 400, ""),
)  # fmt: skip


@pytest.mark.parametrize(("what", "status", "argument"), WRONG, ids=[str(one[0])[:60] for one in WRONG])
def test_what_is_wrong_with_a_document_is_said_and_nothing_is_kept(
    world: Database, door: Door, pusher: str, what: dict[str, Any], status: int, argument: str
) -> None:
    key = f"wrong-{uuid4()}"
    answer = _put(door, pusher, key, **what)
    error = error_of(answer)
    assert (answer.status_code, error.get("argument", "")) == (status, argument), error
    if what.get("headers", {}).get("Content-Encoding") is None:  # else the body is left on the way
        assert answer.headers.get("connection") != "close"
    with pytest.raises(UnknownSource):
        pushed_status(world, *ACME, key)


@pytest.mark.parametrize("key", ["..", "../x", "%2e%2e/%2e%2e", "a%00b", "x" * 1001, " x", "a%0Ab", "%F0%9F%98%80"])
def test_an_id_is_a_name_and_no_path(world: Database, door: Door, pusher: str, key: str) -> None:
    answer = _put(door, pusher, key, json={"text": "The id text."})
    assert answer.status_code in (202, 400, 404), answer.text
    if answer.status_code == 202:
        assert pushed_status(world, *ACME, answer.json()["id"])["state"] == "received"
        assert door.get(f"/sources/{key}", pusher).status_code == 200


def test_what_is_too_large_or_too_much_is_refused(world: Database, made: Callable[..., str], monkeypatch: Any) -> None:
    token = made(f"large {uuid4()}", may=PUSH)
    monkeypatch.setenv("RAG_PUSH_FILE_MB", "0.5")
    with serving(world, limits=Limits(rate=1e5, push_bytes=500_000)) as door:
        answer = _put(door, token, "large", content=b"x" * 600_000)
        assert (answer.status_code, error_of(answer)["argument"]) == (400, "body")
        assert _put(door, token, "huge", content=b"x" * 3_000_000).status_code == 413
        monkeypatch.setenv("RAG_PUSH_DOCUMENTS", "1")
        answers = [_put(door, token, f"many-{number}", json={"text": "x"}) for number in range(2)]
        assert answers[-1].status_code == 409
        assert error_of(answers[-1])["type"] == "PushLimitReached"
