"""A stand-in for servers of chat models: OpenAI's `/chat/completions` and Google's `:generateContent`, over real HTTP.

It answers by its script, and then by `thinks`, a rule that makes the answer of what the model is told.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.support.openai_server import Arrived, Behaviour, OpenAIServer, Reply, openai_server

Thinks = Callable[["Asked"], Any]


@dataclass(frozen=True)
class Asked:
    """What a model is told: the rules of the system, the turns, and the schema if the server was given one."""

    system: str
    turns: tuple[tuple[str, str], ...]
    schema: dict[str, Any] | None
    max_tokens: int | None

    @property
    def last(self) -> str:
        return self.turns[-1][1]

    @property
    def data(self) -> list[str]:
        """The texts in the data blocks of the last turn."""
        texts, inside = [], False
        for line in self.last.splitlines():
            inside = (inside or line == "<<<DATA") and line != "DATA>>>"
            if inside and line != "<<<DATA":
                texts.append(json.loads(line))
        return texts


def asked(arrived: Arrived) -> Asked:
    """A request of either protocol."""
    body = arrived.body
    if "contents" in body:
        config = body.get("generationConfig", {})
        system = "".join(part["text"] for part in body.get("systemInstruction", {}).get("parts", []))
        turns = tuple((turn["role"], "".join(part["text"] for part in turn["parts"])) for turn in body["contents"])
        return Asked(system, turns, config.get("responseJsonSchema"), config.get("maxOutputTokens"))
    turns = tuple((one["role"], one["content"]) for one in body["messages"] if one["role"] != "system")
    system = "\n\n".join(one["content"] for one in body["messages"] if one["role"] == "system")
    schema = body.get("response_format", {}).get("json_schema", {}).get("schema")
    return Asked(system, turns, schema, body.get("max_completion_tokens", body.get("max_tokens")))


def says(what: Any, finish: str = "stop", tokens: int | None = 10, written: int | None = None) -> Behaviour:
    """An answer with status 200 whose text this is; what is no text is said as JSON. `written` are those of its
    `tokens` that the server counts as such, if it does."""
    text = what if isinstance(what, str) else json.dumps(what)

    def behave(reply: Reply) -> None:
        if reply.arrived.path.endswith(":generateContent"):
            reason = {"stop": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}[finish]
            candidate = {"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": reason}
            parts = {} if written is None else {"candidatesTokenCount": written - 1, "thoughtsTokenCount": 1}
            usage = {"usageMetadata": {"totalTokenCount": tokens, **parts}} if tokens else {}
            return reply.send({"candidates": [candidate], **usage}, headers={"Content-Type": "application/json"})
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
        told = {"total_tokens": tokens, **({} if written is None else {"completion_tokens": written})}
        reply.send({"choices": [choice], **({"usage": told} if tokens else {})})

    return behave


def refuses(reply: Reply) -> None:
    """The model does not want to talk about it."""
    if reply.arrived.path.endswith(":generateContent"):
        return reply.send({"promptFeedback": {"blockReason": "SAFETY"}})
    message = {"role": "assistant", "content": None, "refusal": "I cannot help with the blue envelope."}
    reply.send({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})


def after(seconds: float, behaviour: Behaviour) -> Behaviour:
    """The same, late."""

    def behave(reply: Reply) -> None:
        reply.stopping.wait(seconds)
        behaviour(reply)

    return behave


def knows_no_schemas(behaviour: Behaviour) -> Behaviour:
    """Refuses requests with a schema, as older servers do; answers the others."""

    def behave(reply: Reply) -> None:
        if asked(reply.arrived).schema is None:
            return behaviour(reply)
        reply.send({"error": {"code": 400, "message": "unknown field response_format", "status": "INVALID"}}, 400)

    return behave


@dataclass
class ChatServer:
    """The server's script, its rule and its records."""

    http: OpenAIServer
    thinks: Thinks

    @property
    def url(self) -> str:
        """Up to and with `/v1`."""
        return self.http.url

    @property
    def google_url(self) -> str:
        return self.http.url.removesuffix("/v1")

    def will(self, *behaviours: Behaviour) -> None:
        """Answer the next requests so."""
        self.http.script.extend(behaviours)

    @property
    def asked(self) -> list[Asked]:
        """The requests so far."""
        return [asked(one) for one in self.http.arrived]


@contextmanager
def chat_server(
    thinks: Thinks = lambda _: "yes", tokens: int | None = 10, written: int | None = None
) -> Iterator[ChatServer]:
    """Run a server on a free port, which counts so many tokens for each answer."""

    def usual(reply: Reply) -> None:
        says(server.thinks(asked(reply.arrived)), tokens=tokens, written=written)(reply)

    with openai_server(usual) as http:
        server = ChatServer(http, thinks)
        yield server
