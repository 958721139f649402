"""The HTTP door where scopes have to be signed: with the key as ever, and without it nothing of anybody."""

from __future__ import annotations

from pathlib import Path

from rag_assets.signing import new_key
from rag_assets.store.database import Database
from rag_assets.store.scope_keys import add_scope_key, require_signed_scopes
from tests.support.http_door import Door, error_of, serving, token_for
from tests.support.worlds import ingested

ASKED = {"query": "valve"}


def everything(door: Door, token: str) -> list[int]:
    """What the statuses are of all that may be read."""
    return [
        door.post("/search", token, ASKED).status_code,
        door.post("/context", token, ASKED).status_code,
        door.get("/sources", token).status_code,
    ]


def test_a_door_with_the_key_answers_and_one_without_it_tells_nothing(database: Database, tmp_path: Path) -> None:
    for tenant in ("acme", "other"):
        ingested(database, tmp_path / tenant, tenant, {"note.md": f"The valve of {tenant} is red."})
    tokens = {tenant: token_for(database, tenant, tenant) for tenant in ("acme", "other")}
    key = new_key()
    add_scope_key(database, key)
    require_signed_scopes(database)
    with serving(Database(database.url, scope_key=key)) as door:
        for tenant, token in tokens.items():
            (hit,) = door.post("/search", token, ASKED).json()["results"]
            assert hit["content"] == f"The valve of {tenant} is red."
            assert everything(door, token) == [200] * 3
    with serving(Database(database.url)) as keyless:
        assert everything(keyless, tokens["acme"]) == [503] * 3
        said = error_of(keyless.post("/search", tokens["acme"], ASKED))
        assert "log of this server says why" in said["message"]
        assert not any(word in str(said) for word in ("RAG_SCOPE_KEY", key.id, "other"))
