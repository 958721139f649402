"""`rag token`: a token is shown once, told apart by its name, and taken back by any of the names it has."""

from __future__ import annotations

import contextlib
from datetime import datetime, timedelta

import pytest

from rag_assets.store.database import Database
from rag_assets.store.tokens import hash_of, is_well_formed
from tests.support.command_line import Rag

TENANT = "tokens"
ADD = ("--tenant", TENANT, "--bot", "b")


@pytest.fixture(autouse=True)
def _tenant(rag: Rag) -> None:
    rag.json("tenant", "add", TENANT, "--bot", "b")
    for one in rag.json("token", "list", "--tenant", TENANT)["tokens"]:
        rag.json("token", "revoke", one["id"])


def states(rag: Rag, *words: str) -> dict[str, str]:
    """The state of each token that is not revoked, by name."""
    found = rag.json("token", "list", *words)["tokens"]
    return {one["name"]: one["state"] for one in found if one["state"] != "revoked"}


def test_a_token_is_shown_once_and_only_its_hash_is_kept(rag: Rag) -> None:
    made = rag.json("token", "add", "web", *ADD, "--may", "push, search", "--user", "ann@acme.example")
    assert is_well_formed(made["token"])
    assert {"id", "name", "tenant", "bot", "user", "may", "expires_at", "created_at", "token"} == set(made)
    assert (made["user"], made["may"]) == ("ann@acme.example", ["search", "push"])
    listed = rag("token", "list", "--json").stdout + rag("token", "list").stdout
    assert made["id"] in listed
    assert made["token"] not in listed
    with contextlib.closing(Database.from_settings()) as database, database.connect() as connection:
        rows = connection.execute("SELECT t::text FROM rag.api_tokens t").fetchall()
    kept = "\n".join(row[0] for row in rows)
    assert made["token"] not in kept
    assert hash_of(made["token"]).hex() in kept


@pytest.mark.parametrize(
    ("words", "days"),
    [((), 90), (("--expires", "12h"), 0.5), (("--expires", "2w"), 14), (("--expires", "never"), None)],
)
def test_a_token_ends_when_it_was_said_to(rag: Rag, words: tuple[str, ...], days: float | None) -> None:
    made = rag.json("token", "add", "ends", *ADD, *words)
    assert made["may"] == ["search"]
    if days is None:
        assert made["expires_at"] is None
        assert "never" in rag("token", "list", "--tenant", TENANT).stdout
    else:
        lives = datetime.fromisoformat(made["expires_at"]) - datetime.fromisoformat(made["created_at"])
        assert lives == timedelta(days=days)


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--expires", "90"), "--expires"), (("--expires", "0d"), "--expires"), (("--expires", "99999d"), "--expires"),
        (("--expires", "-1d"), "--expires"), (("--expires", "soon"), "--expires"),
        (("--may", "search,delete"), "delete"),
        (("--may", ""), "--may"), (("--may", ","), "--may"), (("--user", ""), "user"), (("--user", "a\x1bb"), "user"),
    ],
)  # fmt: skip
def test_what_no_token_can_be_is_refused_and_nothing_is_made(rag: Rag, words: tuple[str, ...], part: str) -> None:
    assert part in rag.error("token", "add", "wrong", *ADD, *words)[1]
    for name in ("", " ", "a\nb", "x" * 101):
        assert rag.error("token", "add", name, *ADD)[0] == "InvalidArgument"
    assert states(rag, "--tenant", TENANT) == {}


def test_a_name_is_told_apart_in_its_tenant_and_free_again_after_a_revocation(rag: Rag) -> None:
    first = rag.json("token", "add", "web", *ADD)
    kind, message = rag.error("token", "add", "web", *ADD)
    assert kind == "UsageError"
    assert f"rag token revoke web --tenant {TENANT}" in message
    rag.json("tenant", "add", f"{TENANT}-2", "--bot", "b")
    rag.json("token", "add", "web", "--tenant", f"{TENANT}-2", "--bot", "b")
    rag.json("token", "revoke", "web", "--tenant", f"{TENANT}-2")
    assert rag.json("token", "revoke", "web", "--tenant", TENANT)["id"] == first["id"]
    second = rag.json("token", "add", "web", *ADD)
    assert second["id"] != first["id"]
    assert rag.json("token", "revoke", "web", "--tenant", TENANT)["id"] == second["id"]


def test_a_token_is_taken_back_by_its_id_its_name_and_itself_and_once(rag: Rag) -> None:
    made = {name: rag.json("token", "add", name, *ADD) for name in ("by-id", "by-name", "by-itself", "stays")}
    for words in ((made["by-id"]["id"],), ("by-name", "--tenant", TENANT), (made["by-itself"]["token"],)):
        told = rag.json("token", "revoke", *words)
        assert (told["state"], told["revoked"]) == ("revoked", True)
        assert rag.json("token", "revoke", *words)["revoked"] is False
    assert states(rag, "--tenant", TENANT) == {"stays": "active"}
    assert "did you mean 'stays'" in rag.error("token", "revoke", "stay", "--tenant", TENANT)[1]
    assert "--tenant" in rag.error("token", "revoke", "stays")[1]
    assert "no such token" in rag.error("token", "revoke", "00000000-0000-0000-0000-000000000000")[1]


def test_a_token_of_a_bot_that_there_is_not_is_not_made(rag: Rag) -> None:
    assert rag.error("token", "add", "web", "--tenant", TENANT, "--bot", "x")[0] == "UnknownBot"
    assert rag.error("token", "add", "web", "--tenant", "tokenz", "--bot", "b")[0] == "UnknownTenant"


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("careful",), "a name and a file"), (("=x.toml",), "retriever key"),
        (("A=x.toml",), "retriever key"), (("careful=none.toml",), "none.toml"),
    ],
)  # fmt: skip
def test_a_retriever_that_cannot_be_served_is_named_before_anything_is(
    rag: Rag, words: tuple[str, ...], part: str
) -> None:
    assert part in rag.error("serve", "--retriever", *words)[1]


def test_the_list_shows_ids_whole_however_much_else_it_shows(rag: Rag) -> None:
    words = ("--may", "search,feedback,push", "--user", "a-user-with-a-long-name@acme.example")
    made = rag.json("token", "add", "the-server-of-the-shop-in-the-north", *ADD, *words)
    assert made["id"] in rag("token", "list", "--tenant", TENANT).stdout
