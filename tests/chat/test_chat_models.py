"""A chat model gives what was asked for, or one typed error in time, which tells nothing that is secret."""

from __future__ import annotations

import json
import logging
import threading
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from rag_assets.chat.google import GoogleChat
from rag_assets.chat.openai import OpenAIChat
from rag_assets.chat.protocol import ChatMessage
from rag_assets.errors import ChatError, InvalidArgument, ModelNonsense, ModelRefused, ModelUnavailable
from tests.support import openai_server as http
from tests.support.chat_server import ChatServer, after, chat_server, knows_no_schemas, refuses, says
from tests.support.chat_world import KEY, PROTOCOLS, chat_model

Chat = GoogleChat | OpenAIChat
SCHEMA = {
    "type": "object",
    "properties": {"colour": {"type": "string"}},
    "required": ["colour"],
    "additionalProperties": False,
}
MESSAGES = [
    ChatMessage("system", "Name colours."),
    ChatMessage("user", "the blue envelope"),
    ChatMessage("assistant", "blue"),
    ChatMessage("user", "and 日本語 🙂?"),
]


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with chat_server() as running:
        yield running


@pytest.fixture(params=PROTOCOLS)
def chat(request: pytest.FixtureRequest, server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Chat]:
    with chat_model(server, monkeypatch, request.param) as made:
        yield made


def test_the_turns_arrive_as_they_were_given_and_the_answer_comes_back(chat: Chat, server: ChatServer) -> None:
    server.will(says("green 🙂", tokens=33))
    answer = chat.complete(MESSAGES, max_tokens=77)
    assert (answer.text, answer.data, answer.tokens) == ("green 🙂", None, 33)
    (asked,) = server.asked
    assert asked.system == "Name colours."
    assert [text for _, text in asked.turns] == [one.text for one in MESSAGES[1:]]
    assert [role for role, _ in asked.turns] in (["user", "model", "user"], ["user", "assistant", "user"])
    assert (asked.schema, asked.max_tokens) == (None, 77)


def test_tokens_are_estimated_where_the_server_counts_none(chat: Chat, server: ChatServer) -> None:
    server.will(says("x" * 400, tokens=None))
    assert 100 <= chat.complete([ChatMessage("user", "y" * 400)]).tokens <= 220


@pytest.mark.parametrize(
    "text",
    [
        '{"colour": "blue"}',
        '```json\n{"colour": "blue"}\n```',
        'Sure! Here it is: {"colour": "blue"} I hope that helps {you}.',
        '{not json} {"colour": "blue"}',
        '<think>Is it {"colour": "red"}? No.</think>\n{"colour": "blue"}',
    ],
)
def test_an_object_is_read_however_a_model_wraps_it(chat: Chat, server: ChatServer, text: str) -> None:
    server.will(says(text))
    assert chat.complete(MESSAGES, schema=SCHEMA).data == {"colour": "blue"}


def test_the_schema_is_told_to_the_server_and_to_the_model(chat: Chat, server: ChatServer) -> None:
    server.will(says({"colour": "blue"}))
    chat.complete(MESSAGES, schema=SCHEMA)
    (asked,) = server.asked
    assert asked.schema == SCHEMA
    assert json.dumps(SCHEMA) in asked.system


def test_a_server_that_knows_no_schemas_is_asked_without_from_then_on(chat: Chat, server: ChatServer) -> None:
    server.will(*[knows_no_schemas(says({"colour": "blue"}))] * 3)
    assert chat.complete(MESSAGES, schema=SCHEMA).data == {"colour": "blue"}
    assert chat.complete(MESSAGES, schema=SCHEMA).data == {"colour": "blue"}
    assert [asked.schema is None for asked in server.asked] == [False, True, True]
    assert all(json.dumps(SCHEMA) in asked.system for asked in server.asked)


@pytest.mark.parametrize(
    "text",
    ["", " \n", "no object", "[1, 2]", '"colour"', '{"colour": NaN}', '{"colour": "bl', "{" * 100_000, '{"a":' * 9_000],
)
def test_what_is_no_object_is_nonsense(chat: Chat, server: ChatServer, text: str) -> None:
    server.will(says(text))
    started = time.monotonic()
    with pytest.raises(ModelNonsense):
        chat.complete(MESSAGES, schema=SCHEMA)
    assert len(server.asked) == 1
    assert time.monotonic() - started < 20


