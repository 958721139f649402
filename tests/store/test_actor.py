"""The audit of a profile names the person, and not the login that all share."""

from __future__ import annotations

import os
import pwd

import pytest

from rag_assets.ingest.pairs import enable_pair
from rag_assets.store.database import Database
from rag_assets.store.tenants import add_tenant

BIDI = "\N{RIGHT-TO-LEFT OVERRIDE}"


def actors(database: Database) -> list[str]:
    with database.work("acme") as connection:
        return [row[0] for row in connection.execute("SELECT actor FROM rag.profile_events ORDER BY id").fetchall()]


def build(database: Database, profile: str) -> None:
    add_tenant(database, "acme", "support")
    enable_pair(database, "acme", "support", profile)


def test_an_event_names_the_user_of_the_operating_system(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAG_ACTOR", raising=False)
    monkeypatch.setenv("USER", "somebody-else")
    build(database, "hash-64")
    assert actors(database) == [pwd.getpwuid(os.geteuid()).pw_name]


def test_an_event_names_who_is_set_as_the_actor_at_that_moment(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    for actor, profile in (("ann@example.org", "hash-64"), (f"Bob {BIDI}\n\x1b[31m" + "b" * 300, "static-64")):
        monkeypatch.setenv("RAG_ACTOR", actor)
        build(database, profile)
    first, second = actors(database)
    assert first == "ann@example.org"
    assert (second[:4], second[-1], len(second)) == ("Bob ", "b", 200)
    assert second.isprintable()
