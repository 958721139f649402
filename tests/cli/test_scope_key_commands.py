from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rag_assets.signing import new_key, parse_key
from rag_assets.store.database import Database
from tests.support.worlds import ingested

if TYPE_CHECKING:
    from tests.support.command_line import Rag

SEARCH = ("search", "valve", "--tenant", "acme", "--bot", "support")


@pytest.fixture
def bot(rag: Rag, database: Database, root: Path, monkeypatch: pytest.MonkeyPatch) -> Database:
    """A bot that knows one thing, in a database of its own, which the command line works on."""
    ingested(database, root, "acme", {"a.md": "The valve is red."})
    monkeypatch.setenv("DATABASE_URL", database.url)
    return database


def test_signing_is_turned_on_without_refusing_who_signs_and_off_again(
    rag: Rag, bot: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert rag.json("scope-key", "list") == {"required": False, "since": None, "turned_on_by": None, "keys": []}
    assert rag.json("scope-key", "on", "--yes", code=2)["error"]["message"].endswith("Add one with: rag scope-key add")
    added = rag.json("scope-key", "add")
    assert added["added"] is True
    assert parse_key(added["key"]).id == added["id"]
    assert len(rag.json(*SEARCH)["results"]) == 1, "nothing is refused yet"

    assert "nothing was changed" in rag("scope-key", "on", answer="n\n").stdout
    assert rag.json("scope-key", "on", code=2)["error"]["type"] == "UsageError"
    shown = rag("scope-key", "on", answer="y\n")
    assert "RAG_SCOPE_KEY is not set here" in shown.stderr
    assert "have to be signed" in shown.stdout
    error = rag.json(*SEARCH, code=1)["error"]
    assert (error["type"], "RAG_SCOPE_KEY" in error["message"]) == ("ScopeRefused", True)

    monkeypatch.setenv("RAG_SCOPE_KEY", added["key"])
    assert len(rag.json(*SEARCH)["results"]) == 1
    (listed,) = rag.json("scope-key", "list")["keys"]
    assert listed["created_at"] == datetime.fromisoformat(listed["created_at"]).isoformat(), "as rag token list has it"
    assert (listed["id"], listed["here"], listed["retired_at"]) == (added["id"], True, None)
    assert "nothing was changed" in rag("scope-key", "off", answer="n\n").stdout
    assert rag.json("scope-key", "off", "--yes")["changed"] is True
    monkeypatch.delenv("RAG_SCOPE_KEY")
    assert len(rag.json(*SEARCH)["results"]) == 1


def test_a_key_is_replaced_by_another_and_a_retired_one_stays_so(
    rag: Rag, bot: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = new_key()
    monkeypatch.setenv("RAG_SCOPE_KEY", own.text)
    assert rag.json("scope-key", "add") == {"id": own.id, "added": True, "key": None}
    assert rag.json("scope-key", "add")["added"] is False
    assert rag.json("scope-key", "on", "--yes")["required"] is True
    refused = rag.json("scope-key", "retire", own.id, code=2)["error"]["message"]
    assert "rag scope-key add --new" in refused
    printed = rag("scope-key", "add", "--new").stdout
    new = printed.partition("RAG_SCOPE_KEY=")[2].strip()
    assert rag.json("scope-key", "retire", own.id) == {"id": own.id, "retired": True}
    assert rag.json("scope-key", "retire", own.id) == {"id": own.id, "retired": False}
    assert "retired" in rag.json(*SEARCH, code=1)["error"]["message"]
    assert "was retired, and stays so" in rag.json("scope-key", "add", code=2)["error"]["message"]
    monkeypatch.setenv("RAG_SCOPE_KEY", new)
    assert len(rag.json(*SEARCH)["results"]) == 1
    assert "did you mean" in rag.json("scope-key", "retire", own.id[:-1], code=2)["error"]["message"].lower()


def test_no_command_shows_a_key_again(rag: Rag, bot: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    key = new_key()
    monkeypatch.setenv("RAG_SCOPE_KEY", key.text)
    said = ""
    for words in (["add"], ["add"], ["list"], ["on", "--yes"], ["off", "--yes"], ["retire", key.id], ["list"]):
        answer = rag("scope-key", *words)
        said += answer.stdout + answer.stderr + json.dumps(rag.json("scope-key", *words))
    said += rag("config").stdout
    assert key.id in said
    assert key.secret.hex() not in said
