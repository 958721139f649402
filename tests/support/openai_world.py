"""Embedders that ask the stand-in for an OpenAI-compatible server, for all tests of them."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rag_assets.embedding.profiles import EmbeddingProfile, make_profile
from rag_assets.embedding.providers.openai import OpenAICompatibleEmbedder
from rag_assets.embedding.providers.requests import RetryPolicy
from tests.support.openai_server import DIMENSIONS, OpenAIServer, openai_server

KEY = "sk-stand-in-0123456789"
TEXTS = ["How do I return a parcel?", "the blue envelope of tenant seven", "日本語 🙂"]
QUICK = RetryPolicy(deadline_seconds=30, attempts=3, attempt_seconds=10, first_wait=0.02, longest_wait=0.1)
Make = Callable[..., OpenAICompatibleEmbedder]


def profile(url: str | None, model: str = "plain", dimensions: int = DIMENSIONS, **fields: Any) -> EmbeddingProfile:
    options = {**({"base_url": url} if url else {}), **fields.pop("options", {})}
    return make_profile(
        name="p", provider="openai-compatible", model=model, dimensions=dimensions, options=options, **fields
    )


def assert_no_secret(error: BaseException) -> None:
    told = "".join(traceback.format_exception(error))
    seen: BaseException | None = error
    while seen is not None:
        told += repr(vars(seen)) + repr(seen.args)
        seen = seen.__context__
    for secret in (KEY, "blue envelope", "stand-in:"):
        assert secret not in told


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with openai_server() as running:
        yield running


@pytest.fixture
def embedder(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Makes embedders that ask the stand-in with a key, and give up soon."""
    monkeypatch.setenv("STAND_IN_KEY", KEY)
    made = []

    def make(policy: RetryPolicy = QUICK, **fields: Any) -> OpenAICompatibleEmbedder:
        options = {"key_env": "STAND_IN_KEY", **fields.pop("options", {})}
        made.append(OpenAICompatibleEmbedder(profile(server.url, options=options, **fields), policy, policy))
        return made[-1]

    yield make
    for one in made:
        one.close()
