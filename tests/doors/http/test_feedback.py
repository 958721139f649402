"""What helped is noted for who asked, and nobody can speak of another's query."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest

from rag_assets.observing.query_log import QUERY_LOG
from rag_assets.observing.switches import switch
from rag_assets.settings import Settings
from rag_assets.store.database import Database
from tests.doors.http.conftest import Tokens
from tests.support.http_door import Door, error_of

ASKED = {"query": "the recovery code of the main valve"}


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The query log is on."""
    monkeypatch.setenv("RAG_QUERY_LOG", "1")
    switch(Settings())
    yield
    QUERY_LOG.flush(10)
    switch(None)


def noted(world: Database, query_id: str) -> dict[str, bool]:
    with world.connect() as connection:
        row = connection.execute("SELECT feedback FROM rag.query_log WHERE query_id = %s", [query_id]).fetchone()
    return dict(row[0]) if row else {}


@pytest.mark.usefixtures("logged")
def test_feedback_is_noted_replaced_and_taken_back(world: Database, door: Door, made: Callable[..., str]) -> None:
    token = made("gives and asks", may=["search", "feedback"])
    found = door.post("/search", token, ASKED).json()
    query, chunk = found["query_id"], found["results"][0]["chunk_id"]
    for helpful, expected in ((True, {chunk: True}), (False, {chunk: False}), (None, {})):
        answer = door.post("/feedback", token, {"query_id": query, "chunk_id": chunk, "helpful": helpful})
        assert (answer.status_code, answer.json()["helpful"]) == (200, helpful), answer.text
        assert noted(world, query) == expected


@pytest.mark.usefixtures("logged")
def test_nobody_speaks_of_the_query_of_another(
    world: Database, door: Door, tokens: Tokens, made: Callable[..., str]
) -> None:
    mine = made("mine", may=["search", "feedback"])
    found = door.post("/search", tokens.other, ASKED).json()
    hers = door.post("/search", tokens.alice, ASKED).json()
    own = door.post("/search", mine, ASKED).json()
    QUERY_LOG.flush(10)
    for query, chunk in (
        (found["query_id"], found["results"][0]["chunk_id"]), (hers["query_id"], hers["results"][0]["chunk_id"]),
        (own["query_id"], found["results"][0]["chunk_id"]), (str(uuid4()), own["results"][0]["chunk_id"]),
    ):  # fmt: skip
        answer = door.post("/feedback", mine, {"query_id": query, "chunk_id": chunk, "helpful": True})
        assert (answer.status_code, error_of(answer)["type"]) == (404, "NotFound")
        assert noted(world, query) == {}


def test_who_may_only_search_gives_no_feedback_and_what_is_no_id_is_named(
    door: Door, tokens: Tokens, made: Callable[..., str]
) -> None:
    said = {"query_id": str(uuid4()), "chunk_id": str(uuid4()), "helpful": True}
    assert door.post("/feedback", tokens.acme, said).status_code == 403
    token = made("gives", may=["feedback"])
    assert door.post("/feedback", token, said).status_code == 404, "the log is off"
    for name, value in (
        ("query_id", "x"),
        ("chunk_id", "'; --"),
        ("helpful", "yes"),
        ("helpful", 1),
        ("query_id", "\x00"),
    ):
        answer = door.post("/feedback", token, {**said, name: value})
        assert (answer.status_code, error_of(answer)["argument"]) == (400, name)
