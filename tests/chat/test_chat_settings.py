"""What a model is told of temperature and thinking is what was asked for, and nothing where nothing was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from rag_assets.chat.google import GoogleChat
from rag_assets.chat.openai import OpenAIChat
from rag_assets.chat.protocol import ChatMessage
from rag_assets.errors import InvalidArgument
from rag_assets.retrieval.files import make_part
from rag_assets.store.database import Database
from tests.support.chat_server import ChatServer, chat_server, knows_no_schemas, says
from tests.support.chat_world import Protocol, chat_model

MESSAGES = [ChatMessage("user", "which colour?")]
SCHEMA = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with chat_server(lambda _: "{}") as running:
        yield running


def _told(server: ChatServer) -> list[dict[str, Any]]:
    """What each request says of temperature and thinking, in the words of its protocol."""
    fields = ("temperature", "thinkingConfig", "reasoning_effort")
    bodies = [one.body.get("generationConfig", one.body) for one in server.http.arrived]
    return [{name: _plain(body[name]) for name in fields if name in body} for body in bodies]


def _plain(value: Any) -> Any:
    """Google's API takes a field's name in both spellings, and so its SDK sends either."""
    return {name.replace("_", "").lower(): one for name, one in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize(
    ("protocol", "settings", "told"),
    [
        ("openai", {}, {}),
        ("google", {}, {}),
        ("openai", {"temperature": 0}, {"temperature": 0}),
        ("google", {"temperature": 0}, {"temperature": 0}),
        ("openai", {"temperature": 1.5, "thinking": "low"}, {"temperature": 1.5, "reasoning_effort": "low"}),
        ("openai", {"thinking": "none"}, {"reasoning_effort": "none"}),
        ("google", {"thinking": 0}, {"thinkingConfig": {"thinkingbudget": 0}}),
        ("google", {"thinking": -1}, {"thinkingConfig": {"thinkingbudget": -1}}),
        (
            "google",
            {"thinking": "low", "temperature": 2},
            {"thinkingConfig": {"thinkinglevel": "LOW"}, "temperature": 2},
        ),
    ],
)
def test_what_was_set_is_in_every_request_and_nothing_else(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch, protocol: Protocol, settings: dict[str, Any], told: object
) -> None:
    with chat_model(server, monkeypatch, protocol, **settings) as chat:
        chat.complete(MESSAGES)
        server.will(knows_no_schemas(says("{}")))
        chat.complete(MESSAGES, schema=SCHEMA)  # asked with a schema, and then without
    assert _told(server) == [told] * 3


@pytest.mark.parametrize(
    ("make", "settings", "named"),
    [
        *((make, {"temperature": value}, "temperature") for make in (OpenAIChat, GoogleChat) for value in (
            -0.1, 2.1, float("nan"), True, "0",
        )),
        *((OpenAIChat, {"thinking": value}, "thinking") for value in (0, "lots", "", True)),
        *((GoogleChat, {"thinking": value}, "thinking") for value in (-2, 32_769, "none", 1.5, True)),
    ],
)  # fmt: skip
def test_what_no_provider_takes_is_refused_when_the_model_is_made(
    make: type[OpenAIChat | GoogleChat], settings: dict[str, Any], named: str
) -> None:
    with pytest.raises(InvalidArgument, match=f"^{named} must be") as caught:
        make("m", **settings)
    assert caught.value.argument == named


def test_a_file_sets_them(server: ChatServer) -> None:
    nowhere = Database("postgresql://nobody@127.0.0.1:9/none")
    spec = {"kind": "openai_chat", "model": "m", "base_url": server.url, "temperature": 0.5, "thinking": "low"}
    with closing(make_part(nowhere, spec, "f.toml")) as chat:
        chat.complete(MESSAGES)
    assert _told(server) == [{"temperature": 0.5, "reasoning_effort": "low"}]
