"""Chat models that ask the stand-in, one behind each protocol."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import pytest

from rag_assets.chat.google import GoogleChat
from rag_assets.chat.openai import OpenAIChat
from tests.support.chat_server import ChatServer

KEY = "sk-stand-in-0123456789"
Protocol = Literal["google", "openai"]
PROTOCOLS: tuple[Protocol, ...] = ("google", "openai")


@contextmanager
def chat_model(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch, protocol: Protocol = "openai", **settings: Any
) -> Iterator[GoogleChat | OpenAIChat]:
    """A model that asks the server with a key, closed at the end."""
    monkeypatch.setenv("STAND_IN_KEY", KEY)
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.google_url)
    made: GoogleChat | OpenAIChat
    if protocol == "google":
        made = GoogleChat("gemini-of-tests", api_key_env="STAND_IN_KEY", **settings)
    else:
        made = OpenAIChat("of-tests", base_url=server.url, api_key_env="STAND_IN_KEY", **settings)
    yield made
    made.close()
