"""A token stands for one scope and for what may be done in it; nobody comes in with anything else."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

import pytest

from rag_assets.doors.http.access import HELD_S
from rag_assets.doors.http.limits import Limits
from rag_assets.store.database import Database
from rag_assets.store.erase import erase
from rag_assets.store.tokens import is_well_formed, new_token, revoke_token
from tests.doors.http.conftest import PRIVATE, SECRETS, Tokens
from tests.support.http_door import OPEN_WIDE, Door, error_of, serving, token_for
from tests.support.worlds import ingested

ASKED = {"query": "the recovery code of the main valve", "top_k": 50}
GUARDED = (("POST", "/search"), ("POST", "/context"), ("GET", "/sources"), ("GET", "/sources/x"), ("GET", "/none"))


def seen(door: Door, token: str) -> str:
    """All that a token gets to see by any route."""
    texts = [door.post(path, token, ASKED) for path in ("/search", "/context")]
    texts.append(door.get("/sources", token, params={"limit": 200}))
    assert {answer.status_code for answer in texts} == {200}
    return "\n".join(answer.text for answer in texts)


def test_a_token_sees_its_own_tenant_and_nothing_of_another(door: Door, tokens: Tokens) -> None:
    acme, other, alice = (seen(door, token) for token in (tokens.acme, tokens.other, tokens.alice))
    assert SECRETS["acme"] in acme
    assert SECRETS["acme"] in alice
    assert SECRETS["other"] in other
    assert SECRETS["other"] not in acme + alice
    assert SECRETS["acme"] not in other
    assert PRIVATE in alice, "what is hers she finds with a token of her own"
    assert "private.md" in alice
    assert PRIVATE not in acme + other
    assert "private.md" not in acme + other


def test_a_source_of_another_is_no_other_answer_than_none(door: Door, tokens: Tokens) -> None:
    theirs = {one["id"] for one in door.get("/sources", tokens.other).json()["sources"]}
    hers = {one["id"] for one in door.get("/sources", tokens.alice).json()["sources"] if one["space"] == "user"}
    assert theirs
    assert hers
    for one in (*theirs, *hers, "0" * 32, "x", "%00", "a' OR '1'='1"):
        answer = door.get(f"/sources/{one}", tokens.acme)
        error = error_of(answer)
        assert (answer.status_code, error["type"], error["message"]) == (404, "NotFound", "there is no such source")


@pytest.mark.parametrize(("method", "path"), GUARDED)
def test_without_a_good_token_nothing_is_said_of_any_path(world: Database, method: str, path: str) -> None:
    right = new_token()
    wrong = (
        None, "", "x", right[:-1], right + "0", right.replace("rag_", "RAG_"), right.swapcase(),
        right, f"{right}\u00e9".encode().decode("latin-1"), "'; DROP TABLE rag.api_tokens; --", "rag_" + "0" * 49,
    )  # fmt: skip
    with serving(world) as door, door.client() as client:  # of its own: it counts wrong tokens
        for token in wrong:
            headers = {} if token is None else {"Authorization": f"Bearer {token}".strip().encode("latin-1")}
            answer = client.request(method, path, headers=headers, json=ASKED)  # type: ignore[arg-type]
            # An address that brings too many of them is told so.
            assert answer.status_code in (401, 429), token
            assert error_of(answer)["type"] == {401: "Unauthorized", 429: "RateLimited"}[answer.status_code]


@pytest.mark.parametrize("header", ["Basic {}", "Bearer", "Token {}", "{}", "Bearer  {} {}"])
def test_a_good_token_counts_only_as_a_bearer(world: Database, header: str, made: Callable[..., str]) -> None:
    token = made(f"as {header}")
    with serving(world) as door, door.client() as client:
        for given in (header.format(token, token),):
            assert client.post("/search", json=ASKED, headers={"Authorization": given}).status_code == 401
        twice = [("Authorization", f"Bearer {token}"), ("Authorization", f"Bearer {token}")]
        assert client.post("/search", json=ASKED, headers=twice).status_code == 401
        assert client.post(f"/search?token={token}", json={**ASKED, "token": token}).status_code == 401
        assert client.post("/search", json=ASKED, headers={"Cookie": f"token={token}"}).status_code == 401


def test_a_revoked_token_is_refused_within_seconds_and_an_expired_one_at_once(
    world: Database, door: Door, made: Callable[..., str]
) -> None:
    short, long = made("short", lives=timedelta(seconds=2)), made("long")
    for token in (short, long):
        assert door.post("/search", token, ASKED).status_code == 200
    revoke_token(world, "long", "acme")
    deadline = time.monotonic() + HELD_S + 2
    refused: dict[str, str] = {}
    while len(refused) < 2:
        assert time.monotonic() < deadline, f"still let in: {refused}"
        for token, word in ((short, "expired"), (long, "revoked")):
            answer = door.post("/search", token, ASKED)
            if answer.status_code == 401:
                refused[word] = error_of(answer)["message"]
        time.sleep(0.2)
    assert refused == {"expired": "this token has expired", "revoked": "this token was revoked"}


def test_a_token_may_do_what_it_was_made_for_and_no_more(door: Door, made: Callable[..., str]) -> None:
    token = made("gives feedback", may=["feedback"])
    for answer in (
        door.post("/search", token, ASKED),
        door.post("/context", token, ASKED),
        door.get("/sources", token),
    ):
        assert (answer.status_code, error_of(answer)["type"]) == (403, "Forbidden")
        assert SECRETS["acme"] not in answer.text


def test_tokens_go_with_their_tenant_and_who_still_has_one_finds_nothing(
    world: Database, door: Door, tmp_path_factory: pytest.TempPathFactory
) -> None:
    ingested(world, tmp_path_factory.mktemp("gone"), "gone", {"a.md": "The code is DDD-444."})
    token = token_for(world, "gone", "gone")
    assert "DDD-444" in door.post("/search", token, {"query": "code"}).text
    report = erase(world, "gone")
    assert (report.counts["api_tokens"], report.remaining["api_tokens"]) == (1, 0)
    answer = door.post("/search", token, {"query": "code"})
    assert answer.status_code in (401, 404)
    assert "DDD-444" not in answer.text
    time.sleep(HELD_S)
    assert door.post("/search", token, {"query": "code"}).status_code == 401


def test_who_guesses_tokens_is_stopped_and_those_beside_them_are_not(world: Database, tokens: Tokens) -> None:
    with serving(world, limits=OPEN_WIDE) as door, door.client() as client:
        assert client.post("/search", json=ASKED, headers={"Authorization": f"Bearer {tokens.acme}"}).status_code == 200
        guesses = [
            client.post("/search", json=ASKED, headers={"Authorization": f"Bearer {new_token()}"}) for _ in range(40)
        ]
        statuses = [answer.status_code for answer in guesses]
        assert statuses[0] == 401
        assert statuses[-1] == 429
        assert set(statuses) == {401, 429}
        assert int(guesses[-1].headers["retry-after"]) >= 1
        time.sleep(HELD_S)  # the good one has to be looked up anew
        assert client.post("/search", json=ASKED, headers={"Authorization": f"Bearer {tokens.acme}"}).status_code == 200


def test_a_token_that_asks_too_often_waits_as_long_as_it_is_told_and_no_other_does(
    world: Database, tokens: Tokens
) -> None:
    with serving(world, limits=Limits(rate=2)) as door, door.client(tokens.acme) as client:
        answers = [client.post("/search", json=ASKED) for _ in range(8)]
        limited = [answer for answer in answers if answer.status_code == 429]
        assert limited
        assert {answer.status_code for answer in answers} == {200, 429}
        assert error_of(limited[0])["type"] == "RateLimited"
        assert door.post("/search", tokens.other, ASKED).status_code == 200
        time.sleep(float(limited[-1].headers["retry-after"]))
        assert client.post("/search", json=ASKED).status_code == 200


def test_a_mistyped_token_is_known_without_asking_anybody() -> None:
    for _ in range(50):
        token = new_token()
        assert is_well_formed(token)
        for place in range(len(token)):
            other = "x" if token[place] != "x" else "y"
            assert not is_well_formed(token[:place] + other + token[place + 1 :])
        assert not is_well_formed(token[:-1])
        assert not is_well_formed(token + "0")
        assert not is_well_formed(token + "\n")