@pytest.mark.parametrize(
    ("behaviour", "error"),
    [
        (says("half a sen", finish="length"), ModelNonsense),
        (says("", finish="content_filter"), ModelRefused),
        (refuses, ModelRefused),
        (http.body(b"<html>", 200), ModelUnavailable),
        (http.body({"what": "is this"}), ModelNonsense),
        (http.body({"choices": [7], "candidates": []}), ModelNonsense),
        (http.body(b'{"choices": "' + b"x" * 5 * 2**20), ModelNonsense),
        (http.error(400), ModelRefused),
        (http.error(401), ModelRefused),
        (http.error(404), ModelRefused),
        (http.error(429), ModelUnavailable),
        (http.error(429, {"Retry-After": "3600"}), ModelUnavailable),
        (http.error(503), ModelUnavailable),
        (http.error(307, {"Location": "http://127.0.0.1:9/"}), ModelRefused),
        (http.reset, ModelUnavailable),
        (http.close_in_the_body, ModelUnavailable),
        (http.silence, ModelUnavailable),
        (http.drip, ModelUnavailable),
    ],
)
def test_every_fault_is_a_typed_error_in_time_that_tells_no_secret(
    chat: Chat, server: ChatServer, caplog: pytest.LogCaptureFixture, behaviour: Any, error: type[ChatError]
) -> None:
    caplog.set_level(logging.DEBUG)
    server.will(behaviour, behaviour, behaviour)
    started = time.monotonic()
    with pytest.raises(error) as caught:
        chat.complete(MESSAGES, limit_s=1.5)
    assert time.monotonic() - started < 15
    assert chat.name in str(caught.value) or "no answer" in str(caught.value)
    told = "".join(traceback.format_exception(caught.value)) + caplog.text
    seen: BaseException | None = caught.value
    while seen is not None:
        told += repr(vars(seen)) + repr(seen.args)
        seen = seen.__context__
    for secret in (KEY, "blue envelope", "stand-in:"):
        assert secret not in told


@pytest.mark.parametrize("behaviour", [http.error(503), http.error(429), http.reset, http.body(b"<html>")])
def test_what_may_pass_is_tried_once_more(chat: Chat, server: ChatServer, behaviour: Any) -> None:
    server.will(behaviour, says("blue"))
    assert chat.complete(MESSAGES).text == "blue"
    server.will(behaviour, behaviour, says("blue"))
    with pytest.raises(ModelUnavailable):
        chat.complete(MESSAGES)


def test_what_is_refused_is_not_tried_again(chat: Chat, server: ChatServer) -> None:
    server.will(http.error(401), says("blue"))
    with pytest.raises(ModelRefused):
        chat.complete(MESSAGES)
    assert len(server.asked) == 1


def test_a_server_that_is_down_is_unavailable() -> None:
    with chat_server() as gone:
        url = gone.url
    with closing(OpenAIChat("m", base_url=url)) as away, pytest.raises(ModelUnavailable):
        away.complete(MESSAGES, limit_s=5)


def test_many_threads_share_one_model(chat: Chat, server: ChatServer) -> None:
    server.thinks = lambda asked: asked.last
    meeting = threading.Barrier(12, timeout=60)

    def ask(number: int) -> str:
        meeting.wait()
        return chat.complete([ChatMessage("user", f"number {number}")]).text

    with ThreadPoolExecutor(12) as pool:
        assert list(pool.map(ask, range(12))) == [f"number {number}" for number in range(12)]


def test_a_late_answer_is_not_waited_for(chat: Chat, server: ChatServer) -> None:
    server.will(after(30, says("blue")))
    started = time.monotonic()
    with pytest.raises(ModelUnavailable):
        chat.complete(MESSAGES, limit_s=0.3)
    assert time.monotonic() - started < 15


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [ChatMessage("system", "alone")]}, "messages"),
        ({"messages": "text"}, "messages"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"limit_s": 0}, "limit_s"),
        ({"limit_s": float("nan")}, "limit_s"),
        ({"limit_s": float("inf")}, "limit_s"),
    ],
)
def test_wrong_arguments_are_named_and_nothing_is_sent(
    chat: Chat, server: ChatServer, arguments: dict[str, Any], named: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        chat.complete(**{"messages": MESSAGES, **arguments})
    assert caught.value.argument == named
    assert server.asked == []


@pytest.mark.parametrize(
    "make",
    [
        lambda: OpenAIChat("", base_url="http://x/v1"),
        lambda: OpenAIChat("m", base_url="ftp://x"),
        lambda: OpenAIChat("m", base_url="https://user:sk-secret@x/v1"),
        lambda: OpenAIChat("m", base_url="https://x/v1?key=sk-secret"),
        lambda: OpenAIChat("m", api_key_env="sk-secret"),
        lambda: GoogleChat("gemini", api_key_env="sk-secret"),
        lambda: GoogleChat("gemini/../../x y"),
    ],
)
def test_what_cannot_be_a_model_or_holds_a_key_is_refused_without_repeating_the_key(make: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        make()
    assert "sk-secret" not in str(caught.value)


def test_a_missing_key_names_its_variable(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MISSING_KEY", raising=False)
    asks = GoogleChat("g", api_key_env="MISSING_KEY"), OpenAIChat("o", base_url=server.url, api_key_env="MISSING_KEY")
    for chat in asks:
        with pytest.raises(ModelRefused, match="set MISSING_KEY in the environment"):
            chat.complete(MESSAGES)
    assert server.asked == []


def test_a_server_of_ones_own_gets_no_key_that_was_not_named_for_it(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with closing(OpenAIChat("m", base_url=server.url)) as chat:
        chat.complete(MESSAGES)
    assert "authorization" not in server.http.arrived[0].headers
