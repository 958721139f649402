"""Where the database takes signed scopes alone, a server with the key serves, and one without it reads nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rag_assets.doors.tools import make_tools
from rag_assets.errors import ScopeRefused
from rag_assets.ingest.run import ingest
from rag_assets.signing import ScopeKey, new_key
from rag_assets.store.database import Database
from rag_assets.store.scope_keys import require_signed_scopes, retire_scope_key, take_unsigned_scopes
from tests.support.http_door import error_of, serving, token_for
from tests.support.signed_world import BOT, KEY, TENANTS, build, key_of

ASKED = {"query": "the code of the main valve", "top_k": 50}


def test_a_server_without_the_key_reads_nothing_and_one_with_it_what_the_token_may(
    new_database: Callable[[], Database], tmp_path: Path
) -> None:
    world = build(new_database, tmp_path)
    token = token_for(world, "web", "alpha")
    with serving(world) as door:
        found = door.post("/search", token, ASKED)
        assert found.status_code == 200
        assert TENANTS["alpha"] in found.text
        assert TENANTS["beta"] not in found.text
        assert door.get("/sources", token).json()["sources"]
    keyless = Database(world.url)
    with serving(keyless) as door:
        for answer in (
            door.post("/search", token, ASKED),
            door.post("/context", token, ASKED),
            door.get("/sources", token),
        ):
            assert (answer.status_code, error_of(answer)["type"]) == (503, "ScopeRefused")
            assert not [secret for secret in TENANTS.values() if secret in answer.text]
    world.close()


def test_a_server_is_ready_only_with_a_key_that_the_database_takes(
    new_database: Callable[[], Database], tmp_path: Path
) -> None:
    world = build(new_database, tmp_path)
    second = key_of(world)
    wrong = {
        "none": None,
        "unknown": new_key(),
        "another secret": ScopeKey(KEY.id, bytes(range(1, 33))),
    }
    for key in wrong.values():
        with serving(Database(world.url, scope_key=key)) as door:
            answer = door.get("/ready")
            assert (answer.status_code, error_of(answer)["type"]) == (503, "ScopeRefused")
            assert "RAG_SCOPE_KEY" in error_of(answer)["message"]
            assert door.get("/health").status_code == 200
    with serving(Database(world.url, scope_key=second)) as door:
        assert door.get("/ready").status_code == 200
        retire_scope_key(world, second.id)
        assert door.get("/ready").status_code == 503
    take_unsigned_scopes(world)
    with serving(Database(world.url)) as door:
        assert door.get("/ready").status_code == 200
        require_signed_scopes(world)
        assert door.get("/ready").status_code == 503
    world.close()


def test_documents_are_pushed_with_the_key_and_not_without_it(
    new_database: Callable[[], Database], tmp_path: Path
) -> None:
    world = build(new_database, tmp_path)
    token = token_for(world, "web", "alpha", may=["search", "push"])
    body = {"text": "The zanzibar hose has 7 mm.", "name": "hose.md"}
    keyless = Database(world.url)
    with serving(keyless) as door, door.client(token) as client:
        for answer in (
            client.put("/sources/hose", json=body),
            client.get("/sources/hose"),
            client.delete("/sources/hose"),
        ):
            assert (answer.status_code, error_of(answer)["type"]) == (503, "ScopeRefused")
    with pytest.raises(ScopeRefused):
        make_tools(keyless, tenant="alpha", bot=BOT).search("valve")
    with serving(world) as door, door.client(token) as client:
        assert client.put("/sources/hose", json=body).status_code == 202
        ingest(keyless, "alpha", BOT, "hash-64")  # who ingests has a login of its own, and needs no key
        assert client.get("/sources/hose").json()["state"] == "ingested"
        assert "zanzibar" in client.post("/search", json={"query": "zanzibar"}).text
        assert client.delete("/sources/hose").json()["deleted"] is True
    assert "AAA-111" in str(make_tools(world, tenant="alpha", bot=BOT).search("code of the valve"))
    world.close()


def test_keys_are_changed_while_servers_answer(new_database: Callable[[], Database], tmp_path: Path) -> None:
    world = build(new_database, tmp_path)
    token = token_for(world, "web", "alpha")
    second = key_of(world)
    with serving(world) as before, serving(Database(world.url, scope_key=second)) as after:
        for door in (before, after):  # both keys are in use: servers are started anew one by one
            assert "AAA-111" in door.post("/search", token, ASKED).text
        retire_scope_key(world, KEY.id, force=True)
        late = before.post("/search", token, ASKED)
        assert (late.status_code, error_of(late)["type"]) == (503, "ScopeRefused")
        assert "AAA-111" in after.post("/search", token, ASKED).text
    world.close()
